// The driver of `multiply_tile`. Rows are unpacked, 16 together, into a panel of bytes in the caller's scratch; then every group of four
// tokens runs over the panel, eight vectors of integer sums in registers. A type describes itself in terms of its integer weights w:
//   kMax, kOffset     u = w + kOffset is an unsigned byte, at most kMax; kOffset = 0 in types with a minimum. kMax = 128: any int8 w
//   kHasHalfScales    the integer sum of each half of a block of 32 has an integer factor of its own, |factor| <= 128
//   kHasMinimum       values are q d - ..., a second term from the sums of x
//   At(row, i)         stored block i of a row
//   UnpackRow(row, b, out)    block b of a row: TileRow
// Integers are exact by the bounds at Form, and each (row, token) takes the fused multiply-adds of dot_rows_q8 in the same order.
#ifndef VENEER_KERNELS_AVX2_TILE_H_
#define VENEER_KERNELS_AVX2_TILE_H_

#include <cstdint>

#include "kernels/avx2/simd.h"
#include "kernels/kernels.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

struct TileRow {
  __m256i u;                 // 32 columns in order
  float d, m;                // m: factor of the minimum's integer, only for types with kHasMinimum
  std::int32_t half_scales;  // two int16: columns 0..15 in the low half; only with kHasHalfScales
  std::int32_t half_minima;  // likewise, factors of the sums of x; only with kHasMinimum too
};

// Factors of columns 0..15 and 16..31, as TileRow holds them.
VENEER_INLINE std::int32_t HalfFactors(int first, int second) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xffff) | static_cast<std::uint32_t>(second) << 16);
}

inline constexpr int kTokens = int{kPackedTokens};
inline constexpr int kPanelRows = 16;              // two vectors of eight
inline constexpr std::uint64_t kPanelGroups = 4;   // groups of rows in one panel: they share a reading of the activations
inline constexpr std::uint64_t kPanelBlocks = 64;  // columns / 32 at once: 12 KiB of activations stay in the L1 cache
inline constexpr std::uint64_t kSuperblock = 8;    // panels begin where superblocks do
inline constexpr std::uint64_t kStepBytes = 64;    // four columns of 16 rows

// How the sums of a block stay exact, |x| <= 127. A vpmaddubsw saturates beyond 16 bits: 2 x 127 u <= 32767, so u <= 129. A step takes two
// columns of each half of the block, in one 16-bit sum each. Such a sum may wrap on the way, only its final value has to fit. It begins at
// -kStart times the sum of its x, so that it holds sum (u - kStart) x, |u - kStart| <= kLargest.
//   whole    8 steps, 16 columns: 16 x 127 kLargest <= 32767 for kLargest <= 16
//   halves   4 steps, 8 columns, twice, each then added into 32 bits: kLargest <= 32
//   bytes    any int8, as |w| times x with the sign of w: every step is added into 32 bits
template <class Type>
struct Form {
  static constexpr bool kBytes = Type::kMax == 128;
  // Without half scales the offset is one integer per token, cheaper to take off at the end where the bounds allow it.
  static constexpr int kStart = Type::kMax > 15 || Type::kHasHalfScales ? Type::kOffset : 0;
  static constexpr int kAtEnd = Type::kOffset - kStart;
  static constexpr int kLargest = kStart > Type::kMax - kStart ? kStart : Type::kMax - kStart;
  static constexpr bool kHalves = !kBytes && kLargest > 16;
  static_assert(kBytes ? Type::kOffset == 0 && !Type::kHasHalfScales : kLargest <= 32);
  static_assert((kAtEnd & (kAtEnd - 1)) == 0 && (Type::kOffset == 0 || !Type::kHasMinimum));

  // A panel holds, for 16 rows and one block: eight steps of bytes, then 16 of each of the following.
  static constexpr std::uint64_t kD = 8 * kStepBytes;
  static constexpr std::uint64_t kM = kD + 4 * kPanelRows;
  static constexpr std::uint64_t kHalfMinima = kM + (Type::kHasMinimum ? 4 * kPanelRows : 0);
  static constexpr std::uint64_t kHalfScales = kHalfMinima + (Type::kHasMinimum && Type::kHasHalfScales ? 4 * kPanelRows : 0);
  static constexpr std::uint64_t kSize = kHalfScales + (Type::kHasHalfScales ? 4 * kPanelRows : 0);
  static constexpr std::uint64_t kFits = kTileScratchBytes / (kPanelGroups * kSize) / kSuperblock * kSuperblock;
  static constexpr std::uint64_t kBlocks = kFits < kPanelBlocks ? kFits : kPanelBlocks;
};

