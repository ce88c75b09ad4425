// Q2_K: superblocks of 256 in 8 groups of 32, four-bit scales and minimums of 16 elements each.
#ifndef VENEER_KERNELS_AVX2_Q2_K_H_
#define VENEER_KERNELS_AVX2_Q2_K_H_

#include <cstddef>
#include <cstdint>

#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/sixteens.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/avx2/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

struct Q2_K {
  using Block = BlockQ2_K;
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 8, kRun = 4, kOffset = 0;
  static constexpr bool kHasMinimum = true;

  VENEER_INLINE const Block& At(const void* row, std::uint64_t s) { return static_cast<const Block*>(row)[s]; }

  // 32 of group g, in order.
  VENEER_INLINE __m256i IntegersOf(const Block& block, int g) {
    const __m256i q = _mm256_srl_epi16(LoadBytes(block.qs + 32 * (g / 4)), _mm_cvtsi32_si128(2 * (g % 4)));
    return _mm256_and_si256(q, _mm256_set1_epi8(3));
  }

  // Both products are exact; their difference rounds once, as in the scalar table.
  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    const float d = WidenHalf(block.d), dmin = WidenHalf(block.dmin);
    WidenBytes(IntegersOf(block, g), w);
    for (int v = 0; v < 4; ++v) {
      const int pair = block.scales[2 * g + v / 2];
      const __m256 scale = _mm256_set1_ps(d * static_cast<float>(pair & 15));
      const __m256 minimum = _mm256_set1_ps(dmin * static_cast<float>(pair >> 4));
      w[v] = _mm256_sub_ps(_mm256_mul_ps(w[v], scale), minimum);
    }
  }

  struct Header {
    __m256 d, m;
    __m256i scale[2][4];
    __m256i minimum[4];  // word r: word c of the minimums of row r; bytes 0, 1 belong to group 2 c, bytes 2, 3 to group 2 c + 1
  };

  VENEER_INLINE void ReadHeader(const void* const* rows, std::uint64_t s, Header& out) {
    ReadScales<Block>(rows, s, offsetof(Block, scales), out.scale);
    const __m256i low_half = _mm256_set1_epi8(15);
    for (int c = 0; c < 4; ++c) {
      const __m256i rows_in_order = _mm256_blend_epi32(out.scale[0][c], out.scale[1][c], 0xf0);
      out.minimum[c] = _mm256_and_si256(_mm256_srli_epi16(rows_in_order, 4), low_half);
      for (int quad = 0; quad < 2; ++quad) out.scale[quad][c] = _mm256_and_si256(out.scale[quad][c], low_half);
    }
    __m256i word[4];
    ReadColumns<Block>(rows, s, sizeof(Block) - 16, word);  // the last word is d, dmin
    WidenHalves(word[3], out.d, out.m);
  }

  template <int h>
  VENEER_INLINE void Decode(const Block& block, __m256i out[4]) {
    const __m256i stored = LoadBytes(block.qs + 32 * h), mask = _mm256_set1_epi8(3);
    out[0] = _mm256_and_si256(stored, mask);
    out[1] = _mm256_and_si256(_mm256_srli_epi16(stored, 2), mask);
    out[2] = _mm256_and_si256(_mm256_srli_epi16(stored, 4), mask);
    out[3] = _mm256_and_si256(_mm256_srli_epi16(stored, 6), mask);
  }

  template <int kFirst, int kTokens>
  VENEER_INLINE void Dot(const void* const* rows, std::uint64_t s, const Header& header, const QuantizedActivations& x,
                         __m256i (&out)[kRun][kTokens]) {
    DotSixteens<Q2_K, kFirst>(rows, s, header, x, out);
  }

  // Every word: the sum of x[0..15] in its low half, of x[16..31] in its high half. Sums of unsigned bytes x + 128.
  VENEER_INLINE __m256i HalfSums(const std::int8_t* x) {
    const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(LoadBytes(x), _mm256_set1_epi8(-128)), _mm256_setzero_si256());
    const __m256i sums = _mm256_add_epi64(eights, _mm256_shuffle_epi32(eights, 0x4e));
    const __m128i both = _mm_or_si128(_mm256_castsi256_si128(sums), _mm_slli_epi64(_mm256_extracti128_si256(sums, 1), 16));
    return _mm256_sub_epi16(_mm256_broadcastd_epi32(both), _mm256_set1_epi16(16 * 128));
  }

  template <int kGroup>
  VENEER_INLINE __m256i Minimum(const Header& header, const std::int8_t* x, std::int32_t /*sum*/) {
    return _mm256_madd_epi16(HalfSums(x), PickBytes<kGroup % 2 * 2, kGroup % 2 * 2 + 1>(header.minimum[kGroup / 2]));
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<Q2_K, kTokens>(rows, blocks, x, out);
  }

  static constexpr int kMax = 3;
  static constexpr bool kHasHalfScales = true;
  VENEER_INLINE void UnpackRow(const void* row, std::uint64_t b, TileRow& out) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    out.u = IntegersOf(block, g);
    out.d = WidenHalf(block.d);
    out.m = -WidenHalf(block.dmin);
    const int first = block.scales[2 * g], second = block.scales[2 * g + 1];
    out.half_scales = HalfFactors(first & 15, second & 15);
    out.half_minima = HalfFactors(first >> 4, second >> 4);
  }
};

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_Q2_K_H_
