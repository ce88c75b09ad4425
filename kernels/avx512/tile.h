// The inner parts of `multiply_tile` with VNNI: a step takes four neighbouring columns of 16 rows in one product, so steps 0..3 are the
// first half of a block and 4..7 the second. Sums are of 32 bits from the first product on, and stay exact: a half of a block is at most 16
// x 255 x 127. Weights of the bytes form are moved up by 128 to be unsigned.
#ifndef VENEER_KERNELS_AVX512_TILE_H_
#define VENEER_KERNELS_AVX512_TILE_H_

#include <cstdint>

#include "kernels/avx2/superblocks.h"
#include "kernels/avx2/tile.h"
#include "kernels/avx512/simd.h"
#include "kernels/kernels.h"

namespace veneer::kernels::avx512 {
namespace {  // NOLINT: internal linkage on purpose, see avx2/simd.h

VENEER_INLINE __m512i LoadRows(const std::uint8_t* p) { return _mm512_load_si512(p); }
VENEER_INLINE __m512 LoadRowFloats(const std::uint8_t* p) { return _mm512_load_ps(reinterpret_cast<const float*>(p)); }

// Places, among the 64 16-bit numbers of PackedBlock::q, of the words of the first half; those of the second come one later.
struct Places {
  alignas(64) std::int16_t of[32];
  constexpr Places() : of() {
    for (int i = 0; i < 32; ++i) of[i] = static_cast<std::int16_t>(2 * (kTokens * (2 * (i / 8) + i % 2) + i / 2 % 4));
  }
};
inline constexpr Places kPlaces = {};

// Packed activations hold two columns of each half in a word; these are the words of four columns: [half][step in it][token].
struct Columns {
  alignas(64) std::int32_t words[2][4][kTokens];
  alignas(32) std::int32_t start[kTokens][2];  // of the sums, by half

  template <int kOffset>
  VENEER_INLINE void Read(const PackedBlock& x, Columns& out) {
    const __m512i low = _mm512_load_si512(x.q), high = _mm512_load_si512(x.q[4]);
    const __m512i first = _mm512_load_si512(kPlaces.of), second = _mm512_add_epi16(first, _mm512_set1_epi16(1));
    _mm512_store_si512(out.words[0], _mm512_permutex2var_epi16(low, first, high));
    _mm512_store_si512(out.words[1], _mm512_permutex2var_epi16(low, second, high));
    if constexpr (kOffset != 0) {
      const __m256i sums = _mm256_mullo_epi32(_mm256_cvtepi16_epi32(LoadBytes16(x.half)), _mm256_set1_epi32(-kOffset));
      _mm256_store_si256(reinterpret_cast<__m256i*>(out.start), sums);
    }
  }
};

template <class Type>
inline constexpr int kUnsignedOffset = Form<Type>::kBytes ? 128 : Type::kOffset;

using WideTotals = __m512[kTokens];

// Integer sums of 16 rows by half, then what makes values of them.
template <class Type>
VENEER_INLINE void AddWideBlock(const std::uint8_t* panel, const PackedBlock& x, WideTotals& total) {
  using F = Form<Type>;
  Columns columns;
  Columns::Read<kUnsignedOffset<Type>>(x, columns);
  __m512i sums[kTokens][2];
  for (int t = 0; t < kTokens; ++t) {
    for (int h = 0; h < 2; ++h) sums[t][h] = kUnsignedOffset<Type> == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(columns.start[t][h]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i w0 = LoadRows(panel + kStepBytes * static_cast<std::uint64_t>(j));
    const __m512i w1 = LoadRows(panel + kStepBytes * static_cast<std::uint64_t>(4 + j));
    for (int t = 0; t < kTokens; ++t) {
      sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], w0, _mm512_set1_epi32(columns.words[0][j][t]));
      sums[t][1] = _mm512_dpbusd_epi32(sums[t][1], w1, _mm512_set1_epi32(columns.words[1][j][t]));
    }
  }
  __m512i factors[2];
  if constexpr (Type::kHasHalfScales) {
    const __m512i both = LoadRows(panel + F::kHalfScales);
    factors[0] = _mm512_srai_epi32(_mm512_slli_epi32(both, 16), 16);
    factors[1] = _mm512_srai_epi32(both, 16);
  }
  const __m512 w_d = LoadRowFloats(panel + F::kD);
  for (int t = 0; t < kTokens; ++t) {
    if constexpr (Type::kHasHalfScales) {
      for (int h = 0; h < 2; ++h) sums[t][h] = _mm512_mullo_epi32(sums[t][h], factors[h]);
    }
    const __m512 d = _mm512_set1_ps(x.d[t]), dot = _mm512_cvtepi32_ps(_mm512_add_epi32(sums[t][0], sums[t][1]));
    total[t] = _mm512_fmadd_ps(dot, _mm512_mul_ps(w_d, d), total[t]);
    if constexpr (Type::kHasMinimum) {
      __m512i minimum = _mm512_set1_epi32(x.sum[t]);
      if constexpr (Type::kHasHalfScales) {
        minimum = _mm512_madd_epi16(LoadRows(panel + F::kHalfMinima), _mm512_set1_epi32(Int32At(x.half[t])));
      }
      total[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(minimum), _mm512_mul_ps(LoadRowFloats(panel + F::kM), d), total[t]);
    }
  }
}

// The parts that avx2/tile.h leaves to an instruction set.
struct WideSteps {
  // Dword r of step j: columns 4 j .. 4 j + 3 of row r.
  template <class Type>
  VENEER_INLINE void StoreSteps(const __m256i u[8], std::uint8_t* steps) {
    __m256i v[8], low[4], high[4];  // the first and the second half of the block by lanes; rows 0..3 and 4..7
    for (int r = 0; r < 8; ++r) v[r] = Form<Type>::kBytes ? _mm256_xor_si256(u[r], _mm256_set1_epi8(-128)) : u[r];
    Transpose(v, low);
    Transpose(v + 4, high);
    for (int j = 0; j < 4; ++j) {
      std::uint8_t* step = steps + static_cast<std::uint64_t>(j) * kStepBytes;
      StorePanel(step, _mm256_permute2x128_si256(low[j], high[j], 0x20));
      StorePanel(step + 4 * kStepBytes, _mm256_permute2x128_si256(low[j], high[j], 0x31));
    }
  }

  template <class Type>
  __attribute__((noinline)) static void MultiplyPanel(const std::uint8_t* panel, std::uint64_t blocks, const PackedBlock* x, bool is_first,
                                                      std::uint32_t n_rows, std::uint32_t tokens, float* y, std::uint64_t y_stride) {
    const auto rows = static_cast<__mmask16>((1u << n_rows) - 1);
    WideTotals total;
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      total[t] = _mm512_setzero_ps();
      if (!is_first && t < tokens) total[t] = _mm512_maskz_loadu_ps(rows, y + t * y_stride);
    }
    for (std::uint64_t b = 0; b < blocks; ++b) AddWideBlock<Type>(panel + b * Form<Type>::kSize, x[b], total);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      if (t < tokens) _mm512_mask_storeu_ps(y + t * y_stride, rows, total[t]);
    }
  }
};

}  // namespace
}  // namespace veneer::kernels::avx512

#endif  // VENEER_KERNELS_AVX512_TILE_H_
