// Q3_K: superblocks of 256 in 8 groups of 32, signed six-bit scales of 16 elements each.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {

struct Q3_K {
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 8;
  static constexpr bool kHasMinimum = false;

  VENEER_INLINE const BlockQ3_K& At(const void* row, std::uint64_t s) { return static_cast<const BlockQ3_K*>(row)[s]; }

  VENEER_INLINE int Scale(const BlockQ3_K& block, int n) {
    const int low = block.scales[n % 8] >> (n < 8 ? 0 : 4) & 15;
    return (low | (block.scales[8 + n % 4] >> 2 * (n / 4) & 3) << 4) - 32;
  }

  // (d scale) q, each exact.
  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const BlockQ3_K& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    __m256i q = _mm256_srl_epi16(LoadBytes(block.qs + 32 * (g / 4)), _mm_cvtsi32_si128(2 * (g % 4)));
    q = _mm256_and_si256(q, _mm256_set1_epi8(3));
    const __m256i bit = _mm256_and_si256(LoadBytes(block.hmask), _mm256_set1_epi8(static_cast<char>(1 << g)));
    q = _mm256_sub_epi8(q, _mm256_and_si256(_mm256_cmpeq_epi8(bit, _mm256_setzero_si256()), _mm256_set1_epi8(4)));
    const float d = WidenHalf(block.d);
    const __m256 scale[2] = {_mm256_set1_ps(d * static_cast<float>(Scale(block, 2 * g))),
                             _mm256_set1_ps(d * static_cast<float>(Scale(block, 2 * g + 1)))};
    const __m128i low = _mm256_castsi256_si128(q), high = _mm256_extracti128_si256(q, 1);
    const __m128i eight[4] = {low, _mm_srli_si128(low, 8), high, _mm_srli_si128(high, 8)};
    for (int v = 0; v < 4; ++v) w[v] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight[v])), scale[v / 2]);
  }

  struct Header {
    __m256 d;
    __m256i scale[4];  // bytes 0, 1 of a row's word belong to group 2 c, bytes 2, 3 to group 2 c + 1; signed
  };

  VENEER_INLINE void ReadHeader(const void* const* rows, std::uint64_t s, Header& out) {
    __m256i pair[4], word[4];
    for (int i = 0; i < 4; ++i) {  // the last 16 bytes of a block without the first two: scales, d, 0
      pair[i] = _mm256_srli_si256(LoadPair(At(rows[i], s).qs + 62, At(rows[i + 4], s).qs + 62), 2);
    }
    Transpose(pair, word);
    __m256 unused;
    WidenHalves(word[3], out.d, unused);
    const __m256i four = _mm256_set1_epi8(15), top = _mm256_set1_epi8(48), offset = _mm256_set1_epi8(32);
    const __m256i low[4] = {word[0], word[1], _mm256_srli_epi16(word[0], 4), _mm256_srli_epi16(word[1], 4)};
    const __m256i high[4] = {_mm256_slli_epi16(word[2], 4), _mm256_slli_epi16(word[2], 2), word[2], _mm256_srli_epi16(word[2], 2)};
    for (int c = 0; c < 4; ++c) {
      const __m256i six = _mm256_or_si256(_mm256_and_si256(low[c], four), _mm256_and_si256(high[c], top));
      out.scale[c] = _mm256_sub_epi8(six, offset);
    }
  }

  // 0..7: two low bits and, as 4, bit g of the mask.
  template <int kGroup>
  VENEER_INLINE __m256i Integers(__m256i qs, __m256i hmask) {
    const __m256i low = _mm256_and_si256(_mm256_srli_epi16(qs, 2 * (kGroup % 4)), _mm256_set1_epi8(3));
    const __m256i shifted = kGroup < 2 ? _mm256_slli_epi16(hmask, kGroup < 2 ? 2 - kGroup : 0)  //
                                       : _mm256_srli_epi16(hmask, kGroup < 2 ? 0 : kGroup - 2);
    return _mm256_or_si256(low, _mm256_and_si256(shifted, _mm256_set1_epi8(4)));
  }

  template <int kGroup>
  VENEER_INLINE void DecodeGroup(const void* const* rows, std::uint64_t s, Decoded& out) {
    for (int i = 0; i < 4; ++i) {
      const BlockQ3_K &x = At(rows[i], s), &y = At(rows[i + 4], s);
      const std::uint64_t first = 32 * (kGroup / 4);
      out.first[i] = Integers<kGroup>(LoadPair(x.qs + first, y.qs + first), LoadPair(x.hmask, y.hmask));
      out.second[i] = Integers<kGroup>(LoadPair(x.qs + first + 16, y.qs + first + 16), LoadPair(x.hmask + 16, y.hmask + 16));
    }
  }

  // sum (q - 4) x = sum q x - 4 sum x; sums of 16 are at most 16 x 7 x 127 before and 16 x 4 x 127 after the subtraction.
  template <int kGroup>
  VENEER_INLINE __m256i Dot(const Header& header, const Decoded& w, const std::int8_t* x) {
    const __m256i sums = _mm256_sub_epi16(DotHalves(w, x), _mm256_slli_epi16(HalfSums(x), 2));
    return _mm256_madd_epi16(sums, PickSigned<kGroup % 2 * 2, kGroup % 2 * 2 + 1>(header.scale[kGroup / 2]));
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<Q3_K, kTokens>(rows, blocks, x, out);
  }
};

}  // namespace

const TypeKernels kQ3_K = {DequantizeRow<Q3_K>, DotRows<Q3_K>, DotRowsQ8<Q3_K>};

}  // namespace veneer::kernels::avx2
