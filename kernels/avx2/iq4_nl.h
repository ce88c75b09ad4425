// IQ4_NL: 16 bytes hold 32 nibbles (low ones first), each the index of one of 16 fixed values.
#ifndef VENEER_KERNELS_AVX2_IQ4_NL_H_
#define VENEER_KERNELS_AVX2_IQ4_NL_H_

#include <cstdint>

#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx2/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

struct Iq4Nl {
  static constexpr std::uint64_t kBlock = 32;
  static constexpr int kRows = 8;

  VENEER_INLINE const BlockIq4Nl& At(const void* row, std::uint64_t b) { return static_cast<const BlockIq4Nl*>(row)[b]; }

  // Low nibbles of 32 bytes to values.
  VENEER_INLINE __m256i Look(__m256i bytes) {
    const __m256i table = _mm256_broadcastsi128_si256(LoadBytes16(kIq4NlValues));
    return _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, _mm256_set1_epi8(15)));
  }

  // 32 of them, in order.
  VENEER_INLINE __m256i Values(const BlockIq4Nl& block) {
    const __m128i stored = LoadBytes16(block.qs);
    return Look(_mm256_inserti128_si256(_mm256_castsi128_si256(stored), _mm_srli_epi16(stored, 4), 1));
  }

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const __m256 d = _mm256_set1_ps(WidenHalf(At(row, b).d));
    WidenBytes(Values(At(row, b)), w);
    for (int v = 0; v < 4; ++v) w[v] = _mm256_mul_ps(w[v], d);
  }

  // |x| times w with the sign of x: neither is -128, so both stay right, and 2 x 127 x 127 fits 16 bits.
  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256 total[kTokens];
    for (int t = 0; t < kTokens; ++t) total[t] = _mm256_setzero_ps();
    for (std::uint64_t b = 0; b < blocks; ++b) {
      __m256i first[4], second[4];  // rows i and i + 4 share a vector
      for (int i = 0; i < 4; ++i) {
        const __m256i stored = LoadPair(At(rows[i], b).qs, At(rows[i + 4], b).qs);
        first[i] = Look(stored);
        second[i] = Look(_mm256_srli_epi16(stored, 4));
      }
      if (b % 8 == 0) {
        for (int r = 0; r < kRows; ++r) PrefetchAhead<8 * sizeof(BlockIq4Nl)>(&At(rows[r], b));
      }
      const __m256 w_d = WidenEight(At(rows[0], b).d, At(rows[1], b).d, At(rows[2], b).d, At(rows[3], b).d,  //
                                    At(rows[4], b).d, At(rows[5], b).d, At(rows[6], b).d, At(rows[7], b).d);
      for (std::uint32_t t = 0; t < kTokens; ++t) {
        const std::int8_t* q = x.q + t * x.q_stride + kActivationBlock * b;
        const __m256i x_first = _mm256_broadcastsi128_si256(LoadBytes16(q)), x_second = _mm256_broadcastsi128_si256(LoadBytes16(q + 16));
        const __m256i first_size = _mm256_abs_epi8(x_first), second_size = _mm256_abs_epi8(x_second);
        __m256i dot[4];
        for (int i = 0; i < 4; ++i) {
          const __m256i low = _mm256_madd_epi16(_mm256_maddubs_epi16(first_size, _mm256_sign_epi8(first[i], x_first)), ones);
          const __m256i high = _mm256_madd_epi16(_mm256_maddubs_epi16(second_size, _mm256_sign_epi8(second[i], x_second)), ones);
          dot[i] = _mm256_add_epi32(low, high);
        }
        const __m256 d = _mm256_broadcast_ss(x.d + t * x.block_stride + b);
        total[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(SumWords32(dot)), _mm256_mul_ps(w_d, d), total[t]);
      }
    }
    for (int t = 0; t < kTokens; ++t) _mm256_store_ps(out[t], total[t]);
  }

  static constexpr int kMax = 128, kOffset = 0;
  static constexpr bool kHasMinimum = false, kHasHalfScales = false;
  VENEER_INLINE void UnpackRow(const void* row, std::uint64_t b, TileRow& out) {
    out.u = Values(At(row, b));
    out.d = WidenHalf(At(row, b).d);
  }
};

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_IQ4_NL_H_