VENEER_INLINE __m256i LoadPanel(const std::uint8_t* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
VENEER_INLINE void StorePanel(std::uint8_t* p, __m256i v) { _mm256_store_si256(reinterpret_cast<__m256i*>(p), v); }
VENEER_INLINE __m256 LoadPanelFloats(const std::uint8_t* p) { return _mm256_load_ps(reinterpret_cast<const float*>(p)); }

// ---- unpacking ----

// u[r]: 32 columns of row r. Writes steps 0..7 of eight rows: dword r of step j holds columns 2j, 2j + 1, 16 + 2j, 17 + 2j of row r.
VENEER_INLINE void StoreSteps(const __m256i u[8], std::uint8_t* steps) {
  __m256i low[4], high[4];  // row r in the low lane, r + 4 in the high one; steps 0..3, steps 4..7
  for (int r = 0; r < 4; ++r) {
    const __m256i first = _mm256_permute2x128_si256(u[r], u[r + 4], 0x20), second = _mm256_permute2x128_si256(u[r], u[r + 4], 0x31);
    low[r] = _mm256_unpacklo_epi16(first, second);
    high[r] = _mm256_unpackhi_epi16(first, second);
  }
  const __m256i* halves[2] = {low, high};
  for (int h = 0; h < 2; ++h) {
    const __m256i* v = halves[h];
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i c = _mm256_unpackhi_epi32(v[0], v[1]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    std::uint8_t* step = steps + 4 * static_cast<std::uint64_t>(h) * kStepBytes;
    StorePanel(step, _mm256_unpacklo_epi64(a, b));
    StorePanel(step + kStepBytes, _mm256_unpackhi_epi64(a, b));
    StorePanel(step + 2 * kStepBytes, _mm256_unpacklo_epi64(c, d));
    StorePanel(step + 3 * kStepBytes, _mm256_unpackhi_epi64(c, d));
  }
}

template <class T>
VENEER_INLINE void Store(std::uint8_t* p, T value) {
  __builtin_memcpy(p, &value, sizeof value);
}

// Block b of 16 rows. They are as many streams from memory, more than the hardware follows, so each fetches ahead itself (16 tokens,
// weights from memory: 185 GOP/s; 164 without or 512 bytes ahead, 160 when a pass before fetches everything).
template <class Type, class Inner>
VENEER_INLINE void UnpackBlock(const void* const* rows, std::uint64_t b, std::uint8_t* panel) {
  using F = Form<Type>;
  for (int h = 0; h < 2; ++h) {
    __m256i u[8];
    std::uint8_t* half = panel + 32 * h;
    for (int r = 0; r < 8; ++r) {
      TileRow row;
      _mm_prefetch(reinterpret_cast<const char*>(&Type::At(rows[8 * h + r], b * kActivationBlock / Type::kBlock)) + 256, _MM_HINT_T0);
      Type::UnpackRow(rows[8 * h + r], b, row);
      u[r] = row.u;
      std::uint8_t* of_row = half + 4 * r;
      Store(of_row + F::kD, row.d);
      if constexpr (Type::kHasMinimum) Store(of_row + F::kM, row.m);
      if constexpr (Type::kHasMinimum && Type::kHasHalfScales) Store(of_row + F::kHalfMinima, row.half_minima);
      if constexpr (Type::kHasHalfScales) Store(of_row + F::kHalfScales, row.half_scales);
    }
    Inner::template StoreSteps<Type>(u, half);
  }
}

// ---- multiplying ----

// Keeps the sums in their registers: g++ 12 otherwise reorders the additions across steps and spills (147 instead of 225 GOP/s).
#define VENEER_KEEP(a, b) asm volatile("" : "+x"(a), "+x"(b))

using Sums = __m256i[kTokens][2];  // [token][eight rows each]

// Sums of 16-bit pairs over steps kFirst .. kFirst + kSteps - 1, from `sums` when `continues`, else from zero.
template <int kFirst, int kSteps, bool kContinues>
VENEER_INLINE void AddSteps(const std::uint8_t* steps, const PackedBlock& x, Sums& sums) {
#pragma GCC unroll 8
  for (int j = kFirst; j < kFirst + kSteps; ++j) {
    const __m256i w0 = LoadPanel(steps + kStepBytes * static_cast<std::uint64_t>(j));
    const __m256i w1 = LoadPanel(steps + kStepBytes * static_cast<std::uint64_t>(j) + 32);
    for (int t = 0; t < kTokens; ++t) {
      const __m256i q = _mm256_set1_epi32(Int32At(x.q[j][t]));
      const __m256i product0 = _mm256_maddubs_epi16(w0, q), product1 = _mm256_maddubs_epi16(w1, q);
      const bool adds = kContinues || j > kFirst;
      sums[t][0] = adds ? _mm256_add_epi16(sums[t][0], product0) : product0;
      sums[t][1] = adds ? _mm256_add_epi16(sums[t][1], product1) : product1;
      VENEER_KEEP(sums[t][0], sums[t][1]);
    }
  }
}

// The same from -kStart times the sums of x.
template <int kFirst, int kSteps, int kStart>
VENEER_INLINE void StartSteps(const std::uint8_t* steps, const PackedBlock& x, const std::int16_t (*x_sums)[2], Sums& sums) {
  if constexpr (kStart == 0) {
    AddSteps<kFirst, kSteps, false>(steps, x, sums);
  } else {
    for (int t = 0; t < kTokens; ++t) {
      sums[t][0] = _mm256_mullo_epi16(_mm256_set1_epi32(Int32At(x_sums[t])), _mm256_set1_epi16(-kStart));
      sums[t][1] = sums[t][0];
    }
    AddSteps<kFirst, kSteps, true>(steps, x, sums);
  }
}

// The bytes form: 32-bit sums over all steps. |w| <= 128 is unsigned, so a weight of -128 stays right.
VENEER_INLINE void DotBytes(const std::uint8_t* steps, const PackedBlock& x, Sums& dot) {
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    const __m256i w0 = LoadPanel(steps + kStepBytes * static_cast<std::uint64_t>(j));
    const __m256i w1 = LoadPanel(steps + kStepBytes * static_cast<std::uint64_t>(j) + 32);
    const __m256i magnitude0 = _mm256_abs_epi8(w0), magnitude1 = _mm256_abs_epi8(w1);
    for (int t = 0; t < kTokens; ++t) {
      const __m256i q = _mm256_set1_epi32(Int32At(x.q[j][t]));
      const __m256i product0 = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude0, _mm256_sign_epi8(q, w0)), ones);
      const __m256i product1 = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude1, _mm256_sign_epi8(q, w1)), ones);
      dot[t][0] = j == 0 ? product0 : _mm256_add_epi32(dot[t][0], product0);
      dot[t][1] = j == 0 ? product1 : _mm256_add_epi32(dot[t][1], product1);
      VENEER_KEEP(dot[t][0], dot[t][1]);
    }
  }
}

