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

// What unsigned weights are above their meaning.
template <class Type>
inline constexpr int kUnsignedOffset = Form<Type>::kBytes ? 128 : Type::kOffset;

// dot[t]: integer sums of a block of 16 rows, without the offset. kGroups groups of tokens, `stride` packed blocks apart.
template <class Type, int kGroups>
VENEER_INLINE void DotBlock(const std::uint8_t* panel, const PackedBlock* x, std::uint64_t stride, __m512i (&dot)[kGroups][kTokens]) {
  constexpr int kSums = Type::kHasHalfScales ? 2 : 1;  // halves apart only where they have factors of their own
  __m512i sums[kGroups][kTokens][kSums];
  for (int g = 0; g < kGroups; ++g) {
    for (int t = 0; t < kTokens; ++t) {
      for (int h = 0; h < kSums; ++h) sums[g][t][h] = _mm512_setzero_si512();
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    const __m512i w = LoadRows(panel + kStepBytes * static_cast<std::uint64_t>(j));
    for (std::uint32_t g = 0; g < kGroups; ++g) {
      for (int t = 0; t < kTokens; ++t) {
        __m512i& sum = sums[g][t][j * kSums / 8];
        sum = _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(Int32At(x[g * stride].q[j][t])));
      }
    }
  }
  __m512i both = _mm512_setzero_si512(), factors[2] = {both, both};
  if constexpr (Type::kHasHalfScales) {
    both = LoadRows(panel + Form<Type>::kHalfScales);
    factors[0] = _mm512_srai_epi32(_mm512_slli_epi32(both, 16), 16);
    factors[1] = _mm512_srai_epi32(both, 16);
  }
  for (std::uint32_t g = 0; g < kGroups; ++g) {
    for (int t = 0; t < kTokens; ++t) {
      const PackedBlock& block = x[g * stride];
      dot[g][t] = sums[g][t][0];
      __m512i above = _mm512_setzero_si512();
      if constexpr (Type::kHasHalfScales) {
        dot[g][t] = _mm512_add_epi32(_mm512_mullo_epi32(sums[g][t][0], factors[0]), _mm512_mullo_epi32(sums[g][t][1], factors[1]));
        if constexpr (kUnsignedOffset<Type> != 0) above = _mm512_madd_epi16(both, _mm512_set1_epi32(Int32At(block.half[t])));
      } else if constexpr (kUnsignedOffset<Type> != 0) {
        above = _mm512_set1_epi32(block.sum[t]);
      }
      if constexpr (kUnsignedOffset<Type> != 0) {
        dot[g][t] = _mm512_sub_epi32(dot[g][t], _mm512_slli_epi32(above, __builtin_ctz(kUnsignedOffset<Type>)));
      }
    }
  }
}

template <class Type, int kGroups>
VENEER_INLINE void AddBlock(const std::uint8_t* panel, const PackedBlock* x, std::uint64_t stride, __m512 (&total)[kGroups][kTokens]) {
  using F = Form<Type>;
  __m512i dot[kGroups][kTokens];
  DotBlock<Type, kGroups>(panel, x, stride, dot);
  const __m512 w_d = LoadRowFloats(panel + F::kD);
  for (std::uint32_t g = 0; g < kGroups; ++g) {
    const PackedBlock& block = x[g * stride];
    for (int t = 0; t < kTokens; ++t) {
      const __m512 d = _mm512_set1_ps(block.d[t]);
      total[g][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[g][t]), _mm512_mul_ps(w_d, d), total[g][t]);
      if constexpr (Type::kHasMinimum) {
        __m512i minimum = _mm512_set1_epi32(block.sum[t]);
        if constexpr (Type::kHasHalfScales) {
          minimum = _mm512_madd_epi16(LoadRows(panel + F::kHalfMinima), _mm512_set1_epi32(Int32At(block.half[t])));
        }
        total[g][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(minimum), _mm512_mul_ps(LoadRowFloats(panel + F::kM), d), total[g][t]);
      }
    }
  }
}

// As AVX2's, for kGroups groups of four tokens.
template <class Type, int kGroups>
__attribute__((noinline)) void MultiplyGroups(const std::uint8_t* panel, std::uint64_t blocks, const PackedBlock* x, std::uint64_t x_stride,
                                              bool is_first, std::uint32_t n_rows, std::uint32_t tokens, float* y, std::uint64_t y_stride) {
  const auto rows = static_cast<__mmask16>((1u << n_rows) - 1);
  __m512 total[kGroups][kTokens];
  for (std::uint32_t t = 0; t < kGroups * kTokens; ++t) {
    __m512& of_token = total[t / kTokens][t % kTokens];
    of_token = _mm512_setzero_ps();
    if (!is_first && t < tokens) of_token = _mm512_maskz_loadu_ps(rows, y + t * y_stride);
  }
  for (std::uint64_t b = 0; b < blocks; ++b) AddBlock<Type, kGroups>(panel + b * Form<Type>::kSize, x + b, x_stride, total);
  for (std::uint32_t t = 0; t < kGroups * kTokens; ++t) {
    if (t < tokens) _mm512_mask_storeu_ps(y + t * y_stride, rows, total[t / kTokens][t % kTokens]);
  }
}

// The parts that avx2/tile.h leaves to an instruction set.
struct WideSteps {
  static constexpr std::uint32_t kTokensAtOnce = 2 * kTokens;

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
  VENEER_INLINE void MultiplyPanel(const std::uint8_t* panel, std::uint64_t blocks, const PackedBlock* x, std::uint64_t x_stride,
                                   bool is_first, std::uint32_t n_rows, std::uint32_t tokens, float* y, std::uint64_t y_stride) {
    if (tokens > kTokens) {
      MultiplyGroups<Type, 2>(panel, blocks, x, x_stride, is_first, n_rows, tokens, y, y_stride);
    } else {
      MultiplyGroups<Type, 1>(panel, blocks, x, x_stride, is_first, n_rows, tokens, y, y_stride);
    }
  }
};

}  // namespace
}  // namespace veneer::kernels::avx512

#endif  // VENEER_KERNELS_AVX512_TILE_H_
