// Sums and scales of several rows at once.
#ifndef VENEER_KERNELS_AVX2_SUM_ROWS_H_
#define VENEER_KERNELS_AVX2_SUM_ROWS_H_

#include "kernels/avx2/simd.h"

namespace veneer::kernels::avx2 {

// Sums of several rows at once go through unpacks and additions: horizontal additions take eight times as long on some processors.
// A word is 32 bits, a half 128.

// Every half: words 0 + 2 of a, 0 + 2 of b, 1 + 3 of a, 1 + 3 of b, added as 16-bit numbers.
VENEER_INLINE __m256i FoldTwo16(__m256i a, __m256i b) { return _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)); }
VENEER_INLINE __m256i FoldTwo32(__m256i a, __m256i b) { return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)); }

// Word r of every half: the sum of the four words in that half of v[r], added as 16-bit numbers.
VENEER_INLINE __m256i SumWords16(const __m256i v[4]) {
  const __m256i rows01 = FoldTwo16(v[0], v[1]), rows23 = FoldTwo16(v[2], v[3]);
  return _mm256_add_epi16(_mm256_unpacklo_epi64(rows01, rows23), _mm256_unpackhi_epi64(rows01, rows23));
}
VENEER_INLINE __m256i SumWords32(const __m256i v[4]) {
  const __m256i rows01 = FoldTwo32(v[0], v[1]), rows23 = FoldTwo32(v[2], v[3]);
  return _mm256_add_epi32(_mm256_unpacklo_epi64(rows01, rows23), _mm256_unpackhi_epi64(rows01, rows23));
}

// SumWords16, but only pairs of 16-bit numbers are added in 16 bits; they are then multiplied by `factors` into 32 bits.
VENEER_INLINE __m256i SumProducts(const __m256i v[4], __m256i factors) {
  const __m256i rows01 = FoldTwo16(v[0], v[1]), rows23 = FoldTwo16(v[2], v[3]);
  return _mm256_add_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi64(rows01, rows23), factors),
                          _mm256_madd_epi16(_mm256_unpackhi_epi64(rows01, rows23), factors));
}

// Element r: the sum of the eight integers of dot[r].
VENEER_INLINE __m128i SumFourRows(const __m256i dot[4]) {
  const __m256i sums = SumWords32(dot);
  return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}

VENEER_INLINE __m128 WidenFour(const StoredHalf& a, const StoredHalf& b, const StoredHalf& c, const StoredHalf& d) {
  __m128i halves = _mm_cvtsi32_si128(HalfBits(a));
  halves = _mm_insert_epi16(halves, HalfBits(b), 1);
  halves = _mm_insert_epi16(halves, HalfBits(c), 2);
  return _mm_cvtph_ps(_mm_insert_epi16(halves, HalfBits(d), 3));
}

VENEER_INLINE __m128i GatherEight(const StoredHalf& a, const StoredHalf& b, const StoredHalf& c, const StoredHalf& d, const StoredHalf& e,
                                  const StoredHalf& f, const StoredHalf& g, const StoredHalf& h) {
  __m128i halves = _mm_cvtsi32_si128(HalfBits(a));
  halves = _mm_insert_epi16(halves, HalfBits(b), 1);
  halves = _mm_insert_epi16(halves, HalfBits(c), 2);
  halves = _mm_insert_epi16(halves, HalfBits(d), 3);
  halves = _mm_insert_epi16(halves, HalfBits(e), 4);
  halves = _mm_insert_epi16(halves, HalfBits(f), 5);
  halves = _mm_insert_epi16(halves, HalfBits(g), 6);
  return _mm_insert_epi16(halves, HalfBits(h), 7);
}
VENEER_INLINE __m256 WidenEight(const StoredHalf& a, const StoredHalf& b, const StoredHalf& c, const StoredHalf& d, const StoredHalf& e,
                                const StoredHalf& f, const StoredHalf& g, const StoredHalf& h) {
  return _mm256_cvtph_ps(GatherEight(a, b, c, d, e, f, g, h));
}

}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_SUM_ROWS_H_
