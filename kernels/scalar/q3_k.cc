// Q3_K: superblocks of 256, one half scale, 16 signed six-bit scales of 16 elements each.
#include <cstdint>

#include "kernels/quant_blocks.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/rows.h"
#include "kernels/scalar/scalar.h"
#include "kernels/scalar/tile.h"

namespace veneer::kernels::scalar {
namespace {

struct Q3_K {
  static constexpr std::uint64_t kBlock = 256;

  static const BlockQ3_K& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ3_K*>(row)[b / 8]; }

  // -4..3.
  static int Integer(const BlockQ3_K& block, int g, int l) {
    return (block.qs[32 * (g / 4) + l] >> 2 * (g % 4) & 3) + 4 * (block.hmask[l] >> g & 1) - 4;
  }

  // -32..31.
  static int Scale(const BlockQ3_K& block, int g, int l) {
    const int n = 2 * g + l / 16;
    const int low = block.scales[n % 8] >> (n < 8 ? 0 : 4) & 15;
    const int high = block.scales[8 + n % 4] >> 2 * (n / 4) & 3;
    return (low | high << 4) - 32;
  }

  // (d scale) q, each exact: 11 + 5 + 2 bits.
  static void Decode32(const void* row, std::uint64_t b, float* out) {
    const BlockQ3_K& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    const float d = Load(block.d);
    for (int l = 0; l < 32; ++l) out[l] = d * static_cast<float>(Scale(block, g, l)) * static_cast<float>(Integer(block, g, l));
  }

  // |dot| <= 32 x 32 x 4 x 127: its conversion to f32 is exact.
  static float AddBlock(const void* row, std::uint64_t b, const std::int8_t* x, float d, std::int32_t /*sum*/, float total) {
    const BlockQ3_K& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    std::int32_t dot = 0;
    for (int l = 0; l < 32; ++l) dot += Scale(block, g, l) * Integer(block, g, l) * x[l];
    return __builtin_fmaf(static_cast<float>(dot), Load(block.d) * d, total);
  }
};

}  // namespace

const TypeKernels kQ3_K = {DequantizeRow<Q3_K>, DotRows<Q3_K>, DotRowsQ8<Q3_K>, MultiplyTile<Q3_K>};

}  // namespace veneer::kernels::scalar
