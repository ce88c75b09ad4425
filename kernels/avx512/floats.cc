// Exact products of F32, F16 and BF16 for several tokens, with the sums of AVX2 two vectors at a time: each lane sees the same numbers in
// the same order, so the bits are the same.
#include "kernels/avx2/floats.h"

#include <cstdint>

#include "kernels/avx2/rows.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/simd.h"

namespace veneer::kernels::avx512 {
namespace {

struct Panel512 {
  static constexpr int kMostTokens = 6;

  template <int kTokens>
  VENEER_INLINE void Multiply(const float (*w)[kChunk], const float* x, std::uint64_t x_stride, std::uint64_t n,
                              float (*lanes)[kTileRows][kLanes], int first_row) {
    for (std::uint64_t j = 0; j < kLanes; j += 16) {
      __m512 sum[kTokens][kRegisterRows];
      for (int t = 0; t < kTokens; ++t) {
        for (int r = 0; r < kRegisterRows; ++r) sum[t][r] = _mm512_loadu_ps(lanes[t][first_row + r] + j);
      }
      for (std::uint64_t i = j; i < n; i += kLanes) {
        __m512 value[kTokens];
        for (int t = 0; t < kTokens; ++t) value[t] = _mm512_loadu_ps(x + static_cast<std::uint64_t>(t) * x_stride + i);
        for (int r = 0; r < kRegisterRows; ++r) {
          const __m512 wide = _mm512_loadu_ps(w[first_row + r] + i);
          for (int t = 0; t < kTokens; ++t) sum[t][r] = _mm512_fmadd_ps(wide, value[t], sum[t][r]);
        }
      }
      for (int t = 0; t < kTokens; ++t) {
        for (int r = 0; r < kRegisterRows; ++r) _mm512_storeu_ps(lanes[t][first_row + r] + j, sum[t][r]);
      }
    }
  }
};

}  // namespace

const Table::DotRows kDotRowsF32 = DotRows<F32, Panel512>;
const Table::DotRows kDotRowsF16 = DotRows<F16, Panel512>;
const Table::DotRows kDotRowsBF16 = DotRows<BF16, Panel512>;

}  // namespace veneer::kernels::avx512
