// The three per-type kernels for any stored type, in terms of a small description of that type. A description has
//   kBlock, kBlockBytes                                elements and bytes of a stored block
//   Decode32(row, b, out[32])                          values of elements 32 b .. 32 b + 31 of a row
//   Value(row, i)                                      one value; only for kBlock = 1, whose rows may end anywhere
//   AddBlock(row, b, x, d, sum, total)                 total after block b of 32 quantized activations (not for float types)
#ifndef VENEER_KERNELS_SCALAR_ROWS_H_
#define VENEER_KERNELS_SCALAR_ROWS_H_

#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/scalar/lanes.h"

namespace veneer::kernels::scalar {

template <class Type>
void DequantizeRow(const void* src, float* dst, std::uint64_t n) {
  for (std::uint64_t b = 0; b < n / kLanes; ++b) Type::Decode32(src, b, dst + kLanes * b);
  if constexpr (Type::kBlock == 1) {
    for (std::uint64_t i = n / kLanes * kLanes; i < n; ++i) dst[i] = Type::Value(src, i);
  }
}

// Up to kTokensAtOnce tokens share one decoding of a row.
inline constexpr std::uint32_t kTokensAtOnce = 8;

template <class Type>
void DotRow(const void* row, std::uint64_t cols, const float* x, std::uint64_t x_stride, std::uint32_t tokens, float* y,
            std::uint64_t y_stride) {
  Lanes lanes[kTokensAtOnce];
  float w[kLanes];
  const std::uint64_t blocks = cols / kLanes;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    Type::Decode32(row, b, w);
    for (std::uint32_t t = 0; t < tokens; ++t) lanes[t].MultiplyAdd(w, x + t * x_stride + kLanes * b);
  }
  if constexpr (Type::kBlock == 1) {
    const std::uint64_t rest = cols % kLanes;
    if (rest != 0) {
      for (std::uint64_t j = 0; j < kLanes; ++j) w[j] = j < rest ? Type::Value(row, kLanes * blocks + j) : 0.0f;
      for (std::uint32_t t = 0; t < tokens; ++t) lanes[t].MultiplyAdd(w, Tail(x + t * x_stride + kLanes * blocks, rest).values);
    }
  }
  for (std::uint32_t t = 0; t < tokens; ++t) y[t * y_stride] = lanes[t].Sum();
}

template <class Type>
void DotRows(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const float* x, std::uint64_t x_stride,
             std::uint32_t tokens, float* y, std::uint64_t y_stride) {
  for (std::uint32_t r = 0; r < n_rows; ++r) {
    for (std::uint32_t t = 0; t < tokens; t += kTokensAtOnce) {
      const std::uint32_t count = tokens - t < kTokensAtOnce ? tokens - t : kTokensAtOnce;
      DotRow<Type>(rows[r], cols, x + t * x_stride, x_stride, count, y + t * y_stride + r, y_stride);
    }
  }
}

template <class Type>
void DotRowsQ8(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const QuantizedActivations& x, std::uint32_t tokens,
               float* y, std::uint64_t y_stride) {
  for (std::uint32_t r = 0; r < n_rows; ++r) {
    for (std::uint32_t t = 0; t < tokens; ++t) {
      const std::int8_t* q = x.q + t * x.q_stride;
      const float* d = x.d + t * x.block_stride;
      const std::int32_t* sum = x.sum + t * x.block_stride;
      float total = 0.0f;
      for (std::uint64_t b = 0; b < cols / kActivationBlock; ++b) {
        total = Type::AddBlock(rows[r], b, q + kActivationBlock * b, d[b], sum[b], total);
      }
      y[t * y_stride + r] = total;
    }
  }
}

}  // namespace veneer::kernels::scalar

#endif  // VENEER_KERNELS_SCALAR_ROWS_H_
