#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

// Distance of `value` from `exact` in units of the last place of an f32 as large as `exact`.
double Ulps(float value, double exact) {
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(static_cast<double>(value) - exact) / std::ldexp(1, exponent - 23);
}

// Every `step`-th f32 in (0, largest], with the sign given.
std::vector<float> Sweep(float largest, float sign, std::uint32_t step) {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits <= std::bit_cast<std::uint32_t>(largest); bits += step) x.push_back(sign * std::bit_cast<float>(bits));
  return x;
}

}  // namespace

TEST_CASE("exp: within 1.03 ulp of the exact value wherever that is finite in f32, and the same bits on every instruction set",
          "[kernels]") {
  for (float sign : {1.0f, -1.0f}) {
    const std::vector<float> x = Sweep(sign > 0 ? 88.72283f : 103.97f, sign, 97);
    std::vector<float> scalar(x.size());
    Scalar().exp(x.data(), scalar.data(), x.size());
    double worst = 0;
    float worst_at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double ulps = Ulps(scalar[i], std::exp(static_cast<double>(x[i])));
      if (!(ulps <= worst)) worst = ulps, worst_at = x[i];
    }
    INFO("largest error " << worst << " ulp at " << worst_at);
    CHECK(worst <= 1.03);
    for (const kernels::Table* table : Tables()) {
      std::vector<float> out = x;
      table->exp(out.data(), out.data(), out.size());  // in place
      CHECK(FirstDifference(out, scalar) == x.size());
    }
  }
}

TEST_CASE("exp: overflow is infinity, underflow is zero, exp(0) is 1, a NaN stays one, for any length", "[kernels]") {
  const std::vector<float> x = {89.0f, 1e30f, INFINITY, -104.0f, -1e30f, -INFINITY, 0.0f, -0.0f, NAN, -NAN, 1.0f};
  for (const kernels::Table* table : Tables()) {
    for (std::size_t n = 1; n <= x.size(); ++n) {
      INFO(table->isa << " n " << n);
      std::vector<float> out(n + 1, -7.0f);
      table->exp(x.data(), out.data(), n);
      CHECK(out.back() == -7.0f);
      for (std::size_t i = 0; i < n && i < 3; ++i) CHECK(out[i] == INFINITY);
      for (std::size_t i = 3; i < n && i < 6; ++i) CHECK(out[i] == 0.0f);
      for (std::size_t i = 6; i < n && i < 8; ++i) CHECK(out[i] == 1.0f);
      for (std::size_t i = 8; i < n && i < 10; ++i) CHECK(std::isnan(out[i]));
    }
  }
}

}  // namespace veneer::kernels_test
