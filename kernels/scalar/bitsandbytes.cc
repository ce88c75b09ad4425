// NF4 and LLM.int8: weights whose scales lie in other tensors.
#include <cstdint>

#include "kernels/scalar/rows.h"
#include "kernels/scalar/scalar.h"
#include "kernels/scaled_rows.h"

namespace veneer::kernels::scalar {
namespace {

struct Nf4 {
  static constexpr std::uint64_t kBlock = 32;

  static void Decode32(const void* row, std::uint64_t b, float* out) {
    const auto& scaled = *static_cast<const ScaledRow*>(row);
    const float absmax = BlockAbsmax(scaled, b);
    const float* map = scaled.scales->map;
    const std::uint8_t* packed = static_cast<const std::uint8_t*>(scaled.data) + 16 * b;
    for (int j = 0; j < 16; ++j) {
      out[2 * j] = map[packed[j] >> 4] * absmax;
      out[2 * j + 1] = map[packed[j] & 15] * absmax;
    }
  }
};

struct Int8Row {
  static constexpr std::uint64_t kBlock = 32;

  static void Decode32(const void* row, std::uint64_t b, float* out) {
    const auto& scaled = *static_cast<const ScaledRow*>(row);
    const float scale = StoredFloat(scaled.scales->row_scales, scaled.row);
    const std::int8_t* q = static_cast<const std::int8_t*>(scaled.data) + 32 * b;
    for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(q[j]) * scale * kPerStep;
  }
};

}  // namespace

const TypeKernels kNf4 = {DequantizeRow<Nf4>, DotRows<Nf4>, nullptr};
const TypeKernels kInt8Row = {DequantizeRow<Int8Row>, DotRows<Int8Row>, nullptr};

}  // namespace veneer::kernels::scalar
