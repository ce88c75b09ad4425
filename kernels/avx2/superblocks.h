// What the types with superblocks of 256 share: eight rows at once, rows i and i + 4 in the halves of one vector. Scales of a superblock
// are turned once, so that a vector holds the same ones of all eight rows, row r in its 32-bit lane r; the integer sums of a group of 32
// elements end in that order as well. A type has
//   Header, ReadHeader(rows, s, out)            scales of superblock s; members d and, in types with a minimum, m: f32 of rows 0..7
//   DecodeGroup<g>(rows, s, out)                integers of group g
//   Dot<g>(header, decoded, x)                  scaled integer sum of group g against 32 activations, per row
//   Minimum<g>(header, x, sum)                  scaled integer sum of the activations, per row; only in types with a minimum
// A group is a template argument so that shifts and byte positions are constants.
#ifndef VENEER_KERNELS_AVX2_SUPERBLOCKS_H_
#define VENEER_KERNELS_AVX2_SUPERBLOCKS_H_

#include <cstdint>

#include "kernels/avx2/simd.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/kernels.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

// Column c: the 32-bit word c of every row, row r in lane r, from pairs of rows (i, i + 4) of four words each.
VENEER_INLINE void Transpose(const __m256i pair[4], __m256i column[4]) {
  const __m256i low01 = _mm256_unpacklo_epi32(pair[0], pair[1]), low23 = _mm256_unpacklo_epi32(pair[2], pair[3]);
  const __m256i high01 = _mm256_unpackhi_epi32(pair[0], pair[1]), high23 = _mm256_unpackhi_epi32(pair[2], pair[3]);
  column[0] = _mm256_unpacklo_epi64(low01, low23);
  column[1] = _mm256_unpackhi_epi64(low01, low23);
  column[2] = _mm256_unpacklo_epi64(high01, high23);
  column[3] = _mm256_unpackhi_epi64(high01, high23);
}

// The two half scales in every word.
VENEER_INLINE void WidenHalves(__m256i words, __m256& low, __m256& high) {
  const __m256i split = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                         0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(words, split), 0xd8);
  low = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  high = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
}

// Every word becomes two 16-bit numbers: its bytes kFirst and kSecond, unsigned; kZero gives 0.
inline constexpr int kZero = 0x80;
template <int kFirst, int kSecond>
VENEER_INLINE __m256i PickBytes(__m256i words) {
  constexpr int kPick = static_cast<int>(0x80008000u | kFirst | kSecond << 16);
  constexpr int kStep = (kFirst == kZero ? 0 : 4) | (kSecond == kZero ? 0 : 4 << 16);  // from word to word
  const __m256i pick = _mm256_setr_epi32(kPick, kPick + kStep, kPick + 2 * kStep, kPick + 3 * kStep,  //
                                         kPick, kPick + kStep, kPick + 2 * kStep, kPick + 3 * kStep);
  return _mm256_shuffle_epi8(words, pick);
}

// The same for signed bytes: they go to the high halves, a shift brings them down.
template <int kFirst, int kSecond>
VENEER_INLINE __m256i PickSigned(__m256i words) {
  constexpr int kPick = static_cast<int>(0x00800080u | kFirst << 8 | static_cast<unsigned>(kSecond) << 24);
  constexpr int kStep = 4 << 8 | 4 << 24;
  const __m256i pick = _mm256_setr_epi32(kPick, kPick + kStep, kPick + 2 * kStep, kPick + 3 * kStep,  //
                                         kPick, kPick + kStep, kPick + 2 * kStep, kPick + 3 * kStep);
  return _mm256_srai_epi16(_mm256_shuffle_epi8(words, pick), 8);
}

