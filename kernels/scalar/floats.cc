// F32, F16, BF16. Rows may end anywhere and start at any byte.
#include <cstdint>
#include <cstring>

#include "kernels/scalar/half.h"
#include "kernels/scalar/rows.h"
#include "kernels/scalar/scalar.h"

namespace veneer::kernels::scalar {
namespace {

template <class Stored, float (*kWiden)(Stored)>
struct Float {
  static constexpr std::uint64_t kBlock = 1;

  static float Value(const void* row, std::uint64_t i) {
    Stored stored;
    std::memcpy(&stored, static_cast<const std::uint8_t*>(row) + i * sizeof(Stored), sizeof stored);
    return kWiden(stored);
  }
  static void Decode32(const void* row, std::uint64_t b, float* out) {
    for (std::uint64_t j = 0; j < 32; ++j) out[j] = Value(row, 32 * b + j);
  }
};

float Same(float value) { return value; }

using F32 = Float<float, Same>;
using F16 = Float<std::uint16_t, WidenHalf>;
using BF16 = Float<std::uint16_t, Bf16ToFloat>;

}  // namespace

const TypeKernels kF32 = {DequantizeRow<F32>, DotRows<F32>, nullptr};
const TypeKernels kF16 = {DequantizeRow<F16>, DotRows<F16>, nullptr};
const TypeKernels kBF16 = {DequantizeRow<BF16>, DotRows<BF16>, nullptr};

}  // namespace veneer::kernels::scalar