// Integer sums of a block: |.| <= 32 x 127 x 128, or 32 x 127 x 32 times factors of at most 128.
template <class Type>
VENEER_INLINE void DotBlock(const std::uint8_t* panel, const PackedBlock& x, Sums& dot) {
  using F = Form<Type>;
  if constexpr (F::kBytes) {
    DotBytes(panel, x, dot);
    return;
  }
  __m256i factors[2] = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)};
  if constexpr (Type::kHasHalfScales) {
    for (int h = 0; h < 2; ++h) factors[h] = LoadPanel(panel + F::kHalfScales + 32 * h);
  }
  if constexpr (F::kHalves) {
    alignas(32) std::uint8_t first[kTokens][2][32];  // through memory: registers hold one set of sums
    std::int16_t rest[kTokens][2];
    StartSteps<0, 4, F::kStart>(panel, x, x.first_steps, dot);
    for (int t = 0; t < kTokens; ++t) {
      for (int h = 0; h < 2; ++h) StorePanel(first[t][h], _mm256_madd_epi16(dot[t][h], factors[h]));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), _mm_sub_epi16(LoadBytes16(x.half), LoadBytes16(x.first_steps)));
    StartSteps<4, 4, F::kStart>(panel, x, rest, dot);
    for (int t = 0; t < kTokens; ++t) {
      for (int h = 0; h < 2; ++h) dot[t][h] = _mm256_add_epi32(_mm256_madd_epi16(dot[t][h], factors[h]), LoadPanel(first[t][h]));
    }
  } else {
    StartSteps<0, 8, F::kStart>(panel, x, x.half, dot);
    for (int t = 0; t < kTokens; ++t) {
      for (int h = 0; h < 2; ++h) dot[t][h] = _mm256_madd_epi16(dot[t][h], factors[h]);
    }
  }
  if constexpr (F::kAtEnd != 0) {
    for (int t = 0; t < kTokens; ++t) {
      const __m256i offset = _mm256_slli_epi32(_mm256_set1_epi32(Int32At(x.sum + t)), __builtin_ctz(F::kAtEnd));
      for (int h = 0; h < 2; ++h) dot[t][h] = _mm256_sub_epi32(dot[t][h], offset);
    }
  }
}

using Totals = float[kTokens][kPanelRows];

