// Choice of the kernels, and the scalar reference.
#include "plugins/sparse_delta/product.h"

#include "kernels/float_words.h"

namespace veneer_sparse_delta {
namespace scalar {
namespace {

using veneer::kernels::words::BF16;
using veneer::kernels::words::F16;
using veneer::kernels::words::F32;

template <class Type, class Column>
void ProductIn(const ProductCall& call) {
  const auto* values = static_cast<const typename Type::Word*>(call.values);
  const auto* columns = static_cast<const Column*>(call.columns);
  for (std::uint64_t lane = call.lane0; lane < call.lane1; ++lane) {
    const std::uint64_t first = call.row_ptr[lane], last = call.row_ptr[lane + 1];
    if (first == last) continue;
    for (std::uint32_t i = 0; i < call.tokens; ++i) {
      const float* x = call.x + i * call.x_stride;
      float partial[kPartials] = {};
      for (std::uint64_t e = first; e < last; ++e) {
        float& sum = partial[(e - first) % kPartials];
        sum = __builtin_fmaf(Type::Value(values[e]), x[columns[e]], sum);
      }
      float& y = call.y[i * call.y_stride + lane];
      y = __builtin_fmaf(call.scale, (partial[0] + partial[2]) + (partial[1] + partial[3]), y);
    }
  }
}

}  // namespace

Product ProductOf(std::uint32_t dtype, bool has_wide_columns) {
  if (dtype == VNR_F16) return has_wide_columns ? ProductIn<F16, std::uint32_t> : ProductIn<F16, std::uint16_t>;
  if (dtype == VNR_BF16) return has_wide_columns ? ProductIn<BF16, std::uint32_t> : ProductIn<BF16, std::uint16_t>;
  return has_wide_columns ? ProductIn<F32, std::uint32_t> : ProductIn<F32, std::uint16_t>;
}

}  // namespace scalar

Kernels SelectKernels(std::uint32_t dtype, bool has_wide_columns, [[maybe_unused]] std::uint64_t cpu_features) {
#if defined(VENEER_SPARSE_DELTA_AVX2)
  if (veneer::kernels::PermitsAvx2(cpu_features)) return {avx2::ProductOf(dtype, has_wide_columns), avx2::TransposeX};
#endif
  return {scalar::ProductOf(dtype, has_wide_columns), nullptr};
}

}  // namespace veneer_sparse_delta
