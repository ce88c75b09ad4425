// Q6_K: superblocks of 256, one half scale, 16 int8 scales of 16 elements each.
#include <cstdint>

#include "kernels/quant_blocks.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/rows.h"
#include "kernels/scalar/scalar.h"
#include "kernels/scalar/tile.h"

namespace veneer::kernels::scalar {
namespace {

struct Q6_K {
  static constexpr std::uint64_t kBlock = 256;

  static const BlockQ6_K& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ6_K*>(row)[b / 8]; }

  // Element 32 g + l of a superblock, -32..31.
  static int Integer(const BlockQ6_K& block, int g, int l) {
    const int h = g / 4, k = g % 4;
    const int low = block.ql[64 * h + 32 * (k % 2) + l] >> (k < 2 ? 0 : 4) & 15;
    const int high = block.qh[32 * h + l] >> 2 * k & 3;
    return (low | high << 4) - 32;
  }

  // (d scale) q, each exact: 11 + 7 + 5 bits.
  static void Decode32(const void* row, std::uint64_t b, float* out) {
    const BlockQ6_K& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    const float d = Load(block.d);
    for (int l = 0; l < 32; ++l) out[l] = d * static_cast<float>(block.scales[2 * g + l / 16]) * static_cast<float>(Integer(block, g, l));
  }

  // |integer sum| <= 2 x 128 x 16 x 32 x 127 = 16 646 144 < 2^24: its conversion to f32 is exact.
  static float AddBlock(const void* row, std::uint64_t b, const std::int8_t* x, float d, std::int32_t /*sum*/, float total) {
    const BlockQ6_K& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    std::int32_t dot = 0;
    for (int l = 0; l < 32; ++l) dot += block.scales[2 * g + l / 16] * Integer(block, g, l) * x[l];
    return __builtin_fmaf(static_cast<float>(dot), Load(block.d) * d, total);
  }
};

}  // namespace

const TypeKernels kQ6_K = {DequantizeRow<Q6_K>, DotRows<Q6_K>, DotRowsQ8<Q6_K>, MultiplyTile<Q6_K>};

}  // namespace veneer::kernels::scalar
