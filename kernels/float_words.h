// The floating-point types as they are stored, for scalar code that is written once for all of them.
#ifndef VENEER_KERNELS_FLOAT_WORDS_H_
#define VENEER_KERNELS_FLOAT_WORDS_H_

#include <cstdint>

#include "kernels/kernels.h"

namespace veneer::kernels::words {

struct F32 {
  using Word = float;
  static float Value(Word word) { return word; }
};
struct F16 {
  using Word = std::uint16_t;
  static float Value(Word word) { return HalfToFloat(word); }
};
struct BF16 {
  using Word = std::uint16_t;
  static float Value(Word word) { return Bf16ToFloat(word); }
};

}  // namespace veneer::kernels::words

#endif  // VENEER_KERNELS_FLOAT_WORDS_H_
