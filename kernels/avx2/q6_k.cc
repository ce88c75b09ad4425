// Q6_K: superblocks of 256, handled as 8 groups of 32 that match the blocks of quantized activations.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {

struct Q6_K {
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 8;
  static constexpr bool kHasMinimum = false;

  VENEER_INLINE const BlockQ6_K& At(const void* row, std::uint64_t b) { return static_cast<const BlockQ6_K*>(row)[b]; }

  // Six-bit integers, 0..63, of group k of a half. A shift moves bits across bytes; the masks remove them.
  template <int k>
  VENEER_INLINE __m256i Integers(__m256i ql, __m256i qh) {
    const __m256i low = k < 2 ? ql : _mm256_srli_epi16(ql, 4);
    const __m256i high = k < 2 ? _mm256_slli_epi16(qh, k == 0 ? 4 : 2) : k == 2 ? qh : _mm256_srli_epi16(qh, 2);
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)), _mm256_and_si256(high, _mm256_set1_epi8(48)));
  }

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const BlockQ6_K& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8), k = g % 4;
    const __m256i ql = LoadBytes(block.ql + 64 * (g / 4) + 32 * (k % 2)), qh = LoadBytes(block.qh + 32 * (g / 4));
    __m256i q = k == 0 ? Integers<0>(ql, qh) : k == 1 ? Integers<1>(ql, qh) : k == 2 ? Integers<2>(ql, qh) : Integers<3>(ql, qh);
    q = _mm256_sub_epi8(q, _mm256_set1_epi8(32));
    const float d = WidenHalf(block.d);  // (d scale) q, each exact: 11 + 7 + 5 bits
    const __m256 scale[2] = {_mm256_set1_ps(d * static_cast<float>(block.scales[2 * g])),
                             _mm256_set1_ps(d * static_cast<float>(block.scales[2 * g + 1]))};
    const __m128i low = _mm256_castsi256_si128(q), high = _mm256_extracti128_si256(q, 1);
    const __m128i eight[4] = {low, _mm_srli_si128(low, 8), high, _mm_srli_si128(high, 8)};
    for (int v = 0; v < 4; ++v) w[v] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight[v])), scale[v / 2]);
  }

  struct Header {
    __m256 d;
    __m256i scale[4];  // bytes 0, 1 of a row's word belong to group 2 c, bytes 2, 3 to group 2 c + 1
  };

  VENEER_INLINE void ReadHeader(const void* const* rows, std::uint64_t s, Header& out) {
    __m256i pair[4], word[4];
    for (int i = 0; i < 4; ++i) pair[i] = LoadPair(At(rows[i], s).scales, At(rows[i + 4], s).scales);
    Transpose(pair, out.scale);
    // The last 16 bytes of a block; their last word is two scales and d.
    for (int i = 0; i < 4; ++i) pair[i] = LoadPair(At(rows[i], s).scales + 2, At(rows[i + 4], s).scales + 2);
    Transpose(pair, word);
    __m256 unused;
    WidenHalves(word[3], unused, out.d);
  }

  template <int kGroup>
  VENEER_INLINE void DecodeGroup(const void* const* rows, std::uint64_t s, Decoded& out) {
    for (int i = 0; i < 4; ++i) {
      const BlockQ6_K &x = At(rows[i], s), &y = At(rows[i + 4], s);
      const std::uint64_t low = 64 * (kGroup / 4) + 32 * (kGroup % 2), high = 32 * (kGroup / 4);
      out.first[i] = Integers<kGroup % 4>(LoadPair(x.ql + low, y.ql + low), LoadPair(x.qh + high, y.qh + high));
      out.second[i] = Integers<kGroup % 4>(LoadPair(x.ql + low + 16, y.ql + low + 16), LoadPair(x.qh + high + 16, y.qh + high + 16));
    }
  }

  // sum (q - 32) x = sum q x - sum 32 x. Sums of four q x are at most 4 x 63 x 127 = 32 004, of eight (q - 32) x 32 512.
  template <int kGroup>
  VENEER_INLINE __m256i Dot(const Header& header, const Decoded& w, const std::int8_t* x) {
    const __m256i x_first = _mm256_broadcastsi128_si256(LoadBytes16(x)), x_second = _mm256_broadcastsi128_si256(LoadBytes16(x + 16));
    const __m256i offset = DotHalves(_mm256_set1_epi8(32), _mm256_set1_epi8(32), x_first, x_second);
    __m256i row[4];
    for (int i = 0; i < 4; ++i) row[i] = _mm256_sub_epi16(DotHalves(w.first[i], w.second[i], x_first, x_second), offset);
    return SumProducts(row, PickSigned<kGroup % 2 * 2, kGroup % 2 * 2 + 1>(header.scale[kGroup / 2]));
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<Q6_K, kTokens>(rows, blocks, x, out);
  }
};

}  // namespace

const TypeKernels kQ6_K = {DequantizeRow<Q6_K>, DotRows<Q6_K>, DotRowsQ8<Q6_K>};

}  // namespace veneer::kernels::avx2
