// Q2_K, Q3_K, Q6_K: as in AVX2, with the 32 integers of a group of two rows in a vector, so that every lane has one scale.
#include <cstdint>

#include "kernels/avx2/q2_k.h"
#include "kernels/avx2/q3_k.h"
#include "kernels/avx2/q6_k.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/rows32.h"
#include "kernels/avx512/simd.h"
#include "kernels/avx512/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx512 {
namespace {

// Unsigned integers of groups 4 h .. 4 h + 3 of two rows.
template <int h>
VENEER_INLINE void DecodeTwo(const BlockQ2_K& x, const BlockQ2_K& y, __m512i (&out)[4]) {
  const __m512i stored = LoadTwo(x.qs + 32 * h, y.qs + 32 * h), mask = _mm512_set1_epi8(3);
  out[0] = _mm512_and_si512(stored, mask);
  out[1] = _mm512_and_si512(Shift<2>(stored), mask);
  out[2] = _mm512_and_si512(Shift<4>(stored), mask);
  out[3] = _mm512_and_si512(Shift<6>(stored), mask);
}
template <int h>
VENEER_INLINE void DecodeTwo(const BlockQ3_K& x, const BlockQ3_K& y, __m512i (&out)[4]) {
  const __m512i stored = LoadTwo(x.qs + 32 * h, y.qs + 32 * h), mask = _mm512_set1_epi8(3);
  const __m512i bits = LoadTwo(x.hmask, y.hmask), bit = _mm512_set1_epi8(4);  // bit g goes to bit 2
  out[0] = OrAnd(_mm512_and_si512(stored, mask), Shift<4 * h - 2>(bits), bit);
  out[1] = OrAnd(_mm512_and_si512(Shift<2>(stored), mask), Shift<4 * h - 1>(bits), bit);
  out[2] = OrAnd(_mm512_and_si512(Shift<4>(stored), mask), Shift<4 * h>(bits), bit);
  out[3] = OrAnd(_mm512_and_si512(Shift<6>(stored), mask), Shift<4 * h + 1>(bits), bit);
}
template <int h>
VENEER_INLINE void DecodeTwo(const BlockQ6_K& x, const BlockQ6_K& y, __m512i (&out)[4]) {
  const __m512i low = LoadTwo(x.ql + 64 * h, y.ql + 64 * h), low32 = LoadTwo(x.ql + 64 * h + 32, y.ql + 64 * h + 32);
  const __m512i high = LoadTwo(x.qh + 32 * h, y.qh + 32 * h), four = _mm512_set1_epi8(15), top = _mm512_set1_epi8(48);
  out[0] = OrAnd(_mm512_and_si512(low, four), Shift<-4>(high), top);
  out[1] = OrAnd(_mm512_and_si512(low32, four), Shift<-2>(high), top);
  out[2] = OrAnd(_mm512_and_si512(Shift<4>(low), four), high, top);
  out[3] = OrAnd(_mm512_and_si512(Shift<4>(low32), four), Shift<2>(high), top);
}

// `Type` is AVX2's; headers and minimums stay as they are there.
template <class Type>
struct WideSixteens : Type {
  using Type::kRows, Type::kRun, Type::kOffset;
  using typename Type::Header;

  // Scales of group k of four in both halves of every word: of elements 0..15 in lanes 0 and 2, of 16..31 in lanes 1 and 3.
  template <int k>
  VENEER_INLINE __m512i RowScales(const Header& header, int first_column) {
    constexpr int kLow = static_cast<int>(0x00800080u + 0x01000100u * (k % 2 * 2)), kHigh = kLow + 0x01000100, kStep = 0x04000400;
    const __m512i pick = _mm512_broadcast_i64x4(_mm256_setr_epi32(kLow, kLow + kStep, kLow + 2 * kStep, kLow + 3 * kStep,  //
                                                                  kHigh, kHigh + kStep, kHigh + 2 * kStep, kHigh + 3 * kStep));
    const int column = first_column + k / 2;
    const __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(header.scale[0][column]), header.scale[1][column], 1);
    return _mm512_srai_epi16(_mm512_shuffle_epi8(bytes, pick), 8);
  }

  // Words begin at -kOffset times the sum of their x: they hold four products of q - kOffset, at most 4 x 32 x 127 = 16 256.
  VENEER_INLINE __m512i Scaled(const __m512i (&w)[4][4], int k, const std::int8_t* x, __m512i scales) {
    const __m512i q = Broadcast32(x + 32 * k), zero = _mm512_setzero_si512();
    const __m512i start = kOffset == 0 ? zero : _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(kOffset), q));
    __m512i sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = _mm512_dpbusd_epi32(start, w[i][k], q);
    return ScaledRows(sums, scales);
  }

  template <int kFirst, int kTokens>
  VENEER_INLINE void Dot(const void* const* rows, std::uint64_t s, const Header& header, const QuantizedActivations& x,
                         __m256i (&out)[kRun][kTokens]) {
    __m512i w[4][4];
    for (int i = 0; i < 4; ++i) DecodeTwo<kFirst / 4>(Type::At(rows[i], s), Type::At(rows[i + 4], s), w[i]);
    const __m512i scales[4] = {RowScales<0>(header, kFirst / 2), RowScales<1>(header, kFirst / 2),  //
                               RowScales<2>(header, kFirst / 2), RowScales<3>(header, kFirst / 2)};
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      const std::int8_t* q = x.q + t * x.q_stride;
      for (int k = 0; k < 4; k += 2) {
        StoreTwo(AddLanePairs(Scaled(w, k, q, scales[k]), Scaled(w, k + 1, q, scales[k + 1])), out[k][t], out[k + 1][t]);
      }
    }
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<WideSixteens, kTokens>(rows, blocks, x, out);
  }
};

}  // namespace

const Q8Kernels kQ2_K = {DotRowsQ8<WideSixteens<Q2_K>>, MultiplyTile<Q2_K, WideSteps>};
const Q8Kernels kQ3_K = {DotRowsQ8<WideSixteens<Q3_K>>, MultiplyTile<Q3_K, WideSteps>};
const Q8Kernels kQ6_K = {DotRowsQ8<WideSixteens<Q6_K>>, MultiplyTile<Q6_K, WideSteps>};

}  // namespace veneer::kernels::avx512
