// The driver of `dot_rows_q8`: cuts rows and tokens into groups for the inner loop of a type. An inner loop `Type` has
//   kRows                                             rows it takes at once, each its own stream from memory
//   Multiply<kTokens>(rows, blocks, x, out)           out[t][r] over `blocks` blocks of 32, for kTokens = 4, 2, 1
// Integers are exact inside a block and each (row, token) has one f32 total that takes one fused multiply-add per block (two in types
// with a minimum) in block order, so no grouping changes a bit.
#ifndef VENEER_KERNELS_AVX2_ROWS_Q8_H_
#define VENEER_KERNELS_AVX2_ROWS_Q8_H_

#include <cstdint>

#include "kernels/avx2/simd.h"
#include "kernels/kernels.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

template <class Type, int kTokens>
VENEER_INLINE void MultiplyGroup(const void* const* group, std::uint64_t blocks, const QuantizedActivations& x, std::uint32_t first_token,
                                 const std::uint32_t (&index)[Type::kRows], std::uint32_t n_rows, float* y, std::uint64_t y_stride) {
  QuantizedActivations part = x;
  part.q += first_token * x.q_stride;
  part.d += first_token * x.block_stride;
  part.sum += first_token * x.block_stride;
  alignas(32) float out[kTokens][Type::kRows];
  Type::template Multiply<kTokens>(group, blocks, part, out);
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    for (int r = 0; r < Type::kRows; ++r) {
      if (index[r] < n_rows) y[(first_token + t) * y_stride + index[r]] = out[t][r];
    }
  }
}

// Group g takes rows g, g + groups, g + 2 groups, ...: neighbouring rows of one tile would share pages and prefetch streams, which
// halves the read rate. A row past the end repeats the last one and is not stored.
template <class Type>
void DotRowsQ8(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const QuantizedActivations& x, std::uint32_t tokens,
               float* y, std::uint64_t y_stride) {
  const std::uint64_t blocks = cols / kActivationBlock;
  const std::uint32_t groups = (n_rows + Type::kRows - 1) / Type::kRows;
  for (std::uint32_t g = 0; g < groups; ++g) {
    const void* group[Type::kRows];
    std::uint32_t index[Type::kRows];
    for (std::uint32_t r = 0; r < Type::kRows; ++r) {
      index[r] = g + r * groups;
      group[r] = rows[index[r] < n_rows ? index[r] : n_rows - 1];
    }
    std::uint32_t t = 0;
    for (; t + 4 <= tokens; t += 4) MultiplyGroup<Type, 4>(group, blocks, x, t, index, n_rows, y, y_stride);
    for (; t + 2 <= tokens; t += 2) MultiplyGroup<Type, 2>(group, blocks, x, t, index, n_rows, y, y_stride);
    for (; t < tokens; ++t) MultiplyGroup<Type, 1>(group, blocks, x, t, index, n_rows, y, y_stride);
  }
}

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_ROWS_Q8_H_
