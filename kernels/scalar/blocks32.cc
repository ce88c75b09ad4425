// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL: blocks of 32 with one scale, and a minimum in the _1 types.
#include <cstdint>

#include "kernels/quant_blocks.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/rows.h"
#include "kernels/scalar/scalar.h"
#include "kernels/scalar/tile.h"

namespace veneer::kernels::scalar {
namespace {

int Nibble(const std::uint8_t* qs, int j) { return j < 16 ? qs[j] & 15 : qs[j - 16] >> 4; }
int FifthBit(const std::uint8_t* qh, int j) { return (qh[j / 8] >> (j % 8) & 1) << 4; }

int Integer(const BlockQ4_0& block, int j) { return Nibble(block.qs, j) - 8; }
int Integer(const BlockQ4_1& block, int j) { return Nibble(block.qs, j); }
int Integer(const BlockQ5_0& block, int j) { return (Nibble(block.qs, j) | FifthBit(block.qh, j)) - 16; }
int Integer(const BlockQ5_1& block, int j) { return Nibble(block.qs, j) | FifthBit(block.qh, j); }
int Integer(const BlockQ8_0& block, int j) { return block.qs[j]; }
int Integer(const BlockIq4Nl& block, int j) { return kIq4NlValues[Nibble(block.qs, j)]; }

// q d is exact: at most 8 bits times 11.
template <class Block>
struct Blocks32 {
  static constexpr std::uint64_t kBlock = 32;
  static constexpr bool kHasMinimum = requires(Block block) { block.m; };

  static const Block& At(const void* row, std::uint64_t b) { return static_cast<const Block*>(row)[b]; }

  static void Decode32(const void* row, std::uint64_t b, float* out) {
    const Block& block = At(row, b);
    const float d = Load(block.d);
    for (int j = 0; j < 32; ++j) {
      const float scaled = static_cast<float>(Integer(block, j)) * d;
      if constexpr (kHasMinimum) {
        out[j] = scaled + Load(block.m);
      } else {
        out[j] = scaled;
      }
    }
  }

  // |integer sum| <= 32 x 128 x 127 < 2^24: its conversion to f32 is exact.
  static float AddBlock(const void* row, std::uint64_t b, const std::int8_t* x, float d, [[maybe_unused]] std::int32_t sum, float total) {
    const Block& block = At(row, b);
    std::int32_t dot = 0;
    for (int j = 0; j < 32; ++j) dot += Integer(block, j) * x[j];
    total = __builtin_fmaf(static_cast<float>(dot), Load(block.d) * d, total);
    if constexpr (kHasMinimum) total = __builtin_fmaf(static_cast<float>(sum), Load(block.m) * d, total);
    return total;
  }
};

template <class Block>
constexpr TypeKernels Make() {
  using Type = Blocks32<Block>;
  return {DequantizeRow<Type>, DotRows<Type>, DotRowsQ8<Type>, MultiplyTile<Type>};
}

}  // namespace

const TypeKernels kQ4_0 = Make<BlockQ4_0>();
const TypeKernels kQ4_1 = Make<BlockQ4_1>();
const TypeKernels kQ5_0 = Make<BlockQ5_0>();
const TypeKernels kQ5_1 = Make<BlockQ5_1>();
const TypeKernels kQ8_0 = Make<BlockQ8_0>();
const TypeKernels kIq4Nl = Make<BlockIq4Nl>();

}  // namespace veneer::kernels::scalar
