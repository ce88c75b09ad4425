// AVX2 + FMA + F16C. Intrinsics only: no library templates in this file (its flags must not leak into shared code).
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "plugins/sparse_delta/product.h"
#include "veneer/abi.h"

namespace veneer_sparse_delta::avx2 {
namespace {

// Four values as f32, and the bytes of one.
struct F32 {
  static constexpr std::uint64_t kBytes = 4;
  static inline __m128 Load(const std::uint8_t* p) { return _mm_loadu_ps(reinterpret_cast<const float*>(p)); }
};
struct F16 {
  static constexpr std::uint64_t kBytes = 2;
  static inline __m128 Load(const std::uint8_t* p) { return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))); }
};
struct BF16 {
  static constexpr std::uint64_t kBytes = 2;
  static inline __m128 Load(const std::uint8_t* p) {
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), 16));
  }
};

// x at four columns. Four loads: a gather takes up to twice the time (product.h).
inline __m128 At(const float* x, const std::uint16_t* columns) {
  std::uint64_t four;
  std::memcpy(&four, columns, sizeof four);
  const __m128 low = _mm_unpacklo_ps(_mm_load_ss(x + (four & 0xFFFF)), _mm_load_ss(x + (four >> 16 & 0xFFFF)));
  const __m128 high = _mm_unpacklo_ps(_mm_load_ss(x + (four >> 32 & 0xFFFF)), _mm_load_ss(x + (four >> 48)));
  return _mm_movelh_ps(low, high);
}
inline __m128 At(const float* x, const std::uint32_t* columns) {
  const __m128 low = _mm_unpacklo_ps(_mm_load_ss(x + columns[0]), _mm_load_ss(x + columns[1]));
  const __m128 high = _mm_unpacklo_ps(_mm_load_ss(x + columns[2]), _mm_load_ss(x + columns[3]));
  return _mm_movelh_ps(low, high);
}

// The four partial sums of one row for one token.
template <class Type, class Column>
inline __m128 Partials(const ProductCall& call, std::uint64_t lane, const float* x) {
  const auto* columns = static_cast<const Column*>(call.columns);
  const auto* values = static_cast<const std::uint8_t*>(call.values);
  std::uint64_t e = call.row_ptr[lane];
  const std::uint64_t last = call.row_ptr[lane + 1];
  // Entries of the next row, or padding, are read and dropped. Four at once without asking whether there are any: of 0.1 % of 2048 columns
  // few rows have more, and how many is not to be foreseen.
  __m128 sum = _mm_setzero_ps();
  do {
    const __m128i rest = _mm_set1_epi32(static_cast<int>(last - e));
    const __m128 is_ours = _mm_castsi128_ps(_mm_cmpgt_epi32(rest, _mm_setr_epi32(0, 1, 2, 3)));
    sum = _mm_blendv_ps(sum, _mm_fmadd_ps(Type::Load(values + e * Type::kBytes), At(x, columns + e), sum), is_ours);
    e += kPartials;
  } while (e < last);
  return sum;
}

// All bits set where rows [lane, lane + 8) have entries.
inline __m256 HasEntries(const std::uint32_t* row_ptr) {
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row_ptr));
  const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row_ptr + 1));
  return _mm256_castsi256_ps(_mm256_xor_si256(_mm256_cmpeq_epi32(first, last), _mm256_set1_epi32(-1)));
}

inline void AddTo(float* y, __m256 scale, __m256 sum, __m256 has_entries) {
  const __m256 old = _mm256_loadu_ps(y);
  _mm256_storeu_ps(y, _mm256_blendv_ps(old, _mm256_fmadd_ps(scale, sum, old), has_entries));
}

// (p0 + p2) + (p1 + p3) of four rows.
inline __m128 Reduce(const __m128 row[4]) {
  const __m128 a = _mm_add_ps(_mm_movelh_ps(row[0], row[1]), _mm_movehl_ps(row[1], row[0]));  // of row 0: p0 + p2, p1 + p3; of row 1
  const __m128 b = _mm_add_ps(_mm_movelh_ps(row[2], row[3]), _mm_movehl_ps(row[3], row[2]));
  return _mm_add_ps(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)), _mm_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
}

