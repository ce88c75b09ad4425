// Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL: eight rows and two blocks at once, as 16 times 16 stored bytes in four vectors.
#include <cstdint>

#include "kernels/avx2/iq4_nl.h"
#include "kernels/avx2/nibbles.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/simd.h"
#include "kernels/avx512/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx512 {
namespace {

// What bytes of stored nibbles mean: themselves, or places in a table of values that are moved up to be unsigned.
inline constexpr int kTableOffset = 128;
VENEER_INLINE __m512i LookUp(__m512i places) {
  const __m512i values = _mm512_xor_si512(Broadcast16(kIq4NlValues), _mm512_set1_epi8(-128));
  return _mm512_shuffle_epi8(values, places);
}

// Words of a pair of blocks: word j of lane l belongs to row 4 (j / 2) + l, block b + j % 2. Values as in avx2/nibbles.h.
template <class Block, int kOffset>
struct Pairs {
  static constexpr int kRows = 8;
  static constexpr bool kHasMinimum = requires(Block block) { block.m; };
  static constexpr bool kHasFifthBit = requires(Block block) { block.qh; };
  static constexpr bool kHasTable = kOffset == kTableOffset;

  VENEER_INLINE const Block& At(const void* row, std::uint64_t b) { return static_cast<const Block*>(row)[b]; }

  struct Decoded {
    __m512i first[4], second[4];  // elements 0..15 and 16..31, unsigned; vector j: rows 4 (j / 2) .. 4 (j / 2) + 3 of block b + j % 2
    __m512 d, m;
  };

