// Elementwise kernels and dot products over f32 and f16 vectors of any length, and sums of rows of Q8_0.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/simd.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {

VENEER_INLINE __m256 Eight(const float* p) { return _mm256_loadu_ps(p); }
VENEER_INLINE __m256 Eight(const std::uint16_t* p) { return _mm256_cvtph_ps(LoadBytes16(p)); }

VENEER_INLINE float Widen(float value) { return value; }
VENEER_INLINE float Widen(std::uint16_t half) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half))); }

template <class Stored>
VENEER_INLINE float DotOf(const float* a, const Stored* b, std::uint64_t n) {
  __m256 sum[4];
  for (int v = 0; v < 4; ++v) sum[v] = _mm256_setzero_ps();
  const std::uint64_t whole = n / kLanes * kLanes;
  for (std::uint64_t i = 0; i < whole; i += kLanes) {
    for (int v = 0; v < 4; ++v) sum[v] = _mm256_fmadd_ps(Eight(a + i + 8 * v), Eight(b + i + 8 * v), sum[v]);
  }
  if (whole < n) {
    const Padded<kLanes, float> rest_a(a + whole, n - whole, 0.0f);
    const Padded<kLanes, Stored> rest_b(b + whole, n - whole, Stored{});
    for (int v = 0; v < 4; ++v) sum[v] = _mm256_fmadd_ps(Eight(rest_a.values + 8 * v), Eight(rest_b.values + 8 * v), sum[v]);
  }
  return SumLanes(sum[0], sum[1], sum[2], sum[3]);
}

template <class Stored>
VENEER_INLINE void AxpyOf(float scale, const Stored* x, float* y, std::uint64_t n) {
  const __m256 factor = _mm256_set1_ps(scale);
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_fmadd_ps(factor, Eight(x + i), Eight(y + i)));
  for (; i < n; ++i) y[i] = __builtin_fmaf(scale, Widen(x[i]), y[i]);
}

template <class Stored>
VENEER_INLINE const Stored* RowAt(const Table::RowSum& sum, std::uint64_t r) {
  return reinterpret_cast<const Stored*>(static_cast<const char*>(sum.rows) + r * sum.row_bytes);
}

// x[v] = elements i + 8 v .. i + 8 v + 7 of a row.
template <int kVectors, class Stored>
VENEER_INLINE void LoadRow(const Stored* row, std::uint64_t i, __m256 x[kVectors]) {
  for (int v = 0; v < kVectors; ++v) x[v] = Eight(row + i + 8 * v);
}
// Never across the end of a block but at it: i is a multiple of 8 kVectors, or kVectors is 1.
template <int kVectors>
VENEER_INLINE void LoadRow(const BlockQ8_0* row, std::uint64_t i, __m256 x[kVectors]) {
  constexpr int kOfBlock = kVectors < 4 ? kVectors : 4;
  for (int v = 0; v < kVectors; v += kOfBlock) {
    const BlockQ8_0& block = row[(i + 8 * static_cast<std::uint64_t>(v)) / 32];
    const __m256 d = _mm256_set1_ps(WidenHalf(block.d));
    for (int j = 0; j < kOfBlock; ++j) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block.qs + i % 32 + 8 * j));
      x[v + j] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), d);
    }
  }
}

// kCount of the y from `first` on, kVectors times eight elements from i on, all in registers over the rows.
template <class Stored, int kCount, int kVectors>
VENEER_INLINE void AddRowsTo(const Table::RowSum& sum, std::uint32_t first, std::uint64_t i) {
  float* y = sum.y + first * sum.y_stride + i;
  const float* w = sum.w + first * sum.w_stride;
  __m256 total[kCount][kVectors];
  for (std::uint64_t t = 0; t < kCount; ++t) {
    for (int v = 0; v < kVectors; ++v) total[t][v] = Eight(y + t * sum.y_stride + 8 * v);
  }
  for (std::uint64_t r = 0; r < sum.n_rows; ++r) {
    __m256 x[kVectors];
    LoadRow<kVectors>(RowAt<Stored>(sum, r), i, x);
    for (std::uint64_t t = 0; t < kCount; ++t) {
      const __m256 factor = _mm256_broadcast_ss(w + t * sum.w_stride + r);
      for (int v = 0; v < kVectors; ++v) total[t][v] = _mm256_fmadd_ps(factor, x[v], total[t][v]);
    }
  }
  for (std::uint64_t t = 0; t < kCount; ++t) {
    for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(y + t * sum.y_stride + 8 * v, total[t][v]);
  }
}

// All elements of kCount y. Eight chains of multiply-adds hide their latency.
template <class Stored, int kCount>
VENEER_INLINE void AddRowsToSome(const Table::RowSum& sum, std::uint32_t first) {
  std::uint64_t i = 0;
  for (; i + 64 / kCount <= sum.n; i += 64 / kCount) AddRowsTo<Stored, kCount, 8 / kCount>(sum, first, i);
  for (; i + 8 <= sum.n; i += 8) AddRowsTo<Stored, kCount, 1>(sum, first, i);
  if constexpr (!__is_same(Stored, BlockQ8_0)) {
    for (; i < sum.n; ++i) {
      for (std::uint32_t t = first; t < first + kCount; ++t) {
        float* y = sum.y + t * sum.y_stride + i;
        for (std::uint64_t r = 0; r < sum.n_rows; ++r)
          *y = __builtin_fmaf(sum.w[t * sum.w_stride + r], Widen(RowAt<Stored>(sum, r)[i]), *y);
      }
    }
  }
}

template <class Stored>
VENEER_INLINE void AddRows(const Table::RowSum& sum) {
  std::uint32_t t = 0;
  for (; t + 4 <= sum.n_y; t += 4) AddRowsToSome<Stored, 4>(sum, t);
  for (; t + 2 <= sum.n_y; t += 2) AddRowsToSome<Stored, 2>(sum, t);
  for (; t < sum.n_y; ++t) AddRowsToSome<Stored, 1>(sum, t);
}

}  // namespace

float Dot(const float* a, const float* b, std::uint64_t n) { return DotOf(a, b, n); }
float DotF16(const float* a, const std::uint16_t* b, std::uint64_t n) { return DotOf(a, b, n); }
void Axpy(float scale, const float* x, float* y, std::uint64_t n) { AxpyOf(scale, x, y, n); }
void AxpyF16(float scale, const std::uint16_t* x, float* y, std::uint64_t n) { AxpyOf(scale, x, y, n); }

void AxpyRows(const Table::RowSum& sum) { AddRows<float>(sum); }
void AxpyRowsF16(const Table::RowSum& sum) { AddRows<std::uint16_t>(sum); }
void AxpyRowsQ8_0(const Table::RowSum& sum) { AddRows<BlockQ8_0>(sum); }

void Mul(const float* a, const float* b, float* out, std::uint64_t n) {
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_mul_ps(Eight(a + i), Eight(b + i)));
  for (; i < n; ++i) out[i] = a[i] * b[i];
}

void Add(const float* a, float* y, std::uint64_t n) {
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_add_ps(Eight(y + i), Eight(a + i)));
  for (; i < n; ++i) y[i] += a[i];
}

void ToF16(const float* x, std::uint16_t* out, std::uint64_t n) {
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(Eight(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) {
    out[i] = static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x[i]), _MM_FROUND_TO_NEAREST_INT)));
  }
}

}  // namespace veneer::kernels::avx2
