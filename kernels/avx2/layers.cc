// Norm, activation function, softmax, rotary positions.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/simd.h"
#include "kernels/exp_constants.h"

namespace veneer::kernels::avx2 {
namespace {

VENEER_INLINE __m256 PowerOfTwo(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

// Operation by operation as in scalar/layers.cc; min and max return their second operand for a NaN.
VENEER_INLINE __m256 ExpEight(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(kExpLow), _mm256_min_ps(_mm256_set1_ps(kExpHigh), x));
  const __m256 round = _mm256_set1_ps(kExpRound);
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(kLog2E), round);
  const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(round));
  const __m256 whole = _mm256_sub_ps(shifted, round);
  const __m256 r = _mm256_fnmadd_ps(whole, _mm256_set1_ps(kLn2Low), _mm256_fnmadd_ps(whole, _mm256_set1_ps(kLn2High), x));
  __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(kExpC6), r, _mm256_set1_ps(kExpC5));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC4));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC3));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpC2));
  p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
  const __m256i half = _mm256_srai_epi32(n, 1);
  return _mm256_mul_ps(_mm256_mul_ps(p, PowerOfTwo(half)), PowerOfTwo(_mm256_sub_epi32(n, half)));
}

VENEER_INLINE __m256 SiluMulEight(__m256 gate, __m256 up) {
  const __m256 e = ExpEight(_mm256_xor_ps(gate, _mm256_set1_ps(-0.0f)));
  return _mm256_mul_ps(_mm256_div_ps(gate, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), up);
}

VENEER_INLINE void StoreFirst(__m256 v, float* out, std::uint64_t count) {
  alignas(32) float values[8];
  _mm256_store_ps(values, v);
  for (std::uint64_t j = 0; j < count; ++j) out[j] = values[j];
}

VENEER_INLINE float Largest(const float* x, std::uint64_t n) {
  __m256 m = _mm256_set1_ps(x[0]);
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) m = _mm256_max_ps(m, _mm256_loadu_ps(x + i));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  float largest = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace

void RmsNorm(const float* x, const float* weight, float epsilon, std::uint64_t n, float* out) {
  const float mean = Dot(x, x, n) / static_cast<float>(n);
  const float scale = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + epsilon)));
  const __m256 factor = _mm256_set1_ps(scale);
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor), _mm256_loadu_ps(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void Exp(const float* x, float* out, std::uint64_t n) {
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, ExpEight(_mm256_loadu_ps(x + i)));
  if (i < n) StoreFirst(ExpEight(_mm256_load_ps(Padded<8, float>(x + i, n - i, 0.0f).values)), out + i, n - i);
}

void SiluMul(const float* gate, const float* up, float* out, std::uint64_t n) {
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, SiluMulEight(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
  if (i < n) {
    const Padded<8, float> rest_gate(gate + i, n - i, 0.0f), rest_up(up + i, n - i, 0.0f);
    StoreFirst(SiluMulEight(_mm256_load_ps(rest_gate.values), _mm256_load_ps(rest_up.values)), out + i, n - i);
  }
}

void Softmax(float* x, std::uint64_t n) {
  if (n == 0) return;
  const __m256 largest = _mm256_set1_ps(Largest(x, n));
  __m256 sum[4];
  for (int v = 0; v < 4; ++v) sum[v] = _mm256_setzero_ps();
  const std::uint64_t whole = n / kLanes * kLanes;
  for (std::uint64_t i = 0; i < whole; i += kLanes) {
    for (int v = 0; v < 4; ++v) {
      const __m256 e = ExpEight(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8 * v), largest));
      _mm256_storeu_ps(x + i + 8 * v, e);
      sum[v] = _mm256_add_ps(sum[v], e);
    }
  }
  if (whole < n) {
    const std::uint64_t rest = n - whole;
    const Padded<kLanes, float> tail(x + whole, rest, -__builtin_inff());  // exp(-inf) adds zero
    alignas(32) float exps[kLanes];
    for (int v = 0; v < 4; ++v) {
      const __m256 e = ExpEight(_mm256_sub_ps(_mm256_load_ps(tail.values + 8 * v), largest));
      _mm256_store_ps(exps + 8 * v, e);
      sum[v] = _mm256_add_ps(sum[v], e);
    }
    for (std::uint64_t j = 0; j < rest; ++j) x[whole + j] = exps[j];
  }
  const float scale = 1.0f / SumLanes(sum[0], sum[1], sum[2], sum[3]);
  const __m256 factor = _mm256_set1_ps(scale);
  std::uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
  for (; i < n; ++i) x[i] *= scale;
}

void Rope(float* head, const float* cos, const float* sin, std::uint64_t head_dim) {
  const std::uint64_t half = head_dim / 2;
  std::uint64_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const __m256 a = _mm256_loadu_ps(head + i), b = _mm256_loadu_ps(head + half + i);
    const __m256 c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i);
    _mm256_storeu_ps(head + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
    _mm256_storeu_ps(head + half + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
  }
  for (; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    head[i + half] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}

}  // namespace veneer::kernels::avx2
