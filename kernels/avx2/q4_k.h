// Q4_K, Q5_K: superblocks of 256 in 8 groups of 32, six-bit scales and minimums.
#ifndef VENEER_KERNELS_AVX2_Q4_K_H_
#define VENEER_KERNELS_AVX2_Q4_K_H_

#include <cstdint>

#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/avx2/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

template <int kGroup>
VENEER_INLINE __m256i FifthBits(__m256i qh) {
  const __m256i shifted =
      kGroup < 4 ? _mm256_slli_epi16(qh, kGroup < 4 ? 4 - kGroup : 0) : _mm256_srli_epi16(qh, kGroup < 4 ? 0 : kGroup - 4);
  return _mm256_and_si256(shifted, _mm256_set1_epi8(16));
}

template <class StoredBlock>
struct SixBitScales {
  using Block = StoredBlock;
  static constexpr std::uint64_t kBlock = 256;
  static constexpr int kRows = 8, kRun = 2;
  static constexpr bool kHasMinimum = true;
  static constexpr bool kHasFifthBit = requires(Block block) { block.qh; };

  VENEER_INLINE const Block& At(const void* row, std::uint64_t s) { return static_cast<const Block*>(row)[s]; }

  // Scales of groups 0..3 and 4..7 and their minimums, one byte each.
  struct Words {
    std::uint32_t scale[2], minimum[2];
  };
  VENEER_INLINE Words Unpack(const std::uint8_t* s) {
    const auto low = static_cast<std::uint32_t>(Int32At(s)), middle = static_cast<std::uint32_t>(Int32At(s + 4));
    const auto high = static_cast<std::uint32_t>(Int32At(s + 8));
    return {{low & 0x3f3f3f3f, (high & 0x0f0f0f0f) | (low >> 2 & 0x30303030)},
            {middle & 0x3f3f3f3f, (high >> 4 & 0x0f0f0f0f) | (middle >> 2 & 0x30303030)}};
  }

  VENEER_INLINE int Byte(const std::uint32_t (&words)[2], int g) { return static_cast<int>(words[g / 4] >> 8 * (g % 4) & 63); }