  // Byte j gets bit 8 kByte + j of the first word of its lane.
  template <int kByte>
  VENEER_INLINE __m512i AddFifthBits(__m512i q, __m512i words) {
    const __m512i spread = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0101010101010101 * (kByte + 1), 0x0101010101010101 * kByte));
    const __m512i bit = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201));
    const __mmask64 set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(words, spread), bit);
    return _mm512_mask_add_epi8(q, set, q, _mm512_set1_epi8(16));
  }

  VENEER_INLINE __m128i FourScales(const Block& a, const Block& b, const Block& c, const Block& d) {
    __m128i words = _mm_cvtsi32_si128(Int32At(&a.d));
    words = _mm_insert_epi32(words, Int32At(&b.d), 1);
    words = _mm_insert_epi32(words, Int32At(&c.d), 2);
    return _mm_insert_epi32(words, Int32At(&d.d), 3);
  }

  // Scales of rows i, i + 4, i + 1, i + 5 of both blocks, halves in the order of words.
  VENEER_INLINE __m128i EightHalves(const void* const* rows, int i, std::uint64_t b, std::uint64_t c) {
    return GatherEight(At(rows[i], b).d, At(rows[i], c).d, At(rows[i + 4], b).d, At(rows[i + 4], c).d,  //
                       At(rows[i + 1], b).d, At(rows[i + 1], c).d, At(rows[i + 5], b).d, At(rows[i + 5], c).d);
  }

  VENEER_INLINE void DecodeScales(const void* const* rows, std::uint64_t b, std::uint64_t c, Decoded& out) {
    if constexpr (kHasMinimum) {  // d and m are neighbours
      __m512i words = _mm512_castsi128_si512(FourScales(At(rows[0], b), At(rows[0], c), At(rows[4], b), At(rows[4], c)));
      words = _mm512_inserti32x4(words, FourScales(At(rows[1], b), At(rows[1], c), At(rows[5], b), At(rows[5], c)), 1);
      words = _mm512_inserti32x4(words, FourScales(At(rows[2], b), At(rows[2], c), At(rows[6], b), At(rows[6], c)), 2);
      words = _mm512_inserti32x4(words, FourScales(At(rows[3], b), At(rows[3], c), At(rows[7], b), At(rows[7], c)), 3);
      out.d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
      out.m = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16)));
    } else {
      out.d = _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(EightHalves(rows, 0, b, c)), EightHalves(rows, 2, b, c), 1));
    }
  }

  VENEER_INLINE void Decode(const void* const* rows, std::uint64_t b, std::uint64_t c, Decoded& out) {
    const __m512i low_half = _mm512_set1_epi8(15);
    for (int j = 0; j < 4; ++j) {
      const void* const* quad = rows + 4 * (j / 2);
      const std::uint64_t at = j % 2 == 0 ? b : c;
      const __m512i stored = LoadFour(At(quad[0], at).qs, At(quad[1], at).qs, At(quad[2], at).qs, At(quad[3], at).qs);
      out.first[j] = _mm512_and_si512(stored, low_half);
      out.second[j] = _mm512_and_si512(_mm512_srli_epi16(stored, 4), low_half);
      if constexpr (kHasTable) {
        out.first[j] = LookUp(out.first[j]);
        out.second[j] = LookUp(out.second[j]);
      }
      if constexpr (kHasFifthBit) {
        const __m512i words = LoadFour(At(quad[0], at).qh, At(quad[1], at).qh, At(quad[2], at).qh, At(quad[3], at).qh);
        out.first[j] = AddFifthBits<0>(out.first[j], words);
        out.second[j] = AddFifthBits<2>(out.second[j], words);
      }
    }
    DecodeScales(rows, b, c, out);
  }

  // Words hold eight products: at most 8 x 31 x 127 = 31 496, or 8 x 241 x 127 with a table.
  VENEER_INLINE __m512i Dot(const Decoded& w, const std::int8_t* x, const std::int8_t* y) {
    const __m512i first[2] = {Broadcast16(x), Broadcast16(y)}, second[2] = {Broadcast16(x + 16), Broadcast16(y + 16)};
    __m512i sums[4];
    for (int j = 0; j < 4; ++j) {
      sums[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w.first[j], first[j % 2]);
      sums[j] = _mm512_dpbusd_epi32(sums[j], w.second[j], second[j % 2]);
    }
    return kHasTable ? SumWords(sums) : SumShortWords(sums);
  }

  // Two words for the two blocks, or one twice.
  template <bool kTwo>
  VENEER_INLINE __m512i PairAt(const void* p) {
    if constexpr (kTwo) {
      long long both;
      __builtin_memcpy(&both, p, sizeof both);
      return _mm512_set1_epi64(both);
    } else {
      return _mm512_set1_epi32(Int32At(p));
    }
  }

  // Words of block b are the even ones; those of block b + 1 are brought there.
  VENEER_INLINE __m512 AddTerm(__m512 dot, __m512 scale, __m512 sum, __m512 minimum, __m512 total) {
    total = _mm512_fmadd_ps(dot, scale, total);
    return kHasMinimum ? _mm512_fmadd_ps(sum, minimum, total) : total;
  }

  template <int kTokens, bool kTwo>
  VENEER_INLINE void MultiplyPair(const void* const* rows, std::uint64_t b, const QuantizedActivations& x, __m512 (&total)[kTokens]) {
    Decoded w;
    const std::uint64_t c = kTwo ? b + 1 : b;
    Decode(rows, b, c, w);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      const std::int8_t* q = x.q + t * x.q_stride;
      const __m512i sum = PairAt<kTwo>(x.sum + t * x.block_stride + b);
      const __m512 x_d = _mm512_castsi512_ps(PairAt<kTwo>(x.d + t * x.block_stride + b));
      __m512i integers = Dot(w, q + kActivationBlock * b, q + kActivationBlock * c);
      if constexpr (kOffset != 0) integers = _mm512_sub_epi32(integers, _mm512_slli_epi32(sum, __builtin_ctz(kOffset)));
      const __m512 dot = _mm512_cvtepi32_ps(integers), scale = _mm512_mul_ps(w.d, x_d);
      const __m512 x_sum = kHasMinimum ? _mm512_cvtepi32_ps(sum) : dot, minimum = kHasMinimum ? _mm512_mul_ps(w.m, x_d) : dot;
      total[t] = AddTerm(dot, scale, x_sum, minimum, total[t]);
      if constexpr (kTwo) {
        total[t] =
            AddTerm(_mm512_movehdup_ps(dot), _mm512_movehdup_ps(scale), _mm512_movehdup_ps(x_sum), _mm512_movehdup_ps(minimum), total[t]);
      }
    }
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    __m512 total[kTokens];
    for (int t = 0; t < kTokens; ++t) total[t] = _mm512_setzero_ps();
    std::uint64_t b = 0;
    for (; b + 2 <= blocks; b += 2) {
      if (b % 8 == 0) {
        for (int r = 0; r < kRows; ++r) PrefetchAhead<8 * sizeof(Block)>(&At(rows[r], b));
      }
      MultiplyPair<kTokens, true>(rows, b, x, total);
    }
    if (b < blocks) MultiplyPair<kTokens, false>(rows, b, x, total);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    for (int t = 0; t < kTokens; ++t) _mm256_store_ps(out[t], _mm512_castps512_ps256(_mm512_permutexvar_ps(order, total[t])));
  }
};

}  // namespace

const Q8Kernels kQ4_0 = {DotRowsQ8<Pairs<BlockQ4_0, 8>>, MultiplyTile<Nibbles<BlockQ4_0, 8>, WideSteps>};
const Q8Kernels kQ4_1 = {DotRowsQ8<Pairs<BlockQ4_1, 0>>, MultiplyTile<Nibbles<BlockQ4_1, 0>, WideSteps>};
const Q8Kernels kQ5_0 = {DotRowsQ8<Pairs<BlockQ5_0, 16>>, MultiplyTile<Nibbles<BlockQ5_0, 16>, WideSteps>};
const Q8Kernels kQ5_1 = {DotRowsQ8<Pairs<BlockQ5_1, 0>>, MultiplyTile<Nibbles<BlockQ5_1, 0>, WideSteps>};
const Q8Kernels kIq4Nl = {DotRowsQ8<Pairs<BlockIq4Nl, kTableOffset>>, MultiplyTile<Iq4Nl, WideSteps>};

}  // namespace veneer::kernels::avx512
