// Q8_0: four rows and two blocks at once, two rows in a vector.
#include <cstdint>

#include "kernels/avx2/q8_0.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/simd.h"
#include "kernels/avx512/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx512 {
namespace {

// Weights are moved up by 128 to be unsigned, and the sums of x taken off again, a part in each of a row's eight words.
struct Bytes {
  static constexpr int kRows = 4;

  VENEER_INLINE const BlockQ8_0& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ8_0*>(row)[b]; }

  VENEER_INLINE __m512i Start(std::int32_t sum) { return _mm512_set1_epi32(-128 / 8 * sum); }

  // Blocks b and c = b + 1, or the last one alone.
  template <int kTokens, bool kTwo>
  VENEER_INLINE void MultiplyPair(const void* const* rows, std::uint64_t b, const QuantizedActivations& x, __m128 (&total)[kTokens]) {
    const std::uint64_t c = kTwo ? b + 1 : b;
    __m512i w[4];  // rows i and i + 2 of block b, then of c
    for (int i = 0; i < 2; ++i) {
      w[i] = _mm512_xor_si512(LoadTwo(At(rows[i], b).qs, At(rows[i + 2], b).qs), _mm512_set1_epi8(-128));
      w[i + 2] = _mm512_xor_si512(LoadTwo(At(rows[i], c).qs, At(rows[i + 2], c).qs), _mm512_set1_epi8(-128));
    }
    const __m256 w_d = WidenEight(At(rows[0], b).d, At(rows[1], b).d, At(rows[2], b).d, At(rows[3], b).d,  //
                                  At(rows[0], c).d, At(rows[1], c).d, At(rows[2], c).d, At(rows[3], c).d);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      const std::int8_t* q = x.q + t * x.q_stride;
      const float* d = x.d + t * x.block_stride;
      const std::int32_t* sum = x.sum + t * x.block_stride;
      const __m512i q_b = Broadcast32(q + kActivationBlock * b), q_c = Broadcast32(q + kActivationBlock * c);
      const __m512i start_b = Start(sum[b]), start_c = Start(sum[c]);
      const __m512i sums[4] = {_mm512_dpbusd_epi32(start_b, w[0], q_b), _mm512_dpbusd_epi32(start_b, w[1], q_b),
                               _mm512_dpbusd_epi32(start_c, w[2], q_c), _mm512_dpbusd_epi32(start_c, w[3], q_c)};
      const __m512i lanes = SumWords(sums);
      const __m256i pairs = _mm512_castsi512_si256(AddLanePairs(lanes, lanes));      // rows 0, 1 of b, of c; rows 2, 3 of b, of c
      const __m256 dot = _mm256_cvtepi32_ps(_mm256_permute4x64_epi64(pairs, 0xd8));  // rows 0..3 of b, of c
      const __m256 scale = _mm256_mul_ps(w_d, _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_set1_ps(d[b])), _mm_set1_ps(d[c]), 1));
      total[t] = _mm_fmadd_ps(_mm256_castps256_ps128(dot), _mm256_castps256_ps128(scale), total[t]);
      if constexpr (kTwo) total[t] = _mm_fmadd_ps(_mm256_extractf128_ps(dot, 1), _mm256_extractf128_ps(scale, 1), total[t]);
    }
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    __m128 total[kTokens];
    for (int t = 0; t < kTokens; ++t) total[t] = _mm_setzero_ps();
    std::uint64_t b = 0;
    for (; b + 2 <= blocks; b += 2) {
      for (int r = 0; r < kRows; ++r) PrefetchAhead<2 * sizeof(BlockQ8_0)>(&At(rows[r], b));
      MultiplyPair<kTokens, true>(rows, b, x, total);
    }
    if (b < blocks) MultiplyPair<kTokens, false>(rows, b, x, total);
    for (int t = 0; t < kTokens; ++t) _mm_store_ps(out[t], total[t]);
  }
};

}  // namespace

const Q8Kernels kQ8_0 = {DotRowsQ8<Bytes>, MultiplyTile<Q8_0, WideSteps>};

}  // namespace veneer::kernels::avx512