  // 32 of group g, in order.
  VENEER_INLINE __m256i IntegersOf(const Block& block, int g) {
    __m256i q = LoadBytes(block.qs + 32 * (g / 2));
    if (g % 2 != 0) q = _mm256_srli_epi16(q, 4);
    q = _mm256_and_si256(q, _mm256_set1_epi8(15));
    if constexpr (kHasFifthBit) {
      const __m256i bit = _mm256_and_si256(LoadBytes(block.qh), _mm256_set1_epi8(static_cast<char>(1 << g)));
      q = _mm256_or_si256(q, _mm256_andnot_si256(_mm256_cmpeq_epi8(bit, _mm256_setzero_si256()), _mm256_set1_epi8(16)));
    }
    return q;
  }

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    const Words words = Unpack(block.scales);
    const __m256 d = _mm256_set1_ps(WidenHalf(block.d) * static_cast<float>(Byte(words.scale, g)));
    const __m256 m = _mm256_set1_ps(WidenHalf(block.dmin) * static_cast<float>(Byte(words.minimum, g)));
    WidenBytes(IntegersOf(block, g), w);
    for (int v = 0; v < 4; ++v) w[v] = _mm256_sub_ps(_mm256_mul_ps(w[v], d), m);
  }

  struct Header {
    __m256 d, m;
    __m256i scale[2], minimum[2];  // byte k of a row's word belongs to group k, or 4 + k
  };

  VENEER_INLINE void ReadHeader(const void* const* rows, std::uint64_t s, Header& out) {
    __m256i word[4];
    ReadColumns<Block>(rows, s, 0, word);
    WidenHalves(word[0], out.d, out.m);
    const __m256i six = _mm256_set1_epi8(0x3f), four = _mm256_set1_epi8(0x0f), top = _mm256_set1_epi8(0x30);
    out.scale[0] = _mm256_and_si256(word[1], six);
    out.minimum[0] = _mm256_and_si256(word[2], six);
    const __m256i high_scale = _mm256_and_si256(_mm256_srli_epi16(word[1], 2), top);
    const __m256i high_minimum = _mm256_and_si256(_mm256_srli_epi16(word[2], 2), top);
    out.scale[1] = _mm256_or_si256(_mm256_and_si256(word[3], four), high_scale);
    out.minimum[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(word[3], 4), four), high_minimum);
  }

  // A run of one pair of rows, a row in each half of a vector: elements 0..15 and 16..31 of its groups, unsigned.
  struct Decoded {
    __m256i first[kRun], second[kRun];
  };

  template <int kFirst>
  VENEER_INLINE void DecodeHalf(const Block& x, const Block& y, int element, __m256i (&out)[kRun]) {
    const __m256i stored = LoadPair(x.qs + 16 * kFirst + element, y.qs + 16 * kFirst + element), low_half = _mm256_set1_epi8(15);
    out[0] = _mm256_and_si256(stored, low_half);
    out[1] = _mm256_and_si256(_mm256_srli_epi16(stored, 4), low_half);
    if constexpr (kHasFifthBit) {
      const __m256i qh = LoadPair(x.qh + element, y.qh + element);
      out[0] = _mm256_or_si256(out[0], FifthBits<kFirst>(qh));
      out[1] = _mm256_or_si256(out[1], FifthBits<kFirst + 1>(qh));
    }
  }

  template <int kFirst>
  VENEER_INLINE void Decode(const void* const* rows, std::uint64_t s, int i, Decoded& out) {
    const Block &x = At(rows[i], s), &y = At(rows[i + 4], s);
    DecodeHalf<kFirst>(x, y, 0, out.first);
    DecodeHalf<kFirst>(x, y, 16, out.second);
  }

  // Four bits: a 16-bit lane is at most 4 x 15 x 127 = 7620, four of them fit 16 bits. Five bits: 15 748, two of them fit.
  VENEER_INLINE __m256i Products(const Decoded& w, int k, const std::int8_t* q) {
    const __m256i x_first = _mm256_broadcastsi128_si256(LoadBytes16(q)), x_second = _mm256_broadcastsi128_si256(LoadBytes16(q + 16));
    return _mm256_add_epi16(_mm256_maddubs_epi16(w.first[k], x_first), _mm256_maddubs_epi16(w.second[k], x_second));
  }
  VENEER_INLINE __m256i Scaled(const __m256i pair[4], __m256i scales) {
    return kHasFifthBit ? SumProducts(pair, scales) : _mm256_madd_epi16(SumWords16(pair), scales);
  }

  template <int kFirst, int kTokens>
  VENEER_INLINE void Dot(const void* const* rows, std::uint64_t s, const Header& header, const QuantizedActivations& x,
                         __m256i (&out)[kRun][kTokens]) {
    const __m256i scales[kRun] = {PickBytes<kFirst % 4, kFirst % 4>(header.scale[kFirst / 4]),
                                  PickBytes<kFirst % 4 + 1, kFirst % 4 + 1>(header.scale[kFirst / 4])};
    Decoded w[4];
    if constexpr (kTokens == 1) {  // products at once: the registers hold one decoded pair of rows, not four
      __m256i pair[kRun][4];
      for (int i = 0; i < 4; ++i) {
        Decode<kFirst>(rows, s, i, w[i]);
        for (int k = 0; k < kRun; ++k) pair[k][i] = Products(w[i], k, x.q + static_cast<int>(kActivationBlock) * k);
      }
      for (int k = 0; k < kRun; ++k) out[k][0] = Scaled(pair[k], scales[k]);
      return;
    }
    for (int i = 0; i < 4; ++i) Decode<kFirst>(rows, s, i, w[i]);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      for (std::uint32_t k = 0; k < kRun; ++k) {
        __m256i pair[4];
        for (int i = 0; i < 4; ++i) pair[i] = Products(w[i], static_cast<int>(k), x.q + t * x.q_stride + kActivationBlock * k);
        out[k][t] = Scaled(pair, scales[k]);
      }
    }
  }

  template <int kGroup>
  VENEER_INLINE __m256i Minimum(const Header& header, const std::int8_t* /*x*/, std::int32_t sum) {
    return _mm256_madd_epi16(PickBytes<kGroup % 4, kZero>(header.minimum[kGroup / 4]), _mm256_set1_epi32(sum));
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<SixBitScales, kTokens>(rows, blocks, x, out);
  }

  static constexpr int kOffset = 0, kMax = kHasFifthBit ? 31 : 15;
  static constexpr bool kHasHalfScales = true;
  VENEER_INLINE void UnpackRow(const void* row, std::uint64_t b, TileRow& out) {
    const Block& block = At(row, b / 8);
    const int g = static_cast<int>(b % 8);
    const Words words = Unpack(block.scales);
    out.u = IntegersOf(block, g);
    out.d = WidenHalf(block.d);
    out.m = -WidenHalf(block.dmin);
    out.half_scales = HalfFactors(Byte(words.scale, g), Byte(words.scale, g));
    out.half_minima = HalfFactors(Byte(words.minimum, g), Byte(words.minimum, g));
  }
};

using Q4_K = SixBitScales<BlockQ4_K>;
using Q5_K = SixBitScales<BlockQ5_K>;

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_Q4_K_H_