template <class Type>
VENEER_INLINE void AddBlock(const std::uint8_t* panel, const PackedBlock& x, Totals& totals) {
  using F = Form<Type>;
  Sums dot;
  DotBlock<Type>(panel, x, dot);
  for (int t = 0; t < kTokens; ++t) {
    const __m256 d = _mm256_broadcast_ss(x.d + t);
    for (int h = 0; h < 2; ++h) {
      const __m256 w_d = LoadPanelFloats(panel + F::kD + 32 * h);
      __m256 total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[t][h]), _mm256_mul_ps(w_d, d), _mm256_load_ps(totals[t] + 8 * h));
      if constexpr (Type::kHasMinimum) {
        const __m256 w_m = LoadPanelFloats(panel + F::kM + 32 * h);
        __m256 factor;
        if constexpr (Type::kHasHalfScales) {
          factor = _mm256_cvtepi32_ps(_mm256_madd_epi16(LoadPanel(panel + F::kHalfMinima + 32 * h), _mm256_set1_epi32(Int32At(x.half[t]))));
        } else {
          factor = _mm256_cvtepi32_ps(_mm256_set1_epi32(Int32At(x.sum + t)));
        }
        total = _mm256_fmadd_ps(factor, _mm256_mul_ps(w_m, d), total);
      }
      _mm256_store_ps(totals[t] + 8 * h, total);
    }
  }
}

// 16 rows, of which n_rows count, and four tokens over one panel. Totals go on from y unless this is the first panel of the rows.
template <class Type>
__attribute__((noinline)) void MultiplyPanel(const std::uint8_t* panel, std::uint64_t blocks, const PackedBlock* x, bool is_first,
                                             std::uint32_t n_rows, std::uint32_t tokens, float* y, std::uint64_t y_stride) {
  alignas(32) Totals totals = {};
  if (!is_first) {
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t r = 0; r < n_rows; ++r) totals[t][r] = y[t * y_stride + r];
    }
  }
  for (std::uint64_t b = 0; b < blocks; ++b) AddBlock<Type>(panel + b * Form<Type>::kSize, x[b], totals);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    if (n_rows == kPanelRows) {
      __builtin_memcpy(y + t * y_stride, totals[t], sizeof totals[t]);
    } else {
      for (std::uint32_t r = 0; r < n_rows; ++r) y[t * y_stride + r] = totals[t][r];
    }
  }
}

// What an instruction set may do in its own way: the order of bytes in a panel, and the sums over it.
struct NarrowSteps {
  static constexpr std::uint32_t kTokensAtOnce = kPackedTokens;

  template <class Type>
  VENEER_INLINE void StoreSteps(const __m256i u[8], std::uint8_t* steps) {
    avx2::StoreSteps(u, steps);
  }
  template <class Type>
  VENEER_INLINE void MultiplyPanel(const std::uint8_t* panel, std::uint64_t blocks, const PackedBlock* x, std::uint64_t /*x_stride*/,
                                   bool is_first, std::uint32_t n_rows, std::uint32_t tokens, float* y, std::uint64_t y_stride) {
    avx2::MultiplyPanel<Type>(panel, blocks, x, is_first, n_rows, tokens, y, y_stride);
  }
};

template <class Type, class Inner = NarrowSteps>
void MultiplyTile(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const PackedBlock* x, std::uint64_t x_stride,
                  std::uint32_t tokens, void* scratch, float* y, std::uint64_t y_stride) {
  using F = Form<Type>;
  constexpr std::uint64_t kGroupBytes = F::kBlocks * F::kSize;
  auto* panel = static_cast<std::uint8_t*>(scratch);
  const std::uint64_t blocks = cols / kActivationBlock;
  for (std::uint32_t first_row = 0; first_row < n_rows; first_row += kPanelGroups * kPanelRows) {
    const std::uint32_t left = n_rows - first_row;
    for (std::uint64_t first = 0; first < blocks; first += F::kBlocks) {
      const std::uint64_t n = blocks - first < F::kBlocks ? blocks - first : F::kBlocks;
      std::uint32_t groups = 0;
      for (; groups < kPanelGroups && groups * kPanelRows < left; ++groups) {
        const void* group[kPanelRows];  // a short group repeats its last row
        for (std::uint32_t r = 0; r < kPanelRows; ++r) {
          const std::uint32_t row = groups * kPanelRows + r;
          group[r] = rows[first_row + (row < left ? row : left - 1)];
        }
        for (std::uint64_t b = 0; b < n; ++b) UnpackBlock<Type, Inner>(group, first + b, panel + groups * kGroupBytes + b * F::kSize);
      }
      for (std::uint32_t t = 0; t < tokens; t += Inner::kTokensAtOnce) {
        const std::uint32_t count = tokens - t < Inner::kTokensAtOnce ? tokens - t : Inner::kTokensAtOnce;
        for (std::uint32_t g = 0; g < groups; ++g) {
          const std::uint32_t rows_left = left - g * kPanelRows;
          Inner::template MultiplyPanel<Type>(panel + g * kGroupBytes, n, x + t / kPackedTokens * x_stride + first, x_stride, first == 0,
                                              rows_left < kPanelRows ? rows_left : kPanelRows, count,
                                              y + t * y_stride + first_row + g * kPanelRows, y_stride);
        }
      }
    }
  }
}

#undef VENEER_KEEP

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_TILE_H_
