// `dequantize` and the exact `dot_rows` for any stored type, in terms of a small description of that type:
//   kBlock, kBlockBytes               elements and bytes of a stored block
//   Decode32(row, b, w)               w[v] = values of elements 32 b + 8 v .. 32 b + 8 v + 7 of a row
// One token goes through registers; several tokens share weights decoded into a panel in the L1 cache. Every lane sees its elements in
// ascending order either way, so the bits are the same.
#ifndef VENEER_KERNELS_AVX2_ROWS_H_
#define VENEER_KERNELS_AVX2_ROWS_H_

#include <cstdint>

#include "kernels/avx2/simd.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

VENEER_INLINE void Store32(const __m256 w[4], float* out) {
  for (int v = 0; v < 4; ++v) _mm256_storeu_ps(out + 8 * v, w[v]);
}

// The last `count` < 32 elements of a row whose type has kBlock = 1; zero bytes are zeros in all of these.
template <class Type>
VENEER_INLINE void DecodeTail(const void* row, std::uint64_t first, std::uint64_t count, __m256 w[4]) {
  static_assert(Type::kBlock == 1);
  alignas(32) std::uint8_t bytes[kLanes * Type::kBlockBytes] = {};
  const std::uint8_t* source = static_cast<const std::uint8_t*>(row) + first * Type::kBlockBytes;
  for (std::uint64_t j = 0; j < count * Type::kBlockBytes; ++j) bytes[j] = source[j];
  Type::Decode32(bytes, 0, w);
}

template <class Type>
void DequantizeRow(const void* src, float* dst, std::uint64_t n) {
  __m256 w[4];
  for (std::uint64_t b = 0; b < n / kLanes; ++b) {
    Type::Decode32(src, b, w);
    Store32(w, dst + kLanes * b);
  }
  if constexpr (Type::kBlock == 1) {
    const std::uint64_t rest = n % kLanes;
    if (rest == 0) return;
    alignas(32) float values[kLanes];
    DecodeTail<Type>(src, n - rest, rest, w);
    Store32(w, values);
    for (std::uint64_t j = 0; j < rest; ++j) dst[n - rest + j] = values[j];
  }
}

// ---- one token ----

