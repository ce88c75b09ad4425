// Q4_K, Q5_K: superblocks of 256, 8 pairs of a scale and a minimum, six bits each, for 32 elements a pair.
#include <cstdint>

#include "kernels/quant_blocks.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/rows.h"
#include "kernels/scalar/scalar.h"
#include "kernels/scalar/tile.h"

namespace veneer::kernels::scalar {
namespace {

struct ScaleAndMinimum {
  int scale, minimum;
};

ScaleAndMinimum Unpack(const std::uint8_t* s, int g) {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | s[g - 4] >> 6 << 4, s[g + 4] >> 4 | s[g] >> 6 << 4};
}

int Integer(const BlockQ4_K& block, int g, int l) { return block.qs[32 * (g / 2) + l] >> 4 * (g % 2) & 15; }
int Integer(const BlockQ5_K& block, int g, int l) { return (block.qs[32 * (g / 2) + l] >> 4 * (g % 2) & 15) | (block.qh[l] >> g & 1) << 4; }

template <class Block>
struct Superblocks {
  static constexpr std::uint64_t kBlock = 256;

  static const Block& At(const void* row, std::uint64_t b) { return static_cast<const Block*>(row)[b / 8]; }

  // Both products are exact, 11 + 6 + 5 and 11 + 6 bits; their difference rounds once.
  static void Decode32(const void* row, std::uint64_t b, float* out) {
    const Block& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    const ScaleAndMinimum pair = Unpack(block.scales, g);
    const float d = Load(block.d) * static_cast<float>(pair.scale), m = Load(block.dmin) * static_cast<float>(pair.minimum);
    for (int l = 0; l < 32; ++l) out[l] = d * static_cast<float>(Integer(block, g, l)) - m;
  }

  // |scale dot| <= 63 x 31 x 32 x 127 = 7 936 992 < 2^24 and |minimum sum| <= 63 x 32 x 127: both convert to f32 exactly.
  static float AddBlock(const void* row, std::uint64_t b, const std::int8_t* x, float d, std::int32_t sum, float total) {
    const Block& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    const ScaleAndMinimum pair = Unpack(block.scales, g);
    std::int32_t dot = 0;
    for (int l = 0; l < 32; ++l) dot += Integer(block, g, l) * x[l];
    total = __builtin_fmaf(static_cast<float>(pair.scale * dot), Load(block.d) * d, total);
    return __builtin_fmaf(static_cast<float>(pair.minimum * sum), -(Load(block.dmin) * d), total);
  }
};

using Q4_K = Superblocks<BlockQ4_K>;
using Q5_K = Superblocks<BlockQ5_K>;

}  // namespace

const TypeKernels kQ4_K = {DequantizeRow<Q4_K>, DotRows<Q4_K>, DotRowsQ8<Q4_K>, MultiplyTile<Q4_K>};
const TypeKernels kQ5_K = {DequantizeRow<Q5_K>, DotRows<Q5_K>, DotRowsQ8<Q5_K>, MultiplyTile<Q5_K>};

}  // namespace veneer::kernels::scalar
