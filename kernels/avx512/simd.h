// Small helpers of 512 bits for AVX-512 files, beside those of avx2/simd.h, whose rule holds here too: everything is static and inlined. A
// word is 32 bits, a lane 128.
#ifndef VENEER_KERNELS_AVX512_SIMD_H_
#define VENEER_KERNELS_AVX512_SIMD_H_

#include <immintrin.h>

#include "kernels/avx2/simd.h"

namespace veneer::kernels::avx512 {

using namespace avx2;  // NOLINT: its helpers, drivers and descriptions of types serve here too

// 16 bytes of each of four rows, a row in each lane.
VENEER_INLINE __m512i LoadFour(const void* a, const void* b, const void* c, const void* d) {
  const __m512i ab = _mm512_inserti32x4(_mm512_castsi128_si512(LoadBytes16(a)), LoadBytes16(b), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(ab, LoadBytes16(c), 2), LoadBytes16(d), 3);
}
// 32 bytes of each of two rows.
VENEER_INLINE __m512i LoadTwo(const void* low, const void* high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(LoadBytes(low)), LoadBytes(high), 1);
}
VENEER_INLINE __m512i Broadcast16(const void* p) { return _mm512_broadcast_i32x4(LoadBytes16(p)); }
VENEER_INLINE __m512i Broadcast32(const void* p) { return _mm512_broadcast_i64x4(LoadBytes(p)); }

// Bits move by kRight places to the right, or to the left. They cross bytes; masks have to remove those.
template <int kRight>
VENEER_INLINE __m512i Shift(__m512i v) {
  if constexpr (kRight < 0) return _mm512_slli_epi16(v, static_cast<unsigned>(-kRight));
  return _mm512_srli_epi16(v, static_cast<unsigned>(kRight < 0 ? 0 : kRight));
}

// a | (b & c)
VENEER_INLINE __m512i OrAnd(__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi32(a, b, c, 0xf8); }

// Words of a and b to 16 bits, where they must fit, then added in pairs: in every lane words 0 + 1 and 2 + 3 of a, then of b.
VENEER_INLINE __m512i AddPairs(__m512i a, __m512i b) { return _mm512_madd_epi16(_mm512_packs_epi32(a, b), _mm512_set1_epi16(1)); }

// Word i of every lane: the sum of the four words in that lane of v[i]. The first for words that fit 16 bits.
VENEER_INLINE __m512i SumShortWords(const __m512i v[4]) {
  const __m512 v01 = _mm512_castsi512_ps(AddPairs(v[0], v[1])), v23 = _mm512_castsi512_ps(AddPairs(v[2], v[3]));
  return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(v01, v23, 0x88)), _mm512_castps_si512(_mm512_shuffle_ps(v01, v23, 0xdd)));
}
VENEER_INLINE __m512i SumWords(const __m512i v[4]) {
  const __m512i v01 = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
  const __m512i v23 = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(v01, v23), _mm512_unpackhi_epi64(v01, v23));
}

// Lanes 0 + 1 and 2 + 3 of a, then of b.
VENEER_INLINE __m512i AddLanePairs(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_shuffle_i64x2(a, b, 0x88), _mm512_shuffle_i64x2(a, b, 0xdd));
}

}  // namespace veneer::kernels::avx512

#endif  // VENEER_KERNELS_AVX512_SIMD_H_