// Some rows at once, each a stream from memory with four accumulators.
template <class Type, int kRows>
VENEER_INLINE void DotStreams(const void* const* rows, std::uint64_t cols, const float* x, float* out) {
  __m256 sum[kRows][4], w[4];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 4; ++v) sum[r][v] = _mm256_setzero_ps();
  }
  const std::uint64_t blocks = cols / kLanes;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Type::kBlock == 1) {  // factors of adapters and K/V rows are short on arithmetic: reading is all there is
        constexpr std::size_t kBytes = kLanes * Type::kBlockBytes;
        PrefetchAhead<kBytes>(static_cast<const std::uint8_t*>(rows[r]) + b * kBytes);
      }
      Type::Decode32(rows[r], b, w);
      for (int v = 0; v < 4; ++v) sum[r][v] = _mm256_fmadd_ps(w[v], _mm256_loadu_ps(x + kLanes * b + 8 * v), sum[r][v]);
    }
  }
  if constexpr (Type::kBlock == 1) {
    const std::uint64_t rest = cols % kLanes;
    if (rest != 0) {
      const Padded<kLanes, float> tail(x + kLanes * blocks, rest, 0.0f);
      for (int r = 0; r < kRows; ++r) {
        DecodeTail<Type>(rows[r], kLanes * blocks, rest, w);
        for (int v = 0; v < 4; ++v) sum[r][v] = _mm256_fmadd_ps(w[v], _mm256_load_ps(tail.values + 8 * v), sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) out[r] = SumLanes(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

// Rows far apart are streams of their own, and short ones are read the faster the more of them there are: rows r, r + n / kRows, ... Two
// of the quantized types, whose decoding needs the registers; the rows left over are multiplied in pairs and alone.
template <class Type>
void DotRowsOneToken(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const float* x, float* y) {
  constexpr std::uint32_t kRows = Type::kBlock == 1 ? 4 : 2;
  const std::uint32_t apart = n_rows / kRows;
  const void* streams[kRows];
  float out[kRows];
  for (std::uint32_t r = 0; r < apart; ++r) {
    for (std::uint32_t k = 0; k < kRows; ++k) streams[k] = rows[k * apart + r];
    DotStreams<Type, kRows>(streams, cols, x, out);
    for (std::uint32_t k = 0; k < kRows; ++k) y[k * apart + r] = out[k];
  }
  std::uint32_t r = kRows * apart;
  for (; r + 2 <= n_rows; r += 2) DotStreams<Type, 2>(rows + r, cols, x, y + r);
  if (r < n_rows) DotStreams<Type, 1>(rows + r, cols, x, y + r);
}

// ---- several tokens ----

inline constexpr int kTileRows = 8;           // decoded together; the products take kRegisterRows of them at a time
inline constexpr int kTileTokens = 24;        // share one decoding
inline constexpr int kRegisterRows = 4;       // 4 x 3 sums, 3 values of x and a weight fill 16 registers; 4 x 6, 6 and one 31 of 32
inline constexpr std::uint64_t kChunk = 256;  // columns decoded at once: 8 KiB of weights beside 3 KiB of x in the L1 cache

struct Tile {
  alignas(32) float lanes[kTileTokens][kTileRows][kLanes];
  alignas(32) float panel[kTileRows][kChunk];
};

// The vectors of a panel's sums, and how many tokens' sums fit its registers.
struct Vector256 {
  using Floats = __m256;
  static constexpr std::uint64_t kWidth = 8;
  static constexpr int kMostTokens = 3;

  VENEER_INLINE Floats Load(const float* p) { return _mm256_loadu_ps(p); }
  VENEER_INLINE void Store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
  VENEER_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats sum) { return _mm256_fmadd_ps(a, b, sum); }
};

// lanes[t][r] += w[r][i] x[t][i] over n columns, n a multiple of 32, for kRegisterRows rows from `first_row` on. One vector of lanes at a
// time, so that the sums fit registers; every lane sees its elements in ascending order, whatever the vector.
template <class Vector, int kTokens>
VENEER_INLINE void MultiplyPanel(const float (*w)[kChunk], const float* x, std::uint64_t x_stride, std::uint64_t n,
                                 float (*lanes)[kTileRows][kLanes], int first_row) {
  using Floats = typename Vector::Floats;
  for (std::uint64_t j = 0; j < kLanes; j += Vector::kWidth) {
    Floats sum[kTokens][kRegisterRows];
    for (int t = 0; t < kTokens; ++t) {
      for (int r = 0; r < kRegisterRows; ++r) sum[t][r] = Vector::Load(lanes[t][first_row + r] + j);
    }
    for (std::uint64_t i = j; i < n; i += kLanes) {
      Floats value[kTokens];
      for (int t = 0; t < kTokens; ++t) value[t] = Vector::Load(x + static_cast<std::uint64_t>(t) * x_stride + i);
      for (int r = 0; r < kRegisterRows; ++r) {
        const Floats wide = Vector::Load(w[first_row + r] + i);
        for (int t = 0; t < kTokens; ++t) sum[t][r] = Vector::MultiplyAdd(wide, value[t], sum[t][r]);
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int r = 0; r < kRegisterRows; ++r) Vector::Store(lanes[t][first_row + r] + j, sum[t][r]);
    }
  }
}

// All rows of the panel for kTokens tokens from `token` on: x stays in the L1 cache from one row group to the next.
template <class Vector, int kTokens>
VENEER_INLINE void MultiplyRows(Tile& tile, int token, const float* x, std::uint64_t x_stride, std::uint64_t n) {
  const float* first = x + static_cast<std::uint64_t>(token) * x_stride;
  for (int r = 0; r < kTileRows; r += kRegisterRows) MultiplyPanel<Vector, kTokens>(tile.panel, first, x_stride, n, tile.lanes + token, r);
}

// For all tokens, as many at once as the registers take; four are better two and two than three and one.
template <class Vector>
VENEER_INLINE void MultiplyTokens(Tile& tile, int tokens, const float* x, std::uint64_t x_stride, std::uint64_t n) {
  int t = 0;
  for (; tokens - t >= Vector::kMostTokens && tokens - t != 4; t += Vector::kMostTokens)
    MultiplyRows<Vector, Vector::kMostTokens>(tile, t, x, x_stride, n);
  for (; tokens - t >= 3 && tokens - t != 4; t += 3) MultiplyRows<Vector, 3>(tile, t, x, x_stride, n);
  for (; tokens - t >= 2; t += 2) MultiplyRows<Vector, 2>(tile, t, x, x_stride, n);
  if (t < tokens) MultiplyRows<Vector, 1>(tile, t, x, x_stride, n);
}

template <class Type, class Vector>
void DotTile(const void* const rows[kTileRows], std::uint64_t cols, const float* x, std::uint64_t x_stride, int tokens, Tile& tile) {
  for (int t = 0; t < tokens; ++t) {
    for (int r = 0; r < kTileRows; ++r) {
      for (std::uint64_t j = 0; j < kLanes; j += 8) _mm256_store_ps(tile.lanes[t][r] + j, _mm256_setzero_ps());
    }
  }
  __m256 block[4];
  const std::uint64_t whole = cols / kLanes * kLanes;
  for (std::uint64_t first = 0; first < whole; first += kChunk) {
    const std::uint64_t n = whole - first < kChunk ? whole - first : kChunk;
    for (int r = 0; r < kTileRows; ++r) {
      for (std::uint64_t i = 0; i < n; i += kLanes) {
        Type::Decode32(rows[r], (first + i) / kLanes, block);
        Store32(block, tile.panel[r] + i);
      }
    }
    MultiplyTokens<Vector>(tile, tokens, x + first, x_stride, n);
  }
  if constexpr (Type::kBlock == 1) {
    const std::uint64_t rest = cols - whole;
    if (rest == 0) return;
    for (int r = 0; r < kTileRows; ++r) {
      DecodeTail<Type>(rows[r], whole, rest, block);
      Store32(block, tile.panel[r]);
    }
    for (int t = 0; t < tokens; ++t) {
      const Padded<kLanes, float> tail(x + static_cast<std::uint64_t>(t) * x_stride + whole, rest, 0.0f);
      MultiplyRows<Vector, 1>(tile, t, tail.values, 0, kLanes);
    }
  }
}

// Rows of one chunk, such as the keys of an attention head: every lane ends in its register. Lane sums s[j] = (l[j] + l[j+8]) +
// (l[j+16] + l[j+24]) of two rows and two tokens.
VENEER_INLINE void AddShort(const float (*w)[kChunk], const float* x, std::uint64_t x_stride, std::uint64_t n, __m256 (&sum)[2][2]) {
  for (std::uint64_t j = 0; j < kLanes; j += 16) {
    __m256 low[2][2], high[2][2];  // lanes j .. j + 7, j + 8 .. j + 15
    for (int t = 0; t < 2; ++t) {
      for (int r = 0; r < 2; ++r) low[t][r] = high[t][r] = _mm256_setzero_ps();
    }
    for (std::uint64_t i = j; i < n; i += kLanes) {
      for (int t = 0; t < 2; ++t) {
        const float* value = x + static_cast<std::uint64_t>(t) * x_stride + i;
        for (int r = 0; r < 2; ++r) {
          low[t][r] = _mm256_fmadd_ps(_mm256_load_ps(w[r] + i), _mm256_loadu_ps(value), low[t][r]);
          high[t][r] = _mm256_fmadd_ps(_mm256_load_ps(w[r] + i + 8), _mm256_loadu_ps(value + 8), high[t][r]);
        }
      }
    }
    for (int t = 0; t < 2; ++t) {
      for (int r = 0; r < 2; ++r) {
        const __m256 part = _mm256_add_ps(low[t][r], high[t][r]);
        sum[t][r] = j == 0 ? part : _mm256_add_ps(sum[t][r], part);
      }
    }
  }
}

// The rest of the tree for four sums: halves of 4, 2, 1.
VENEER_INLINE __m128 SumFour(__m256 a, __m256 b, __m256 c, __m256 d) {
  const auto halves = [](__m256 v)
                          __attribute__((always_inline)) { return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)); };
  const __m128 a4 = halves(a), b4 = halves(b), c4 = halves(c), d4 = halves(d);
  const __m128 ab = _mm_add_ps(_mm_movelh_ps(a4, b4), _mm_movehl_ps(b4, a4)), cd = _mm_add_ps(_mm_movelh_ps(c4, d4), _mm_movehl_ps(d4, c4));
  return _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xdd));
}

