// What the types with superblocks of 256 share: eight rows at once, in runs of a few groups of 32 elements whose stored bytes overlap.
// Integer sums of a group, and scales of a superblock, end with row r in the 32-bit word r of a vector. A type has
//   Block, At(row, s)                            the stored superblock, and superblock s of a row
//   Header, ReadHeader(rows, s, out)             scales of superblock s; members d and, in types with a minimum, m: f32 of rows 0..7
//   kRun                                         groups in a run
//   Dot<kFirst>(rows, s, header, x, out)         out[k][t]: scaled integer sums of groups kFirst + k against token t of x
//   Minimum<kGroup>(header, q, sum)              scaled integer sum of the activations of one token; only in types with a minimum
// Group numbers are template arguments so that shifts and byte positions are constants.
#ifndef VENEER_KERNELS_AVX2_SUPERBLOCKS_H_
#define VENEER_KERNELS_AVX2_SUPERBLOCKS_H_

#include <cstdint>

#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/kernels.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

// Column c, by halves: word c of the four vectors.
VENEER_INLINE void Transpose(const __m256i v[4], __m256i column[4]) {
  const __m256i low01 = _mm256_unpacklo_epi32(v[0], v[1]), low23 = _mm256_unpacklo_epi32(v[2], v[3]);
  const __m256i high01 = _mm256_unpackhi_epi32(v[0], v[1]), high23 = _mm256_unpackhi_epi32(v[2], v[3]);
  column[0] = _mm256_unpacklo_epi64(low01, low23);
  column[1] = _mm256_unpackhi_epi64(low01, low23);
  column[2] = _mm256_unpacklo_epi64(high01, high23);
  column[3] = _mm256_unpackhi_epi64(high01, high23);
}

// The four words that begin `offset` bytes into superblock s of every row: word r of column[c] is word c of row r.
template <class Block>
VENEER_INLINE void ReadColumns(const void* const* rows, std::uint64_t s, std::uint64_t offset, __m256i column[4]) {
  const std::uint64_t at = s * sizeof(Block) + offset;
  __m256i pair[4];
  for (int i = 0; i < 4; ++i) pair[i] = LoadPair(static_cast<const char*>(rows[i]) + at, static_cast<const char*>(rows[i + 4]) + at);
  Transpose(pair, column);
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
  constexpr int kStep = (kFirst == kZero ? 0 : 4) | (kSecond == kZero ? 0 : 4 << 16);                 // from word to word
  const __m256i pick = _mm256_setr_epi32(kPick, kPick + kStep, kPick + 2 * kStep, kPick + 3 * kStep,  //
                                         kPick, kPick + kStep, kPick + 2 * kStep, kPick + 3 * kStep);
  return _mm256_shuffle_epi8(words, pick);
}

template <class Type, int kTokens, int kFirst>
VENEER_INLINE void MultiplyRun(const void* const* rows, std::uint64_t s, const typename Type::Header& header, const QuantizedActivations& x,
                               __m256 (&total)[kTokens]) {
  __m256i dot[Type::kRun][kTokens];
  QuantizedActivations part = x;
  part.q += kActivationBlock * (8 * s + kFirst);
  Type::template Dot<kFirst>(rows, s, header, part, dot);
  const auto add = [&]<int k>() __attribute__((always_inline)) {
    const std::uint64_t b = 8 * s + kFirst + k;
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      const __m256 d = _mm256_broadcast_ss(x.d + t * x.block_stride + b);
      total[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[k][t]), _mm256_mul_ps(header.d, d), total[t]);
      if constexpr (Type::kHasMinimum) {
        const std::int8_t* q = part.q + t * x.q_stride + kActivationBlock * k;
        const __m256i minimum = Type::template Minimum<kFirst + k>(header, q, x.sum[t * x.block_stride + b]);
        total[t] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minimum), _mm256_mul_ps(header.m, d), total[t]);
      }
    }
  };
  add.template operator()<0>();
  add.template operator()<1>();
  if constexpr (Type::kRun == 4) {
    add.template operator()<2>();
    add.template operator()<3>();
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
    for (int r = 0; r < 8; ++r) PrefetchAhead<sizeof(typename Type::Block)>(&Type::At(rows[r], s));
    MultiplyRun<Type, kTokens, 0>(rows, s, header, x, total);
    if constexpr (Type::kRun == 2) MultiplyRun<Type, kTokens, 2>(rows, s, header, x, total);
    MultiplyRun<Type, kTokens, 4>(rows, s, header, x, total);
    if constexpr (Type::kRun == 2) MultiplyRun<Type, kTokens, 6>(rows, s, header, x, total);
  }
  for (int t = 0; t < kTokens; ++t) _mm256_store_ps(out[t], total[t]);
}

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_SUPERBLOCKS_H_
