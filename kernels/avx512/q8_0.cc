// Q8_0: eight rows at once, two in a vector.
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
  static constexpr int kRows = 8;

  VENEER_INLINE const BlockQ8_0& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ8_0*>(row)[b]; }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    __m256 total[kTokens];
    for (int t = 0; t < kTokens; ++t) total[t] = _mm256_setzero_ps();
    for (std::uint64_t b = 0; b < blocks; ++b) {
      __m512i w[4];  // rows i and i + 4
      for (int i = 0; i < 4; ++i) {
        w[i] = _mm512_xor_si512(LoadTwo(At(rows[i], b).qs, At(rows[i + 4], b).qs), _mm512_set1_epi8(-128));
        PrefetchAhead<1>(&At(rows[i], b));
        PrefetchAhead<1>(&At(rows[i + 4], b));
      }
      const __m256 w_d = WidenEight(At(rows[0], b).d, At(rows[1], b).d, At(rows[2], b).d, At(rows[3], b).d,  //
                                    At(rows[4], b).d, At(rows[5], b).d, At(rows[6], b).d, At(rows[7], b).d);
      for (std::uint32_t t = 0; t < kTokens; ++t) {
        const __m512i q = Broadcast32(x.q + t * x.q_stride + kActivationBlock * b);
        const __m512i start = _mm512_set1_epi32(-128 / 8 * x.sum[t * x.block_stride + b]);
        __m512i sums[4];
        for (int i = 0; i < 4; ++i) sums[i] = _mm512_dpbusd_epi32(start, w[i], q);
        const __m512i lanes = SumWords(sums);
        const __m256i dot = _mm512_castsi512_si256(AddLanePairs(lanes, lanes));
        const __m256 d = _mm256_mul_ps(w_d, _mm256_broadcast_ss(x.d + t * x.block_stride + b));
        total[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), d, total[t]);
      }
    }
    for (int t = 0; t < kTokens; ++t) _mm256_store_ps(out[t], total[t]);
  }
};

}  // namespace

const Q8Kernels kQ8_0 = {DotRowsQ8<Bytes>, MultiplyTile<Q8_0, WideSteps>};

}  // namespace veneer::kernels::avx512