// One token, all lanes.
template <class Type, class Column>
inline void OneToken(const ProductCall& call, const float* x, float* y) {
  const __m256 scale = _mm256_set1_ps(call.scale);
  std::uint64_t lane = call.lane0;
  for (; lane + kGroup <= call.lane1; lane += kGroup) {
    __m128 row[kGroup];
    for (std::uint64_t r = 0; r < kGroup; ++r) row[r] = Partials<Type, Column>(call, lane + r, x);
    AddTo(y + lane, scale, _mm256_set_m128(Reduce(row + 4), Reduce(row)), HasEntries(call.row_ptr + lane));
  }
  for (; lane < call.lane1; ++lane) {
    if (call.row_ptr[lane] == call.row_ptr[lane + 1]) continue;
    const __m128 row[4] = {Partials<Type, Column>(call, lane, x), _mm_setzero_ps(), _mm_setzero_ps(), _mm_setzero_ps()};
    y[lane] = __builtin_fmaf(call.scale, _mm_cvtss_f32(Reduce(row)), y[lane]);
  }
}

inline void Transpose8(__m256 r[8]) {
  __m256 a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], _MM_SHUFFLE(1, 0, 1, 0));
    b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], _MM_SHUFFLE(3, 2, 3, 2));
    b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], _MM_SHUFFLE(1, 0, 1, 0));
    b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}

// The sums of one row for kVectors * 8 tokens of one prepared group, four partial sums for each in registers.
template <class Type, class Column, int kVectors>
inline void RowSums(const ProductCall& call, const unsigned char* prepared, std::uint64_t lane, __m256 sums[kVectors]) {
  constexpr std::uint64_t kGroupTokens = kVectors * 8;
  const auto* columns = static_cast<const Column*>(call.columns);
  const auto* values = static_cast<const std::uint8_t*>(call.values);
  __m256 partial[kPartials][kVectors];
  for (auto& row : partial)
    for (__m256& sum : row) sum = _mm256_setzero_ps();
  std::uint64_t e = call.row_ptr[lane];
  const std::uint64_t last = call.row_ptr[lane + 1];
  alignas(16) float value[kPartials];
  const auto add = [&](std::uint64_t k) __attribute__((always_inline)) {
    const std::uint64_t column = columns[e + k];
    const auto* x = reinterpret_cast<const float*>(prepared + column % kGroupTokens * call.prepared_stride +
                                                   column / kGroupTokens * kGroupTokens * sizeof(float));
    const __m256 factor = _mm256_broadcast_ss(value + k);
    for (int v = 0; v < kVectors; ++v) partial[k][v] = _mm256_fmadd_ps(factor, _mm256_loadu_ps(x + v * 8), partial[k][v]);
  };
  for (; e + kPartials <= last; e += kPartials) {
    _mm_store_ps(value, Type::Load(values + e * Type::kBytes));
    for (std::uint64_t k = 0; k < kPartials; ++k) add(k);
  }
  if (e < last) {
    _mm_store_ps(value, Type::Load(values + e * Type::kBytes));
    add(0);
    if (e + 1 < last) add(1);
    if (e + 2 < last) add(2);
  }
  for (int v = 0; v < kVectors; ++v)
    sums[v] = _mm256_add_ps(_mm256_add_ps(partial[0][v], partial[2][v]), _mm256_add_ps(partial[1][v], partial[3][v]));
}

