// Q6_K: superblocks of 256, handled as 8 groups of 32 that match the blocks of quantized activations.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx2/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {

struct Q6_K {
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 4;

  VENEER_INLINE const BlockQ6_K& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ6_K*>(row)[b]; }

  // The 32 six-bit integers of group g, 0..63. A shift moves bits across bytes; the mask removes them.
  VENEER_INLINE __m256i Integers(const BlockQ6_K& block, int g) {
    const int h = g / 4, k = g % 4;
    __m256i low = LoadBytes(block.ql + 64 * h + 32 * (k % 2));
    if (k >= 2) low = _mm256_srli_epi16(low, 4);
    const __m256i high = LoadBytes(block.qh + 32 * h);
    const __m256i top = k == 0   ? _mm256_slli_epi16(high, 4)
                        : k == 1 ? _mm256_slli_epi16(high, 2)
                        : k == 2 ? high
                                 : _mm256_srli_epi16(high, 2);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(top, _mm256_set1_epi8(48)));
  }

  VENEER_INLINE __m256i IntegersAt(const BlockQ6_K& block, int g) {
    switch (g % 4) {  // group number as a constant: shifts take immediates
      case 0:
        return g < 4 ? Integers(block, 0) : Integers(block, 4);
      case 1:
        return g < 4 ? Integers(block, 1) : Integers(block, 5);
      case 2:
        return g < 4 ? Integers(block, 2) : Integers(block, 6);
      default:
        return g < 4 ? Integers(block, 3) : Integers(block, 7);
    }
  }

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const BlockQ6_K& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    const __m256i q = _mm256_sub_epi8(IntegersAt(block, g), _mm256_set1_epi8(32));
    const float d = WidenHalf(block.d);  // (d scale) q, each exact: 11 + 7 + 5 bits
    const __m256 scale[2] = {_mm256_set1_ps(d * static_cast<float>(block.scales[2 * g])),
                             _mm256_set1_ps(d * static_cast<float>(block.scales[2 * g + 1]))};
    const __m128i low = _mm256_castsi256_si128(q), high = _mm256_extracti128_si256(q, 1);
    const __m128i eight[4] = {low, _mm_srli_si128(low, 8), high, _mm_srli_si128(high, 8)};
    for (int v = 0; v < 4; ++v) w[v] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight[v])), scale[v / 2]);
  }

  // 16-bit lanes: scale 2 g in the low half (elements 0..15 of the group), 2 g + 1 in the high half.
  VENEER_INLINE __m256i Scales(const BlockQ6_K& block, int g) {
    const __m256i all = _mm256_broadcastsi128_si256(LoadBytes16(block.scales));
    const auto byte = static_cast<short>(2 * g << 8 | 0x80);  // zero, then the scale: arithmetic shift by 8 extends its sign
    const __m256i pick =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi16(byte)), _mm_set1_epi16(static_cast<short>(byte + 0x100)), 1);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(all, pick), 8);
  }

  // sum (q - 32) x = sum q x - sum 32 x in 16-bit pairs: |q x| pairs <= 16 002, 32 x pairs <= 8128; then times the scale into 32 bits.
  template <int kTokens, int kGroup>
  VENEER_INLINE void MultiplyOne(const void* const* rows, std::uint64_t superblock, const QuantizedActivations& x, __m128 w_d,
                                 __m128 (&total)[kTokens]) {
    __m256i w[kRows], scales[kRows];
    for (int r = 0; r < kRows; ++r) {
      w[r] = Integers(At(rows[r], superblock), kGroup);
      scales[r] = Scales(At(rows[r], superblock), kGroup);
    }
    const std::uint64_t b = 8 * superblock + kGroup;
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      const __m256i q = LoadBytes(x.q + t * x.q_stride + kActivationBlock * b);
      const __m256i offset = _mm256_maddubs_epi16(_mm256_set1_epi8(32), q);
      __m256i dot[kRows];
      for (int r = 0; r < kRows; ++r) dot[r] = _mm256_madd_epi16(_mm256_sub_epi16(_mm256_maddubs_epi16(w[r], q), offset), scales[r]);
      const __m128 d = _mm_mul_ps(w_d, _mm_broadcast_ss(x.d + t * x.block_stride + b));
      total[t] = _mm_fmadd_ps(_mm_cvtepi32_ps(SumFourRows(dot)), d, total[t]);
    }
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    __m128 total[kTokens];
    for (int t = 0; t < kTokens; ++t) total[t] = _mm_setzero_ps();
    for (std::uint64_t s = 0; s < blocks / 8; ++s) {
      const __m128 w_d = WidenFour(At(rows[0], s).d, At(rows[1], s).d, At(rows[2], s).d, At(rows[3], s).d);
      MultiplyOne<kTokens, 0>(rows, s, x, w_d, total);
      MultiplyOne<kTokens, 1>(rows, s, x, w_d, total);
      MultiplyOne<kTokens, 2>(rows, s, x, w_d, total);
      MultiplyOne<kTokens, 3>(rows, s, x, w_d, total);
      MultiplyOne<kTokens, 4>(rows, s, x, w_d, total);
      MultiplyOne<kTokens, 5>(rows, s, x, w_d, total);
      MultiplyOne<kTokens, 6>(rows, s, x, w_d, total);
      MultiplyOne<kTokens, 7>(rows, s, x, w_d, total);
    }
    for (int t = 0; t < kTokens; ++t) _mm_store_ps(out[t], total[t]);
  }

  static constexpr int kMax = 63, kOffset = 32;
  static constexpr bool kHasMinimum = false, kHasHalfScales = true;
  VENEER_INLINE void Unpack(const void* row, std::uint64_t b, TileRow& out) {
    const BlockQ6_K& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    out.u = IntegersAt(block, g);
    out.d = WidenHalf(block.d);
    out.half_scales = HalfFactors(block.scales[2 * g], block.scales[2 * g + 1]);
  }
};

}  // namespace

const TypeKernels kQ6_K = {DequantizeRow<Q6_K>, DotRows<Q6_K>, DotRowsQ8<Q6_K>, MultiplyTile<Q6_K>};

}  // namespace veneer::kernels::avx2
