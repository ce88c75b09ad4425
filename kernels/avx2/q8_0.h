// Q8_0: 32 int8 and one half scale.
#ifndef VENEER_KERNELS_AVX2_Q8_0_H_
#define VENEER_KERNELS_AVX2_Q8_0_H_

#include <cstdint>

#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx2/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

struct Q8_0 {
  static constexpr std::uint64_t kBlock = 32;
  static constexpr int kRows = 4;

  VENEER_INLINE const BlockQ8_0& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ8_0*>(row)[b]; }

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const BlockQ8_0& block = At(row, b);
    const __m256 d = _mm256_set1_ps(WidenHalf(block.d));
    for (int v = 0; v < 4; ++v) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block.qs + 8 * v));
      w[v] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), d);
    }
  }

  // |w| (at most 128, so unsigned) times x with the sign of w: a weight of -128 stays right, and 2 x 128 x 127 fits 16 bits.
  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m128 total[kTokens];
    for (int t = 0; t < kTokens; ++t) total[t] = _mm_setzero_ps();
    for (std::uint64_t b = 0; b < blocks; ++b) {
      __m256i w[kRows], magnitude[kRows];
      for (int r = 0; r < kRows; ++r) {
        w[r] = LoadBytes(At(rows[r], b).qs);
        magnitude[r] = _mm256_abs_epi8(w[r]);
        PrefetchAhead<1>(&At(rows[r], b));
      }
      const __m128 w_d = WidenFour(At(rows[0], b).d, At(rows[1], b).d, At(rows[2], b).d, At(rows[3], b).d);
      for (std::uint32_t t = 0; t < kTokens; ++t) {
        const __m256i q = LoadBytes(x.q + t * x.q_stride + kActivationBlock * b);
        __m256i dot[kRows];
        for (int r = 0; r < kRows; ++r) {
          dot[r] = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude[r], _mm256_sign_epi8(q, w[r])), ones);
        }
        const __m128 d = _mm_mul_ps(w_d, _mm_broadcast_ss(x.d + t * x.block_stride + b));
        total[t] = _mm_fmadd_ps(_mm_cvtepi32_ps(SumFourRows(dot)), d, total[t]);
      }
    }
    for (int t = 0; t < kTokens; ++t) _mm_store_ps(out[t], total[t]);
  }

  static constexpr int kMax = 128, kOffset = 0;
  static constexpr bool kHasMinimum = false, kHasHalfScales = false;
  VENEER_INLINE void UnpackRow(const void* row, std::uint64_t b, TileRow& out) {
    out.u = LoadBytes(At(row, b).qs);
    out.d = WidenHalf(At(row, b).d);
  }
};

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_Q8_0_H_
