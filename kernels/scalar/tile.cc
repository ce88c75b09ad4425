#include <cstdint>

#include "kernels/scalar/scalar.h"

namespace veneer::kernels::scalar {
namespace {

std::int16_t SumOf(const std::int8_t* q, int n) {
  int sum = 0;
  for (int j = 0; j < n; ++j) sum += q[j];
  return static_cast<std::int16_t>(sum);
}

}  // namespace

void PackActivations(const QuantizedActivations& x, std::uint32_t tokens, std::uint64_t blocks, PackedBlock* packed) {
  for (std::uint64_t b = 0; b < blocks; ++b) {
    PackedBlock& block = packed[b];
    for (std::uint32_t t = 0; t < kPackedTokens; ++t) {
      constexpr std::int8_t kZeros[kActivationBlock] = {};
      const bool is_there = t < tokens;
      const std::int8_t* q = is_there ? x.q + t * x.q_stride + kActivationBlock * b : kZeros;
      for (std::uint64_t j = 0; j < 8; ++j) {
        __builtin_memcpy(block.q[j][t], q + 2 * j, 2);
        __builtin_memcpy(block.q[j][t] + 2, q + 16 + 2 * j, 2);
      }
      block.d[t] = is_there ? x.d[t * x.block_stride + b] : 0.0f;
      block.sum[t] = is_there ? x.sum[t * x.block_stride + b] : 0;
      block.half[t][0] = SumOf(q, 16);
      block.half[t][1] = SumOf(q + 16, 16);
      block.first_steps[t][0] = SumOf(q, 8);
      block.first_steps[t][1] = SumOf(q + 16, 8);
    }
  }
}

}  // namespace veneer::kernels::scalar
