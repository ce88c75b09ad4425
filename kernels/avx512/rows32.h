// Sums of groups of 32 elements of eight rows in superblocks. A vector has rows i and i + 4, two lanes each; four such vectors are i =
// 0..3.
#ifndef VENEER_KERNELS_AVX512_ROWS32_H_
#define VENEER_KERNELS_AVX512_ROWS32_H_

#include "kernels/avx512/simd.h"

namespace veneer::kernels::avx512 {

// Word r of lanes 0 and 1: the sum of the words in that lane of sums[r], times the 16-bit number that both halves of the word in `factors`
// hold; lanes 2 and 3 likewise for row r + 4. Words and the sums of two of them must fit 16 bits.
VENEER_INLINE __m512i ScaledRows(const __m512i sums[4], __m512i factors) {
  return _mm512_madd_epi16(_mm512_packs_epi32(AddPairs(sums[0], sums[1]), AddPairs(sums[2], sums[3])), factors);
}

VENEER_INLINE void StoreTwo(__m512i both, __m256i& low, __m256i& high) {
  low = _mm512_castsi512_si256(both);
  high = _mm512_extracti64x4_epi64(both, 1);
}

}  // namespace veneer::kernels::avx512

#endif  // VENEER_KERNELS_AVX512_ROWS32_H_