// Every word: the sum of x[0..15] in its low half, of x[16..31] in its high half. Sums of unsigned bytes x + 128.
VENEER_INLINE __m256i HalfSums(const std::int8_t* x) {
  const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(LoadBytes(x), _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m256i sums = _mm256_add_epi64(eights, _mm256_shuffle_epi32(eights, 0x4e));
  const __m128i both = _mm_or_si128(_mm256_castsi256_si128(sums), _mm_slli_epi64(_mm256_extracti128_si256(sums, 1), 16));
  return _mm256_sub_epi16(_mm256_broadcastd_epi32(both), _mm256_set1_epi16(16 * 128));
}

// Rows i and i + 4 share a vector: `first` holds elements 0..15 of a group, `second` 16..31, unsigned.
struct Decoded {
  __m256i first[4], second[4];
};

// Sums of products for rows i and i + 4: every word holds a sum over elements 0..15 in its low half, over 16..31 in its high half, four
// products each.
VENEER_INLINE __m256i DotHalves(__m256i w_first, __m256i w_second, __m256i x_first, __m256i x_second) {
  const __m256i first = _mm256_maddubs_epi16(w_first, x_first), second = _mm256_maddubs_epi16(w_second, x_second);
  return _mm256_add_epi16(_mm256_unpacklo_epi16(first, second), _mm256_unpackhi_epi16(first, second));
}

// Row r in word r: all 16 products of each half of a group, whose sums must fit 16 bits.
VENEER_INLINE __m256i DotHalves(const Decoded& w, const std::int8_t* x) {
  const __m256i x_first = _mm256_broadcastsi128_si256(LoadBytes16(x)), x_second = _mm256_broadcastsi128_si256(LoadBytes16(x + 16));
  __m256i row[4];
  for (int i = 0; i < 4; ++i) row[i] = DotHalves(w.first[i], w.second[i], x_first, x_second);
  return SumWords16(row);
}

template <class Type, int kTokens, int kGroup>
VENEER_INLINE void MultiplyOneGroup(const void* const* rows, std::uint64_t s, const typename Type::Header& header,
                                    const QuantizedActivations& x, __m256 (&total)[kTokens]) {
  Decoded w;
  Type::template DecodeGroup<kGroup>(rows, s, w);
  const std::uint64_t b = 8 * s + kGroup;
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    const std::int8_t* q = x.q + t * x.q_stride + kActivationBlock * b;
    const __m256 d = _mm256_broadcast_ss(x.d + t * x.block_stride + b);
    const __m256 dot = _mm256_cvtepi32_ps(Type::template Dot<kGroup>(header, w, q));
    total[t] = _mm256_fmadd_ps(dot, _mm256_mul_ps(header.d, d), total[t]);
    if constexpr (Type::kHasMinimum) {
      const __m256 minimum = _mm256_cvtepi32_ps(Type::template Minimum<kGroup>(header, q, x.sum[t * x.block_stride + b]));
      total[t] = _mm256_fnmadd_ps(minimum, _mm256_mul_ps(header.m, d), total[t]);
    }
  }
}

template <class Type, int kTokens>
VENEER_INLINE void MultiplySuperblocks(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x,
                                       float (&out)[kTokens][8]) {
  __m256 total[kTokens];
  for (int t = 0; t < kTokens; ++t) total[t] = _mm256_setzero_ps();
  for (std::uint64_t s = 0; s < blocks / 8; ++s) {
    typename Type::Header header;
    Type::ReadHeader(rows, s, header);
    MultiplyOneGroup<Type, kTokens, 0>(rows, s, header, x, total);
    MultiplyOneGroup<Type, kTokens, 1>(rows, s, header, x, total);
    MultiplyOneGroup<Type, kTokens, 2>(rows, s, header, x, total);
    MultiplyOneGroup<Type, kTokens, 3>(rows, s, header, x, total);
    MultiplyOneGroup<Type, kTokens, 4>(rows, s, header, x, total);
    MultiplyOneGroup<Type, kTokens, 5>(rows, s, header, x, total);
    MultiplyOneGroup<Type, kTokens, 6>(rows, s, header, x, total);
    MultiplyOneGroup<Type, kTokens, 7>(rows, s, header, x, total);
  }
  for (int t = 0; t < kTokens; ++t) _mm256_store_ps(out[t], total[t]);
}

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_SUPERBLOCKS_H_
