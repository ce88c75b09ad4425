// Q6_K: superblocks of 256, handled as 8 groups of 32 that match the blocks of quantized activations.
#ifndef VENEER_KERNELS_AVX2_Q6_K_H_
#define VENEER_KERNELS_AVX2_Q6_K_H_

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

struct Q6_K {
  using Block = BlockQ6_K;
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 8, kRun = 4, kOffset = 32;
  static constexpr bool kHasMinimum = false;

  VENEER_INLINE const Block& At(const void* row, std::uint64_t b) { return static_cast<const Block*>(row)[b]; }

  // Six-bit integers, 0..63, of group k of a half. A shift moves bits across bytes; the masks remove them.
  template <int k>
  VENEER_INLINE __m256i Integers(__m256i ql, __m256i qh) {
    const __m256i low = k < 2 ? ql : _mm256_srli_epi16(ql, 4);
    const __m256i high = k < 2 ? _mm256_slli_epi16(qh, k == 0 ? 4 : 2) : k == 2 ? qh : _mm256_srli_epi16(qh, 2);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(high, _mm256_set1_epi8(48)));
  }

  // 32 of group g, in order.
  VENEER_INLINE __m256i IntegersOf(const Block& block, int g) {
    const int k = g % 4;
    const __m256i ql = LoadBytes(block.ql + 64 * (g / 4) + 32 * (k % 2)), qh = LoadBytes(block.qh + 32 * (g / 4));
    return k == 0 ? Integers<0>(ql, qh) : k == 1 ? Integers<1>(ql, qh) : k == 2 ? Integers<2>(ql, qh) : Integers<3>(ql, qh);
  }

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    const __m256i q = _mm256_sub_epi8(IntegersOf(block, g), _mm256_set1_epi8(kOffset));
    const float d = WidenHalf(block.d);  // (d scale) q, each exact: 11 + 7 + 5 bits
    const __m256 scale[2] = {_mm256_set1_ps(d * static_cast<float>(block.scales[2 * g])),
                             _mm256_set1_ps(d * static_cast<float>(block.scales[2 * g + 1]))};
    WidenBytes(q, w);
    for (int v = 0; v < 4; ++v) w[v] = _mm256_mul_ps(w[v], scale[v / 2]);
  }

  struct Header {
    __m256 d;
    __m256i scale[2][4];
  };

  VENEER_INLINE void ReadHeader(const void* const* rows, std::uint64_t s, Header& out) {
    ReadScales<Block>(rows, s, offsetof(Block, scales), out.scale);
    __m256i word[4];
    ReadColumns<Block>(rows, s, sizeof(Block) - 16, word);  // the last word is two scales, then d
    __m256 unused;
    WidenHalves(word[3], unused, out.d);
  }

  template <int h>
  VENEER_INLINE void Decode(const Block& block, __m256i out[4]) {
    const __m256i ql = LoadBytes(block.ql + 64 * h), ql32 = LoadBytes(block.ql + 64 * h + 32), qh = LoadBytes(block.qh + 32 * h);
    out[0] = Integers<0>(ql, qh);
    out[1] = Integers<1>(ql32, qh);
    out[2] = Integers<2>(ql, qh);
    out[3] = Integers<3>(ql32, qh);
  }

  // Sums of four q x are at most 4 x 63 x 127 = 32 004, of eight (q - 32) x 8 x 32 x 127 = 32 512.
  template <int kFirst, int kTokens>
  VENEER_INLINE void Dot(const void* const* rows, std::uint64_t s, const Header& header, const QuantizedActivations& x,
                         __m256i (&out)[kRun][kTokens]) {
    DotSixteens<Q6_K, kFirst>(rows, s, header, x, out);
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<Q6_K, kTokens>(rows, blocks, x, out);
  }

  static constexpr int kMax = 63;
  static constexpr bool kHasHalfScales = true;
  VENEER_INLINE void UnpackRow(const void* row, std::uint64_t b, TileRow& out) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    out.u = IntegersOf(block, g);
    out.d = WidenHalf(block.d);
    out.half_scales = HalfFactors(block.scales[2 * g], block.scales[2 * g + 1]);
  }
};

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_Q6_K_H_
