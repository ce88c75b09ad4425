// IEEE binary16 <-> binary32 in integer arithmetic, with the results of the F16C instructions: subnormals kept, round to nearest even,
// a NaN keeps its sign and leading payload bits and becomes quiet.
#ifndef VENEER_KERNELS_SCALAR_HALF_H_
#define VENEER_KERNELS_SCALAR_HALF_H_

#include <cstdint>

#include "kernels/quant_blocks.h"

namespace veneer::kernels::scalar {

inline float BitsToFloat(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t FloatToBits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

inline float WidenHalf(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude < 0x0400u) {  // zero or subnormal: magnitude x 2^-24, exact in f32
    return BitsToFloat(FloatToBits(static_cast<float>(magnitude) * 0x1p-24f) | sign);
  }
  if (magnitude < 0x7c00u) return BitsToFloat(sign | ((magnitude << 13) + (112u << 23)));
  const std::uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0;
  return BitsToFloat(sign | 0x7f800000u | (magnitude << 13) | quiet);
}

inline std::uint16_t NarrowToHalf(float value) {
  const std::uint32_t bits = FloatToBits(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal half: round the 13 dropped bits to even; a carry walks into the exponent
    half = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  } else {  // adding 0.5 puts the last bit at 2^-24, the step of subnormal halves, and rounds to even there
    half = FloatToBits(BitsToFloat(magnitude) + 0.5f) - FloatToBits(0.5f);
  }
  return static_cast<std::uint16_t>(sign | half);
}

inline float Load(const StoredHalf& half) { return WidenHalf(static_cast<std::uint16_t>(half.bytes[0] | half.bytes[1] << 8)); }

}  // namespace veneer::kernels::scalar

#endif  // VENEER_KERNELS_SCALAR_HALF_H_
