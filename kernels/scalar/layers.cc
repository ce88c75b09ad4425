// Norm, activation function, softmax, rotary positions.
#include <cmath>
#include <cstdint>

#include "kernels/exp_constants.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/lanes.h"
#include "kernels/scalar/scalar.h"

namespace veneer::kernels::scalar {
namespace {

float PowerOfTwo(std::int32_t n) { return BitsToFloat(static_cast<std::uint32_t>(n + 127) << 23); }  // -126 <= n <= 127

float Exp1(float x) {
  x = kExpHigh < x ? kExpHigh : x;
  x = kExpLow > x ? kExpLow : x;
  const float shifted = __builtin_fmaf(x, kLog2E, kExpRound);
  // For a NaN the bits mean nothing, and p, a NaN, stays one whatever it is multiplied with.
  const auto n = static_cast<std::int32_t>(FloatToBits(shifted) - FloatToBits(kExpRound));
  const float whole = shifted - kExpRound;
  const float r = __builtin_fmaf(-whole, kLn2Low, __builtin_fmaf(-whole, kLn2High, x));
  float p = __builtin_fmaf(kExpC6, r, kExpC5);
  p = __builtin_fmaf(p, r, kExpC4);
  p = __builtin_fmaf(p, r, kExpC3);
  p = __builtin_fmaf(p, r, kExpC2);
  p = __builtin_fmaf(p, r * r, r) + 1.0f;
  const std::int32_t half = n >> 1;
  return p * PowerOfTwo(half) * PowerOfTwo(n - half);
}

}  // namespace

// out = x / sqrt(mean(x^2) + epsilon) * weight; the sum of squares in lane order.
void RmsNorm(const float* x, const float* weight, float epsilon, std::uint64_t n, float* out) {
  const float mean = Dot(x, x, n) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + epsilon);
  for (std::uint64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void Exp(const float* x, float* out, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) out[i] = Exp1(x[i]);
}

void SiluMul(const float* gate, const float* up, float* out, std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + Exp1(-gate[i])) * up[i];
}

// The sum of exponentials in lane order, then one multiplication by its reciprocal each.
void Softmax(float* x, std::uint64_t n) {
  if (n == 0) return;
  float largest = x[0];
  for (std::uint64_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  Lanes lanes;
  for (std::uint64_t i = 0; i < n; ++i) {
    x[i] = Exp1(x[i] - largest);
    lanes.lane[i % kLanes] += x[i];
  }
  const float scale = 1.0f / lanes.Sum();
  for (std::uint64_t i = 0; i < n; ++i) x[i] *= scale;
}

// Each product with sin is rounded, the one with cos is fused.
void Rope(float* head, const float* cos, const float* sin, std::uint64_t head_dim) {
  const std::uint64_t half = head_dim / 2;
  for (std::uint64_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    head[i + half] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}

}  // namespace veneer::kernels::scalar
