// Sums and scales of several rows at once.
#ifndef VENEER_KERNELS_AVX2_SUM_ROWS_H_
#define VENEER_KERNELS_AVX2_SUM_ROWS_H_

#include "kernels/avx2/simd.h"

namespace veneer::kernels::avx2 {

// Element r: the sum of the eight integers of dot[r].
VENEER_INLINE __m128i SumFourRows(const __m256i dot[4]) {
  const __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(dot[0], dot[1]), _mm256_hadd_epi32(dot[2], dot[3]));
  return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}

VENEER_INLINE __m128 WidenFour(const StoredHalf& a, const StoredHalf& b, const StoredHalf& c, const StoredHalf& d) {
  __m128i halves = _mm_cvtsi32_si128(HalfBits(a));
  halves = _mm_insert_epi16(halves, HalfBits(b), 1);
  halves = _mm_insert_epi16(halves, HalfBits(c), 2);
  return _mm_cvtph_ps(_mm_insert_epi16(halves, HalfBits(d), 3));
}

VENEER_INLINE __m256 WidenEight(const StoredHalf& a, const StoredHalf& b, const StoredHalf& c, const StoredHalf& d, const StoredHalf& e,
                                const StoredHalf& f, const StoredHalf& g, const StoredHalf& h) {
  __m128i halves = _mm_cvtsi32_si128(HalfBits(a));
  halves = _mm_insert_epi16(halves, HalfBits(b), 1);
  halves = _mm_insert_epi16(halves, HalfBits(c), 2);
  halves = _mm_insert_epi16(halves, HalfBits(d), 3);
  halves = _mm_insert_epi16(halves, HalfBits(e), 4);
  halves = _mm_insert_epi16(halves, HalfBits(f), 5);
  halves = _mm_insert_epi16(halves, HalfBits(g), 6);
  return _mm256_cvtph_ps(_mm_insert_epi16(halves, HalfBits(h), 7));
}

}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_SUM_ROWS_H_
