// The types whose scales belong to 16 elements (Q2_K, Q3_K, Q6_K). A vector holds the 32 integers of one group of one row, so that every
// 128-bit half has one scale; sums are folded over rows, multiplied by the scales, and then the halves are added. A type has
//   kOffset                      what its unsigned integers are above their meaning
//   Header                       also scale[quad][c]: word r of both halves is word c of the 16 scale bytes of row 4 quad + r, signed
//   Decode<h>(block, out)        unsigned integers of groups 4 h .. 4 h + 3 of a superblock
// Sums of four products of an unsigned integer and of eight less the offset must fit 16 bits.
#ifndef VENEER_KERNELS_AVX2_SIXTEENS_H_
#define VENEER_KERNELS_AVX2_SIXTEENS_H_

#include <cstdint>

#include "kernels/avx2/simd.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/kernels.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

// The same 16 bytes, `offset` bytes into superblock s, of rows 0..3 and of rows 4..7.
template <class Block>
VENEER_INLINE void ReadScales(const void* const* rows, std::uint64_t s, std::uint64_t offset, __m256i (&scale)[2][4]) {
  const std::uint64_t at = s * sizeof(Block) + offset;
  for (int quad = 0; quad < 2; ++quad) {
    __m256i row[4];
    for (int r = 0; r < 4; ++r) row[r] = _mm256_broadcastsi128_si256(LoadBytes16(static_cast<const char*>(rows[4 * quad + r]) + at));
    Transpose(row, scale[quad]);
  }
}

// Scales of group k of four in both 16-bit halves of every word: of elements 0..15 in the low half of the vector, 16..31 in the high half.
// They go to the high bytes, and a shift brings them down with their sign.
template <int k>
VENEER_INLINE __m256i GroupScales(const __m256i (&scale)[4], int first_column) {
  constexpr int kLow = static_cast<int>(0x00800080u + 0x01000100u * (k % 2 * 2)), kHigh = kLow + 0x01000100, kStep = 0x04000400;
  const __m256i pick = _mm256_setr_epi32(kLow, kLow + kStep, kLow + 2 * kStep, kLow + 3 * kStep,  //
                                         kHigh, kHigh + kStep, kHigh + 2 * kStep, kHigh + 3 * kStep);
  return _mm256_srai_epi16(_mm256_shuffle_epi8(scale[first_column + k / 2], pick), 8);
}

// Sums over four elements of a group of two rows, less the offset's.
template <class Type>
VENEER_INLINE __m256i Products(__m256i w0, __m256i w1, __m256i x, __m256i offset) {
  const __m256i sums = FoldTwo16(_mm256_maddubs_epi16(w0, x), _mm256_maddubs_epi16(w1, x));
  return Type::kOffset == 0 ? sums : _mm256_sub_epi16(sums, offset);
}
template <class Type>
VENEER_INLINE __m256i Offset(__m256i x) {
  const __m256i products = _mm256_maddubs_epi16(_mm256_set1_epi8(Type::kOffset), x);
  return FoldTwo16(products, products);
}

// Four rows: word r of each half is a scaled sum of row r, over elements 0..15 in the low half, 16..31 in the high half.
VENEER_INLINE __m256i Scaled(__m256i rows01, __m256i rows23, __m256i scales) {
  return _mm256_madd_epi16(_mm256_add_epi16(_mm256_unpacklo_epi64(rows01, rows23), _mm256_unpackhi_epi64(rows01, rows23)), scales);
}
VENEER_INLINE __m256i AddHalves(__m256i rows0123, __m256i rows4567) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(rows0123, rows4567, 0x20), _mm256_permute2x128_si256(rows0123, rows4567, 0x31));
}

template <class Type, int kFirst>
VENEER_INLINE void DotOneToken(const void* const* rows, std::uint64_t s, const typename Type::Header& header, const std::int8_t* q,
                               __m256i (&out)[4][1]) {
  __m256i x[4], offset[4], quads[2][4];
  for (int k = 0; k < 4; ++k) {
    x[k] = LoadBytes(q + 32 * k);
    offset[k] = Offset<Type>(x[k]);
  }
  for (int quad = 0; quad < 2; ++quad) {
    __m256i twos[2][4];
    for (int two = 0; two < 2; ++two) {
      __m256i w[2][4];
      for (int r = 0; r < 2; ++r) Type::template Decode<kFirst / 4>(Type::At(rows[4 * quad + 2 * two + r], s), w[r]);
      for (int k = 0; k < 4; ++k) twos[two][k] = Products<Type>(w[0][k], w[1][k], x[k], offset[k]);
    }
    quads[quad][0] = Scaled(twos[0][0], twos[1][0], GroupScales<0>(header.scale[quad], kFirst / 2));
    quads[quad][1] = Scaled(twos[0][1], twos[1][1], GroupScales<1>(header.scale[quad], kFirst / 2));
    quads[quad][2] = Scaled(twos[0][2], twos[1][2], GroupScales<2>(header.scale[quad], kFirst / 2));
    quads[quad][3] = Scaled(twos[0][3], twos[1][3], GroupScales<3>(header.scale[quad], kFirst / 2));
  }
  for (int k = 0; k < 4; ++k) out[k][0] = AddHalves(quads[0][k], quads[1][k]);
}

template <class Type, int kFirst, int kGroup, int kTokens>
VENEER_INLINE void DotGroup(const __m256i (&w)[8][4], const typename Type::Header& header, const QuantizedActivations& x,
                            __m256i (&out)[kTokens]) {
  const __m256i scales[2] = {GroupScales<kGroup>(header.scale[0], kFirst / 2), GroupScales<kGroup>(header.scale[1], kFirst / 2)};
  for (std::uint32_t t = 0; t < kTokens; ++t) {
    const __m256i q = LoadBytes(x.q + t * x.q_stride + kActivationBlock * kGroup), offset = Offset<Type>(q);
    __m256i quads[2];
    for (int r = 0; r < 8; r += 4) {
      quads[r / 4] = Scaled(Products<Type>(w[r][kGroup], w[r + 1][kGroup], q, offset),
                            Products<Type>(w[r + 2][kGroup], w[r + 3][kGroup], q, offset), scales[r / 4]);
    }
    out[t] = AddHalves(quads[0], quads[1]);
  }
}

// One token: the products of a decoded row are taken at once, as the registers do not hold more. Several: rows are decoded once for all.
template <class Type, int kFirst, int kTokens>
VENEER_INLINE void DotSixteens(const void* const* rows, std::uint64_t s, const typename Type::Header& header, const QuantizedActivations& x,
                               __m256i (&out)[4][kTokens]) {
  if constexpr (kTokens == 1) {
    DotOneToken<Type, kFirst>(rows, s, header, x.q, out);
    return;
  }
  __m256i w[8][4];
  for (int r = 0; r < 8; ++r) Type::template Decode<kFirst / 4>(Type::At(rows[r], s), w[r]);
  DotGroup<Type, kFirst, 0>(w, header, x, out[0]);
  DotGroup<Type, kFirst, 1>(w, header, x, out[1]);
  DotGroup<Type, kFirst, 2>(w, header, x, out[2]);
  DotGroup<Type, kFirst, 3>(w, header, x, out[3]);
}

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_SIXTEENS_H_
