// Elementwise kernels and dot products over f32 and f16 vectors of any length.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/simd.h"

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

}  // namespace

float Dot(const float* a, const float* b, std::uint64_t n) { return DotOf(a, b, n); }
float DotF16(const float* a, const std::uint16_t* b, std::uint64_t n) { return DotOf(a, b, n); }
void Axpy(float scale, const float* x, float* y, std::uint64_t n) { AxpyOf(scale, x, y, n); }
void AxpyF16(float scale, const std::uint16_t* x, float* y, std::uint64_t n) { AxpyOf(scale, x, y, n); }

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