// One prepared group of tokens, all lanes. `prepared` and `y` are those of its first token.
template <class Type, class Column, int kVectors>
inline void ManyTokens(const ProductCall& call, const unsigned char* prepared, float* y) {
  const __m256 scale = _mm256_set1_ps(call.scale);
  for (std::uint64_t lane = call.lane0; lane < call.lane1; lane += kGroup) {
    const std::uint64_t rows = call.lane1 - lane < kGroup ? call.lane1 - lane : kGroup;
    __m256 sums[kVectors][kGroup];
    for (std::uint64_t r = 0; r < rows; ++r) {
      __m256 of_row[kVectors];
      RowSums<Type, Column, kVectors>(call, prepared, lane + r, of_row);
      for (int v = 0; v < kVectors; ++v) sums[v][r] = of_row[v];
    }
    if (rows == kGroup) {
      const __m256 has_entries = HasEntries(call.row_ptr + lane);
      for (int v = 0; v < kVectors; ++v) {
        Transpose8(sums[v]);
        for (std::uint64_t i = 0; i < 8; ++i)
          AddTo(y + (static_cast<std::uint64_t>(v) * 8 + i) * call.y_stride + lane, scale, sums[v][i], has_entries);
      }
      continue;
    }
    for (std::uint64_t r = 0; r < rows; ++r) {  // the last lanes of the site
      if (call.row_ptr[lane + r] == call.row_ptr[lane + r + 1]) continue;
      alignas(32) float of_tokens[kVectors * 8];
      for (int v = 0; v < kVectors; ++v) _mm256_store_ps(of_tokens + v * 8, sums[v][r]);
      for (std::uint64_t i = 0; i < kVectors * 8; ++i) {
        float& out = y[i * call.y_stride + lane + r];
        out = __builtin_fmaf(call.scale, of_tokens[i], out);
      }
    }
  }
}

template <class Type, class Column>
void ProductIn(const ProductCall& call) {
  std::uint32_t i = 0;
  for (; i + 16 <= call.tokens; i += 16)
    ManyTokens<Type, Column, 2>(call, call.prepared + i * call.prepared_stride, call.y + i * call.y_stride);
  for (; i + 8 <= call.tokens; i += 8)
    ManyTokens<Type, Column, 1>(call, call.prepared + i * call.prepared_stride, call.y + i * call.y_stride);
  for (; i < call.tokens; ++i) OneToken<Type, Column>(call, call.x + i * call.x_stride, call.y + i * call.y_stride);
}

// x [kGroupTokens][columns] of one group into its prepared memory.
template <std::uint64_t kGroupTokens>
inline void TransposeGroup(const TransposeCall& call, const float* x, unsigned char* prepared) {
  std::uint64_t c = 0;
  for (; c + kGroupTokens <= call.columns; c += kGroupTokens)
    for (std::uint64_t of = 0; of < kGroupTokens; of += 8)   // columns
      for (std::uint64_t t = 0; t < kGroupTokens; t += 8) {  // tokens
        __m256 r[8];
        for (std::uint64_t i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(x + (t + i) * call.x_stride + c + of);
        Transpose8(r);
        for (std::uint64_t i = 0; i < 8; ++i)
          _mm256_storeu_ps(reinterpret_cast<float*>(prepared + (of + i) * call.prepared_stride) + c + t, r[i]);
      }
  for (std::uint64_t of = 0; c + of < call.columns; ++of) {
    auto* to = reinterpret_cast<float*>(prepared + of * call.prepared_stride) + c;
    for (std::uint64_t t = 0; t < kGroupTokens; ++t) to[t] = x[t * call.x_stride + c + of];
  }
}

}  // namespace

Product ProductOf(std::uint32_t dtype, bool has_wide_columns) {
  if (dtype == VNR_F16) return has_wide_columns ? ProductIn<F16, std::uint32_t> : ProductIn<F16, std::uint16_t>;
  if (dtype == VNR_BF16) return has_wide_columns ? ProductIn<BF16, std::uint32_t> : ProductIn<BF16, std::uint16_t>;
  return has_wide_columns ? ProductIn<F32, std::uint32_t> : ProductIn<F32, std::uint16_t>;
}

void TransposeX(const TransposeCall& call) {
  std::uint32_t i = 0;
  for (; i + 16 <= call.tokens; i += 16) TransposeGroup<16>(call, call.x + i * call.x_stride, call.prepared + i * call.prepared_stride);
  for (; i + 8 <= call.tokens; i += 8) TransposeGroup<8>(call, call.x + i * call.x_stride, call.prepared + i * call.prepared_stride);
}

}  // namespace veneer_sparse_delta::avx2
