// `multiply_tile` from the AddBlock of a scalar type (rows.h): the reference, without any unpacking of rows.
#ifndef VENEER_KERNELS_SCALAR_TILE_H_
#define VENEER_KERNELS_SCALAR_TILE_H_

#include <cstdint>

#include "kernels/kernels.h"

namespace veneer::kernels::scalar {

// The 32 columns of one token, in order.
inline void UnpackToken(const PackedBlock& block, std::uint32_t t, std::int8_t (&q)[kActivationBlock]) {
  for (std::uint64_t j = 0; j < 8; ++j) {
    for (std::uint64_t c = 0; c < 2; ++c) {
      q[2 * j + c] = block.q[j][t][c];
      q[16 + 2 * j + c] = block.q[j][t][2 + c];
    }
  }
}

template <class Type>
void MultiplyTile(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const PackedBlock* x, std::uint64_t x_stride,
                  std::uint32_t tokens, void* /*scratch*/, float* y, std::uint64_t y_stride) {
  for (std::uint32_t t = 0; t < tokens; ++t) {
    const PackedBlock* group = x + t / kPackedTokens * x_stride;
    const std::uint32_t u = t % kPackedTokens;
    float* out = y + t * y_stride;
    for (std::uint32_t r = 0; r < n_rows; ++r) out[r] = 0.0f;
    for (std::uint64_t b = 0; b < cols / kActivationBlock; ++b) {
      std::int8_t q[kActivationBlock];
      UnpackToken(group[b], u, q);
      for (std::uint32_t r = 0; r < n_rows; ++r) out[r] = Type::AddBlock(rows[r], b, q, group[b].d[u], group[b].sum[u], out[r]);
    }
  }
}

}  // namespace veneer::kernels::scalar

#endif  // VENEER_KERNELS_SCALAR_TILE_H_
