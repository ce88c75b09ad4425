// Q2_K: superblocks of 256, 16 pairs of a scale and a minimum, four bits each.
#include <cstdint>

#include "kernels/quant_blocks.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/rows.h"
#include "kernels/scalar/scalar.h"
#include "kernels/scalar/tile.h"

namespace veneer::kernels::scalar {
namespace {

struct Q2_K {
  static constexpr std::uint64_t kBlock = 256;

  static const BlockQ2_K& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ2_K*>(row)[b / 8]; }
  static int Integer(const BlockQ2_K& block, int g, int l) { return block.qs[32 * (g / 4) + l] >> 2 * (g % 4) & 3; }
  static int Scale(const BlockQ2_K& block, int g, int l) { return block.scales[2 * g + l / 16] & 15; }
  static int Minimum(const BlockQ2_K& block, int g, int l) { return block.scales[2 * g + l / 16] >> 4; }

  // Both products are exact, 11 + 4 + 2 and 11 + 4 bits; their difference rounds once.
  static void Decode32(const void* row, std::uint64_t b, float* out) {
    const BlockQ2_K& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    const float d = Load(block.d), dmin = Load(block.dmin);
    for (int l = 0; l < 32; ++l) {
      const float scaled = d * static_cast<float>(Scale(block, g, l)) * static_cast<float>(Integer(block, g, l));
      out[l] = scaled - dmin * static_cast<float>(Minimum(block, g, l));
    }
  }

  // |dot| <= 32 x 15 x 3 x 127 and |minimum| <= 32 x 15 x 127: both convert to f32 exactly.
  static float AddBlock(const void* row, std::uint64_t b, const std::int8_t* x, float d, std::int32_t /*sum*/, float total) {
    const BlockQ2_K& block = At(row, b);
    const int g = static_cast<int>(b % 8);
    std::int32_t dot = 0, minimum = 0;
    for (int l = 0; l < 32; ++l) {
      dot += Scale(block, g, l) * Integer(block, g, l) * x[l];
      minimum += Minimum(block, g, l) * x[l];
    }
    total = __builtin_fmaf(static_cast<float>(dot), Load(block.d) * d, total);
    return __builtin_fmaf(static_cast<float>(minimum), -(Load(block.dmin) * d), total);
  }
};

}  // namespace

const TypeKernels kQ2_K = {DequantizeRow<Q2_K>, DotRows<Q2_K>, DotRowsQ8<Q2_K>, MultiplyTile<Q2_K>};

}  // namespace veneer::kernels::scalar