// cols <= kChunk, a multiple of 32.
template <class Type>
void DotShortRows(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const float* x, std::uint64_t x_stride,
                  std::uint32_t tokens, float* y, std::uint64_t y_stride) {
  alignas(32) float panel[kTileRows][kChunk];
  __m256 block[4];
  for (std::uint32_t first = 0; first < n_rows; first += kTileRows) {
    const std::uint32_t count = n_rows - first < kTileRows ? n_rows - first : kTileRows;
    for (std::uint32_t r = 0; r < count + count % 2; ++r) {  // an odd row repeats itself
      for (std::uint64_t i = 0; i < cols; i += kLanes) {
        Type::Decode32(rows[first + (r < count ? r : count - 1)], i / kLanes, block);
        Store32(block, panel[r] + i);
      }
    }
    for (std::uint32_t t = 0; t < tokens; t += 2) {
      const bool both_tokens = t + 1 < tokens;
      for (std::uint32_t r = 0; r < count; r += 2) {
        __m256 sum[2][2];
        AddShort(panel + r, x + t * x_stride, both_tokens ? x_stride : 0, cols, sum);
        alignas(16) float out[4];
        _mm_store_ps(out, SumFour(sum[0][0], sum[0][1], sum[1][0], sum[1][1]));
        for (std::uint32_t k = 0; k < 4; ++k) {
          if (t + k / 2 < tokens && r + k % 2 < count) y[(t + k / 2) * y_stride + first + r + k % 2] = out[k];
        }
      }
    }
  }
}

