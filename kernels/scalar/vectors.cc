// Elementwise kernels and dot products over f32 and f16 vectors of any length, and sums of rows of Q8_0.
#include <cstdint>

#include "kernels/quant_blocks.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/lanes.h"
#include "kernels/scalar/scalar.h"

namespace veneer::kernels::scalar {

float Dot(const float* a, const float* b, std::uint64_t n) {
  Lanes lanes;
  const std::uint64_t whole = n / kLanes * kLanes;
  for (std::uint64_t i = 0; i < whole; i += kLanes) lanes.MultiplyAdd(a + i, b + i);
  if (whole < n) lanes.MultiplyAdd(Tail(a + whole, n - whole).values, Tail(b + whole, n - whole).values);
  return lanes.Sum();
}

float DotF16(const float* a, const std::uint16_t* b, std::uint64_t n) {
  Lanes lanes;
  for (std::uint64_t i = 0; i < n; i += kLanes) {
    const std::uint64_t count = n - i < kLanes ? n - i : kLanes;
    float wide[kLanes] = {};
    for (std::uint64_t j = 0; j < count; ++j) wide[j] = WidenHalf(b[i + j]);
    lanes.MultiplyAdd(Tail(a + i, count).values, wide);
  }
  return lanes.Sum();
}

void Axpy(float scale, const float* x, float* y, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) y[i] = __builtin_fmaf(scale, x[i], y[i]);
}

void AxpyF16(float scale, const std::uint16_t* x, float* y, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) y[i] = __builtin_fmaf(scale, WidenHalf(x[i]), y[i]);
}

namespace {

// q d is exact: at most 8 bits times 11.
void AxpyQ8_0(float scale, const BlockQ8_0* x, float* y, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) y[i] = __builtin_fmaf(scale, static_cast<float>(x[i / 32].qs[i % 32]) * Load(x[i / 32].d), y[i]);
}

template <class Stored, class AxpyOf>
void AddRows(const Table::RowSum& sum, const AxpyOf& axpy) {
  for (std::uint32_t t = 0; t < sum.n_y; ++t) {
    for (std::uint64_t r = 0; r < sum.n_rows; ++r) {
      const auto* row = reinterpret_cast<const Stored*>(static_cast<const char*>(sum.rows) + r * sum.row_bytes);
      axpy(sum.w[t * sum.w_stride + r], row, sum.y + t * sum.y_stride, sum.n);
    }
  }
}

}  // namespace

void AxpyRows(const Table::RowSum& sum) { AddRows<float>(sum, Axpy); }
void AxpyRowsF16(const Table::RowSum& sum) { AddRows<std::uint16_t>(sum, AxpyF16); }
void AxpyRowsQ8_0(const Table::RowSum& sum) { AddRows<BlockQ8_0>(sum, AxpyQ8_0); }

void Mul(const float* a, const float* b, float* out, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

void Add(const float* a, float* y, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) y[i] += a[i];
}

void ToF16(const float* x, std::uint16_t* out, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) out[i] = NarrowToHalf(x[i]);
}

}  // namespace veneer::kernels::scalar
