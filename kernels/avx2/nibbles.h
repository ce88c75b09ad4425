// Q4_0, Q4_1, Q5_0, Q5_1: 16 bytes hold 32 nibbles (low ones first), Q5 adds a word of fifth bits.
#ifndef VENEER_KERNELS_AVX2_NIBBLES_H_
#define VENEER_KERNELS_AVX2_NIBBLES_H_

#include <cstdint>

#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/sum_rows.h"
#include "kernels/avx2/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

// Byte j is 16 if bit j of the word copied to byte positions by `spread` is set.
VENEER_INLINE __m256i FifthBits(__m256i words, __m256i spread) {
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(words, spread), bit), bit);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

// Values are (q - kOffset) d, or q d + m when the block has m.
template <class Block, int kZeroPoint>
struct Nibbles {
  static constexpr int kOffset = kZeroPoint;
  static constexpr std::uint64_t kBlock = 32, kBlockBytes = sizeof(Block);
  static constexpr int kRows = 8;
  static constexpr bool kHasMinimum = requires(Block block) { block.m; };
  static constexpr bool kHasFifthBit = requires(Block block) { block.qh; };

  VENEER_INLINE const Block& At(const void* row, std::uint64_t b) { return static_cast<const Block*>(row)[b]; }

  // 32 unsigned integers in order.
  VENEER_INLINE __m256i Integers(const Block& block) {
    const __m128i stored = LoadBytes16(block.qs);
    __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(stored), _mm_srli_epi16(stored, 4), 1);
    q = _mm256_and_si256(q, _mm256_set1_epi8(15));
    if constexpr (kHasFifthBit) {
      const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
      q = _mm256_or_si256(q, FifthBits(_mm256_set1_epi32(Int32At(block.qh)), spread));
    }
    return q;
  }

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const Block& block = At(row, b);
    const __m256i q = _mm256_sub_epi8(Integers(block), _mm256_set1_epi8(kOffset));
    const __m256 d = _mm256_set1_ps(WidenHalf(block.d));
    WidenBytes(q, w);
    for (int v = 0; v < 4; ++v) {
      w[v] = _mm256_mul_ps(w[v], d);
      if constexpr (kHasMinimum) w[v] = _mm256_add_ps(w[v], _mm256_set1_ps(WidenHalf(block.m)));
    }
  }

  // Eight rows of one block. Rows i and i + 4 share a vector: `first` holds their elements 0..15, `second` 16..31, unsigned.
  struct Decoded {
    __m256i first[4], second[4];
    __m256 d, m;  // rows 0..7
  };

  VENEER_INLINE void DecodeRows(const void* const* rows, std::uint64_t b, Decoded& out) {
    const __m256i low_half = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; ++i) {
      const Block &x = At(rows[i], b), &y = At(rows[i + 4], b);
      const __m256i stored = LoadPair(x.qs, y.qs);
      out.first[i] = _mm256_and_si256(stored, low_half);
      out.second[i] = _mm256_and_si256(_mm256_srli_epi16(stored, 4), low_half);
      if constexpr (kHasFifthBit) {
        const __m256i words =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi32(Int32At(x.qh))), _mm_set1_epi32(Int32At(y.qh)), 1);
        const __m256i spread0 = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
        const __m256i spread2 = _mm256_add_epi8(spread0, _mm256_set1_epi8(2));
        out.first[i] = _mm256_or_si256(out.first[i], FifthBits(words, spread0));
        out.second[i] = _mm256_or_si256(out.second[i], FifthBits(words, spread2));
      }
    }
    if constexpr (kHasMinimum) {  // d and m are neighbours: one 32-bit load per row, then split even and odd halves
      __m128i low = _mm_cvtsi32_si128(Int32At(&At(rows[0], b).d));
      low = _mm_insert_epi32(low, Int32At(&At(rows[1], b).d), 1);
      low = _mm_insert_epi32(low, Int32At(&At(rows[4], b).d), 2);
      low = _mm_insert_epi32(low, Int32At(&At(rows[5], b).d), 3);
      __m128i high = _mm_cvtsi32_si128(Int32At(&At(rows[2], b).d));
      high = _mm_insert_epi32(high, Int32At(&At(rows[3], b).d), 1);
      high = _mm_insert_epi32(high, Int32At(&At(rows[6], b).d), 2);
      high = _mm_insert_epi32(high, Int32At(&At(rows[7], b).d), 3);
      const __m256 x = _mm256_cvtph_ps(low), y = _mm256_cvtph_ps(high);  // d0 m0 d1 m1 | d4 m4 d5 m5, then 2, 3 | 6, 7
      out.d = _mm256_shuffle_ps(x, y, 0x88);
      out.m = _mm256_shuffle_ps(x, y, 0xdd);
    } else {
      out.d = WidenEight(At(rows[0], b).d, At(rows[1], b).d, At(rows[2], b).d, At(rows[3], b).d,  //
                         At(rows[4], b).d, At(rows[5], b).d, At(rows[6], b).d, At(rows[7], b).d);
    }
  }

  // sum_j q[r][j] x[j] for rows 0..7, exact. Four bits: a lane of `pair` is at most 4 x 15 x 127 = 7620, four of them fit 16 bits.
  // Five bits: 15 748, two of them fit.
  VENEER_INLINE __m256i DotBlock(const Decoded& w, const std::int8_t* x) {
    const __m256i x_first = _mm256_broadcastsi128_si256(LoadBytes16(x)), x_second = _mm256_broadcastsi128_si256(LoadBytes16(x + 16));
    __m256i pair[4];
    for (int i = 0; i < 4; ++i) {
      pair[i] = _mm256_add_epi16(_mm256_maddubs_epi16(w.first[i], x_first), _mm256_maddubs_epi16(w.second[i], x_second));
    }
    const __m256i ones = _mm256_set1_epi16(1);
    return kHasFifthBit ? SumProducts(pair, ones) : _mm256_madd_epi16(SumWords16(pair), ones);
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    __m256 total[kTokens];
    for (int t = 0; t < kTokens; ++t) total[t] = _mm256_setzero_ps();
    Decoded w;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      DecodeRows(rows, b, w);
      if (b % 8 == 0) {
        for (int r = 0; r < kRows; ++r) PrefetchAhead<8 * sizeof(Block)>(&At(rows[r], b));
      }
      for (std::uint32_t t = 0; t < kTokens; ++t) {
        const std::int32_t sum = x.sum[t * x.block_stride + b];
        const __m256 d = _mm256_broadcast_ss(x.d + t * x.block_stride + b);
        __m256i dot = DotBlock(w, x.q + t * x.q_stride + kActivationBlock * b);
        if constexpr (kOffset != 0) dot = _mm256_sub_epi32(dot, _mm256_set1_epi32(kOffset * sum));
        total[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(w.d, d), total[t]);
        if constexpr (kHasMinimum) {
          total[t] = _mm256_fmadd_ps(_mm256_set1_ps(static_cast<float>(sum)), _mm256_mul_ps(w.m, d), total[t]);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) _mm256_store_ps(out[t], total[t]);
  }

  static constexpr int kMax = kHasFifthBit ? 31 : 15;
  static constexpr bool kHasHalfScales = false;
  VENEER_INLINE void UnpackRow(const void* row, std::uint64_t b, TileRow& out) {
    const Block& block = At(row, b);
    out.u = Integers(block);
    out.d = WidenHalf(block.d);
    if constexpr (kHasMinimum) out.m = WidenHalf(block.m);
  }
};

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_NIBBLES_H_
