// Q2_K: superblocks of 256 in 8 groups of 32, four-bit scales and minimums of 16 elements each.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {

struct Q2_K {
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 8;
  static constexpr bool kHasMinimum = true;

  VENEER_INLINE const BlockQ2_K& At(const void* row, std::uint64_t s) { return static_cast<const BlockQ2_K*>(row)[s]; }

  // Both products are exact; their difference rounds once, as in the scalar table.
  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const BlockQ2_K& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    __m256i q = _mm256_srl_epi16(LoadBytes(block.qs + 32 * (g / 4)), _mm_cvtsi32_si128(2 * (g % 4)));
    q = _mm256_and_si256(q, _mm256_set1_epi8(3));
    const float d = WidenHalf(block.d), dmin = WidenHalf(block.dmin);
    const __m128i low = _mm256_castsi256_si128(q), high = _mm256_extracti128_si256(q, 1);
    const __m128i eight[4] = {low, _mm_srli_si128(low, 8), high, _mm_srli_si128(high, 8)};
    for (int v = 0; v < 4; ++v) {
      const int pair = block.scales[2 * g + v / 2];
      const __m256 scale = _mm256_set1_ps(d * static_cast<float>(pair & 15));
      const __m256 minimum = _mm256_set1_ps(dmin * static_cast<float>(pair >> 4));
      w[v] = _mm256_sub_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight[v])), scale), minimum);
    }
  }

  struct Header {
    __m256 d, m;
    __m256i pairs[4];  // bytes 0, 1 of a row's word belong to group 2 c, bytes 2, 3 to group 2 c + 1
  };

  VENEER_INLINE void ReadHeader(const void* const* rows, std::uint64_t s, Header& out) {
    __m256i pair[4], word[4];
    for (int i = 0; i < 4; ++i) pair[i] = LoadPair(At(rows[i], s).scales, At(rows[i + 4], s).scales);
    Transpose(pair, out.pairs);
    // The last 16 bytes of a block; their last word is d, dmin.
    for (int i = 0; i < 4; ++i) pair[i] = LoadPair(At(rows[i], s).qs + 52, At(rows[i + 4], s).qs + 52);
    Transpose(pair, word);
    WidenHalves(word[3], out.d, out.m);
  }

  template <int kGroup>
  VENEER_INLINE __m256i Integers(__m256i qs) {
    return _mm256_and_si256(_mm256_srli_epi16(qs, 2 * (kGroup % 4)), _mm256_set1_epi8(3));
  }

  template <int kGroup>
  VENEER_INLINE void DecodeGroup(const void* const* rows, std::uint64_t s, Decoded& out) {
    for (int i = 0; i < 4; ++i) {
      const std::uint8_t *x = At(rows[i], s).qs + 32 * (kGroup / 4), *y = At(rows[i + 4], s).qs + 32 * (kGroup / 4);
      out.first[i] = Integers<kGroup>(LoadPair(x, y));
      out.second[i] = Integers<kGroup>(LoadPair(x + 16, y + 16));
    }
  }

  // Sums of 16 are at most 16 x 3 x 127.
  template <int kGroup>
  VENEER_INLINE __m256i Dot(const Header& header, const Decoded& w, const std::int8_t* x) {
    const __m256i scales = _mm256_and_si256(header.pairs[kGroup / 2], _mm256_set1_epi8(15));
    return _mm256_madd_epi16(DotHalves(w, x), PickBytes<kGroup % 2 * 2, kGroup % 2 * 2 + 1>(scales));
  }

  template <int kGroup>
  VENEER_INLINE __m256i Minimum(const Header& header, const std::int8_t* x, std::int32_t /*sum*/) {
    const __m256i minimums = _mm256_and_si256(_mm256_srli_epi16(header.pairs[kGroup / 2], 4), _mm256_set1_epi8(15));
    return _mm256_madd_epi16(HalfSums(x), PickBytes<kGroup % 2 * 2, kGroup % 2 * 2 + 1>(minimums));
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<Q2_K, kTokens>(rows, blocks, x, out);
  }
};

}  // namespace

const TypeKernels kQ2_K = {DequantizeRow<Q2_K>, DotRows<Q2_K>, DotRowsQ8<Q2_K>};

}  // namespace veneer::kernels::avx2