template <class Type, class Vector>
void DotRowsSeveralTokens(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const float* x, std::uint64_t x_stride,
                          std::uint32_t tokens, float* y, std::uint64_t y_stride) {
  Tile tile;
  for (std::uint32_t first = 0; first < n_rows; first += kTileRows) {
    const void* group[kTileRows];  // a short group repeats its last row
    for (std::uint32_t r = 0; r < kTileRows; ++r) group[r] = rows[first + r < n_rows ? first + r : n_rows - 1];
    for (std::uint32_t t = 0; t < tokens; t += kTileTokens) {
      const std::uint32_t count = tokens - t < kTileTokens ? tokens - t : kTileTokens;
      DotTile<Type, Vector>(group, cols, x + t * x_stride, x_stride, static_cast<int>(count), tile);
      for (std::uint32_t u = 0; u < count; ++u) {
        for (std::uint32_t r = 0; r < kTileRows && first + r < n_rows; ++r) {
          const float* lane = tile.lanes[u][r];
          y[(t + u) * y_stride + first + r] =
              SumLanes(_mm256_load_ps(lane), _mm256_load_ps(lane + 8), _mm256_load_ps(lane + 16), _mm256_load_ps(lane + 24));
        }
      }
    }
  }
}

template <class Type, class Vector = Vector256>
void DotRows(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const float* x, std::uint64_t x_stride,
             std::uint32_t tokens, float* y, std::uint64_t y_stride) {
  if (tokens == 1) {
    DotRowsOneToken<Type>(rows, n_rows, cols, x, y);
  } else if (cols <= kChunk && cols % kLanes == 0) {
    DotShortRows<Type>(rows, n_rows, cols, x, x_stride, tokens, y, y_stride);
  } else {
    DotRowsSeveralTokens<Type, Vector>(rows, n_rows, cols, x, x_stride, tokens, y, y_stride);
  }
}

}  // namespace
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_ROWS_H_
