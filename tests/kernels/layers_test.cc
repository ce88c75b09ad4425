#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

constexpr std::uint64_t kLengths[] = {1, 7, 8, 9, 31, 32, 33, 48, 65, 100, 2048};

}  // namespace

// The mean of squares takes ceil(n / 32) + 5 roundings of the sum and one each for / n and + epsilon, halved by the square root; then
// root, reciprocal, and two multiplications round once each.
TEST_CASE("rms_norm: within the bound of its operations, and the same bits on every instruction set", "[kernels]") {
  for (std::uint64_t n : kLengths) {
    for (double scale : {1.0, 1e-6, 1e6}) {
      Random random(n);
      const std::vector<float> x = RandomFloats(n, random, scale), weight = RandomFloats(n, random);
      const float epsilon = 1e-5f;
      double squares = 0;
      for (float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
      const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(epsilon));
      std::vector<float> scalar(n);
      Scalar().rms_norm(x.data(), weight.data(), epsilon, n, scalar.data());
      for (const kernels::Table* table : Tables()) {
        INFO(table->isa << " n " << n << " scale " << scale);
        std::vector<float> out(n + 1, -7.0f);
        table->rms_norm(x.data(), weight.data(), epsilon, n, out.data());
        CHECK(out.back() == -7.0f);
        out.pop_back();
        const double gamma = Gamma((std::ceil(static_cast<double>(n) / 32) + 7) / 2 + 4);
        for (std::uint64_t i = 0; i < n; ++i) {
          const double exact = static_cast<double>(x[i]) * factor * static_cast<double>(weight[i]);
          REQUIRE(std::fabs(static_cast<double>(out[i]) - exact) <= gamma * std::fabs(exact));
        }
        CHECK(FirstDifference(out, scalar) == n);
      }
    }
  }
}

// e = exp(-gate) within 1.03 ulp (2.06 u relative), then 1 + e, the division and the product with up: under 6 roundings' worth. Below gate
// = -88.72 e overflows and the result is 0, where the exact one is at most 88.8 exp(-88.72) |up| < 3e-37 |up|.
TEST_CASE("silu_mul: within 6 roundings from -88 up, and zero where exp(-gate) overflows", "[kernels]") {
  Random random(2);
  for (std::uint64_t n : kLengths) {
    std::vector<float> gate = RandomFloats(n, random, 100);
    const std::vector<float> up = RandomFloats(n, random, 3);
    gate[0] = n % 2 ? 0.0f : -90.0f;
    std::vector<float> scalar(n);
    Scalar().silu_mul(gate.data(), up.data(), scalar.data(), n);
    for (const kernels::Table* table : Tables()) {
      INFO(table->isa << " n " << n);
      std::vector<float> out = gate;
      table->silu_mul(out.data(), up.data(), out.data(), n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const double g = static_cast<double>(gate[i]), u = static_cast<double>(up[i]);
        const double exact = g / (1 + std::exp(-g)) * u;
        REQUIRE(std::fabs(static_cast<double>(out[i]) - exact) <= Gamma(6) * std::fabs(exact) + (g < -87 ? 3e-37 * std::fabs(u) : 0));
      }
      CHECK(FirstDifference(out, scalar) == n);
    }
  }
}

// x - max is rounded (|x - max| u in the exponent), exp within 2.06 u, the sum within Gamma(ceil(n / 32) + 5) and as its terms are, then a
// reciprocal and a product.
TEST_CASE("softmax: within the bound of its operations, and the same bits on every instruction set", "[kernels]") {
  for (std::uint64_t n : kLengths) {
    for (double scale : {1.0, 20.0, 60.0}) {
      Random random(n);
      const std::vector<float> x = RandomFloats(n, random, scale);
      double largest = -1e300, total = 0, wobble = 0;
      for (float value : x) largest = std::max(largest, static_cast<double>(value));
      for (float value : x) {
        const double below = largest - static_cast<double>(value);
        total += std::exp(-below);
        wobble += std::exp(-below) * (2.06 + below) * kU;
      }
      std::vector<float> scalar = x;
      Scalar().softmax(scalar.data(), n);
      for (const kernels::Table* table : Tables()) {
        INFO(table->isa << " n " << n << " scale " << scale);
        std::vector<float> out = x;
        table->softmax(out.data(), n);
        for (std::uint64_t i = 0; i < n; ++i) {
          const double below = largest - static_cast<double>(x[i]), exact = std::exp(-below) / total;
          const double relative = (2.06 + below) * kU + wobble / total + Gamma(std::ceil(static_cast<double>(n) / 32) + 5) + 2 * kU;
          REQUIRE(std::fabs(static_cast<double>(out[i]) - exact) <= 1.001 * relative * exact + 2 * kSmallest);
        }
        CHECK(FirstDifference(out, scalar) == n);
      }
    }
  }
}

TEST_CASE("softmax: one element gives 1, equal elements equal shares, -infinity a zero, huge inputs no overflow", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    INFO(table->isa);
    float one = 123.0f;
    table->softmax(&one, 1);
    CHECK(one == 1.0f);
    std::vector<float> four = {3e38f, 3e38f, -INFINITY, -3e38f};
    table->softmax(four.data(), 4);
    CHECK(four == std::vector<float>{0.5f, 0.5f, 0.0f, 0.0f});
    table->softmax(nullptr, 0);
  }
}

// Two products, one of them rounded, one rounding of the sum: Gamma(2) (|a c| + |b s|).
TEST_CASE("rope: pairs i and i + head_dim / 2 turn by their angle, for every head size", "[kernels]") {
  for (std::uint64_t head_dim : {2u, 6u, 16u, 48u, 64u, 96u, 128u}) {
    Random random(head_dim);
    const std::vector<float> start = RandomFloats(head_dim + 1, random, 4);
    std::vector<float> cos(head_dim / 2), sin(head_dim / 2);
    for (std::uint64_t i = 0; i < head_dim / 2; ++i) {
      cos[i] = static_cast<float>(std::cos(static_cast<double>(i) + 0.3));
      sin[i] = static_cast<float>(std::sin(static_cast<double>(i) + 0.3));
    }
    std::vector<float> scalar = start;
    Scalar().rope(scalar.data(), cos.data(), sin.data(), head_dim);
    for (const kernels::Table* table : Tables()) {
      INFO(table->isa << " head_dim " << head_dim);
      std::vector<float> head = start;
      table->rope(head.data(), cos.data(), sin.data(), head_dim);
      CHECK(SameBits(head.back(), start.back()));
      for (std::uint64_t i = 0; i < head_dim / 2; ++i) {
        const double a = static_cast<double>(start[i]), b = static_cast<double>(start[i + head_dim / 2]);
        const double c = static_cast<double>(cos[i]), s = static_cast<double>(sin[i]);
        REQUIRE(std::fabs(static_cast<double>(head[i]) - (a * c - b * s)) <= Gamma(2) * (std::fabs(a * c) + std::fabs(b * s)));
        REQUIRE(std::fabs(static_cast<double>(head[i + head_dim / 2]) - (b * c + a * s)) <=
                Gamma(2) * (std::fabs(b * c) + std::fabs(a * s)));
      }
      CHECK(FirstDifference(head, scalar) == head_dim + 1);
    }
  }
}

}  // namespace veneer::kernels_test
