// Q3_K: superblocks of 256 in 8 groups of 32, signed six-bit scales of 16 elements each.
#ifndef VENEER_KERNELS_AVX2_Q3_K_H_
#define VENEER_KERNELS_AVX2_Q3_K_H_

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

struct Q3_K {
  using Block = BlockQ3_K;
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 8, kRun = 4, kOffset = 4;
  static constexpr bool kHasMinimum = false;

  VENEER_INLINE const Block& At(const void* row, std::uint64_t s) { return static_cast<const Block*>(row)[s]; }

  VENEER_INLINE int Scale(const Block& block, int n) {
    const int low = block.scales[n % 8] >> (n < 8 ? 0 : 4) & 15;
    return (low | (block.scales[8 + n % 4] >> 2 * (n / 4) & 3) << 4) - 32;
  }

  // 32 of group g in order, 0..7.
  VENEER_INLINE __m256i IntegersOf(const Block& block, int g) {
    const __m256i q = _mm256_srl_epi16(LoadBytes(block.qs + 32 * (g / 4)), _mm_cvtsi32_si128(2 * (g % 4)));
    const __m256i bit = _mm256_and_si256(LoadBytes(block.hmask), _mm256_set1_epi8(static_cast<char>(1 << g)));
    const __m256i top = _mm256_andnot_si256(_mm256_cmpeq_epi8(bit, _mm256_setzero_si256()), _mm256_set1_epi8(4));
    return _mm256_or_si256(_mm256_and_si256(q, _mm256_set1_epi8(3)), top);
  }

  // (d scale) q, each exact.
  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    const __m256i q = _mm256_sub_epi8(IntegersOf(block, g), _mm256_set1_epi8(kOffset));
    const float d = WidenHalf(block.d);
    const __m256 scale[2] = {_mm256_set1_ps(d * static_cast<float>(Scale(block, 2 * g))),
                             _mm256_set1_ps(d * static_cast<float>(Scale(block, 2 * g + 1)))};
    WidenBytes(q, w);
    for (int v = 0; v < 4; ++v) w[v] = _mm256_mul_ps(w[v], scale[v / 2]);
  }

  struct Header {
    __m256 d;
    __m256i scale[2][4];
  };

  // Signed scales from the words of 12 bytes.
  VENEER_INLINE void Unpack(__m256i (&word)[4]) {
    const __m256i four = _mm256_set1_epi8(15), top = _mm256_set1_epi8(48), offset = _mm256_set1_epi8(32);
    const __m256i low[4] = {word[0], word[1], _mm256_srli_epi16(word[0], 4), _mm256_srli_epi16(word[1], 4)};
    const __m256i high[4] = {_mm256_slli_epi16(word[2], 4), _mm256_slli_epi16(word[2], 2), word[2], _mm256_srli_epi16(word[2], 2)};
    for (int c = 0; c < 4; ++c) {
      word[c] = _mm256_sub_epi8(_mm256_or_si256(_mm256_and_si256(low[c], four), _mm256_and_si256(high[c], top)), offset);
    }
  }

  VENEER_INLINE void ReadHeader(const void* const* rows, std::uint64_t s, Header& out) {
    ReadScales<Block>(rows, s, offsetof(Block, scales) - 4, out.scale);  // the last 16 bytes that end before d
    for (__m256i(&quad)[4] : out.scale) {
      for (int c = 0; c < 3; ++c) quad[c] = quad[c + 1];
      Unpack(quad);
    }
    __m256i word[4];
    ReadColumns<Block>(rows, s, sizeof(Block) - 16, word);  // the last word is two bytes of scales, then d
    __m256 unused;
    WidenHalves(word[3], unused, out.d);
  }

  // 0..7: two low bits and, as 4, a bit of the mask.
  template <int h>
  VENEER_INLINE void Decode(const Block& block, __m256i out[4]) {
    const __m256i stored = LoadBytes(block.qs + 32 * h), mask = _mm256_set1_epi8(3);
    const __m256i bits = h == 0 ? LoadBytes(block.hmask) : _mm256_srli_epi16(LoadBytes(block.hmask), 4), bit = _mm256_set1_epi8(4);
    out[0] = _mm256_or_si256(_mm256_and_si256(stored, mask), _mm256_and_si256(_mm256_slli_epi16(bits, 2), bit));
    out[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(stored, 2), mask), _mm256_and_si256(_mm256_slli_epi16(bits, 1), bit));
    out[2] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(stored, 4), mask), _mm256_and_si256(bits, bit));
    out[3] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(stored, 6), mask), _mm256_and_si256(_mm256_srli_epi16(bits, 1), bit));
  }

  // Sums of four q x are at most 4 x 7 x 127, of eight (q - 4) x 8 x 4 x 127.
  template <int kFirst, int kTokens>
  VENEER_INLINE void Dot(const void* const* rows, std::uint64_t s, const Header& header, const QuantizedActivations& x,
                         __m256i (&out)[kRun][kTokens]) {
    DotSixteens<Q3_K, kFirst>(rows, s, header, x, out);
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<Q3_K, kTokens>(rows, blocks, x, out);
  }

  static constexpr int kMax = 7;
  static constexpr bool kHasHalfScales = true;
  VENEER_INLINE void UnpackRow(const void* row, std::uint64_t b, TileRow& out) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    out.u = IntegersOf(block, g);
    out.d = WidenHalf(block.d);
    out.half_scales = HalfFactors(Scale(block, 2 * g), Scale(block, 2 * g + 1));
  }
};

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_Q3_K_H_
