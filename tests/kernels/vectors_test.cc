#include <algorithm>

#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

constexpr std::uint64_t kLengths[] = {0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 1000};

std::vector<std::uint16_t> RandomHalves(std::uint64_t n, Random& random) {
  std::vector<std::uint16_t> halves(n);
  for (std::uint16_t& half : halves) half = static_cast<std::uint16_t>(random.Below(2) << 15 | random.Below(0x4000));
  return halves;
}

}  // namespace

// Gamma(ceil(n / 32) + 5) sum |a b|: one rounding for each element of a lane, five levels of the tree.
TEST_CASE("dot and dot_f16: within the bound of the lane order, and the same bits on every instruction set", "[kernels]") {
  for (std::uint64_t n : kLengths) {
    Random random(n);
    const std::vector<float> a = RandomFloats(n + 1, random), b = RandomFloats(n + 1, random);
    const std::vector<std::uint16_t> h = RandomHalves(n + 1, random);
    double exact = 0, magnitude = 0, exact_h = 0, magnitude_h = 0;
    for (std::uint64_t i = 1; i <= n; ++i) {
      const double x = static_cast<double>(a[i]);
      exact += x * static_cast<double>(b[i]);
      magnitude += std::fabs(x * static_cast<double>(b[i]));
      exact_h += x * HalfValue(h[i]);
      magnitude_h += std::fabs(x * HalfValue(h[i]));
    }
    const double gamma = Gamma(std::ceil(static_cast<double>(n) / 32) + 5);
    for (const kernels::Table* table : Tables()) {
      INFO(table->isa << " n " << n);
      const float y = table->dot(a.data() + 1, b.data() + 1, n), y_h = table->dot_f16(a.data() + 1, h.data() + 1, n);
      CHECK(std::fabs(static_cast<double>(y) - exact) <= gamma * magnitude);
      CHECK(std::fabs(static_cast<double>(y_h) - exact_h) <= gamma * magnitude_h);
      CHECK(SameBits(y, Scalar().dot(a.data() + 1, b.data() + 1, n)));
      CHECK(SameBits(y_h, Scalar().dot_f16(a.data() + 1, h.data() + 1, n)));
    }
  }
}

TEST_CASE("axpy_rows and axpy_rows_f16: the bits of axpy row by row for any number of sums, rows and elements", "[kernels]") {
  for (const std::uint64_t n : {1U, 7U, 8U, 20U, 64U, 131U}) {
    Random random(n);
    const std::uint64_t n_rows = 5, row = n + 3, w_stride = n_rows + 2;
    const std::uint32_t most = 7;
    const std::vector<float> x = RandomFloats(n_rows * row, random), w = RandomFloats(most * w_stride, random);
    const std::vector<std::uint16_t> h = RandomHalves(n_rows * row, random);
    const std::vector<float> start = RandomFloats(most * row, random);
    std::vector<float> expected = start, expected_h = start;
    for (std::uint32_t t = 0; t < most; ++t) {
      for (std::uint64_t r = 0; r < n_rows; ++r) {
        Scalar().axpy(w[t * w_stride + r], &x[r * row], &expected[t * row], n);
        Scalar().axpy_f16(w[t * w_stride + r], &h[r * row], &expected_h[t * row], n);
      }
    }
    for (const kernels::Table* table : Tables()) {
      for (std::uint32_t n_y = 1; n_y <= most; ++n_y) {
        std::vector<float> y(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(n_y * row)), y_h = y;
        table->axpy_rows({x.data(), row * sizeof(float), n_rows, n, w.data(), w_stride, y.data(), row, n_y});
        table->axpy_rows_f16({h.data(), row * sizeof(std::uint16_t), n_rows, n, w.data(), w_stride, y_h.data(), row, n_y});
        INFO(table->isa << " n " << n << ", " << n_y << " sums");
        CHECK(FirstDifference(y, std::span(expected).first(y.size())) == y.size());
        CHECK(FirstDifference(y_h, std::span(expected_h).first(y.size())) == y.size());
      }
    }
  }
}

TEST_CASE("axpy_rows_q8_0: the bits of axpy over the rows' values for any number of sums, rows and blocks, scales at any end",
          "[kernels]") {
  const auto type = std::ranges::find(StoredTypes(), static_cast<int>(VNR_Q8_0), &StoredType::type);
  for (const Scales scales : {Scales::kUsual, Scales::kExtreme}) {
    for (const std::uint64_t n : {32U, 64U, 96U, 128U, 160U}) {
      Random random(n);
      const std::uint64_t n_rows = 5, bytes = n / 32 * 34, row_bytes = bytes + 35, w_stride = n_rows + 2, y_stride = n + 3;
      const std::uint32_t most = 7;
      std::vector<std::uint8_t> rows(n_rows * row_bytes + 1, 0xff);  // rows begin at odd addresses too
      const std::vector<float> w = RandomFloats(most * w_stride, random), start = RandomFloats(most * y_stride, random);
      std::vector<float> expected = start;
      for (std::uint64_t r = 0; r < n_rows; ++r) {
        const std::vector<std::uint8_t> row = RandomRow(*type, n, random, scales);
        std::ranges::copy(row, rows.begin() + 1 + static_cast<std::ptrdiff_t>(r * row_bytes));
        const std::vector<double> wide = RowValues(*type, row.data(), n);
        const std::vector<float> values(wide.begin(), wide.end());  // exact
        for (std::uint32_t t = 0; t < most; ++t) Scalar().axpy(w[t * w_stride + r], values.data(), &expected[t * y_stride], n);
      }
      for (const kernels::Table* table : Tables()) {
        for (std::uint32_t n_y = 1; n_y <= most; ++n_y) {
          std::vector<float> y(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(n_y * y_stride));
          table->axpy_rows_q8_0({rows.data() + 1, row_bytes, n_rows, n, w.data(), w_stride, y.data(), y_stride, n_y});
          INFO(table->isa << " n " << n << ", " << n_y << " sums");
          CHECK(FirstDifference(y, std::span(expected).first(y.size())) == y.size());
        }
      }
    }
  }
}

TEST_CASE("dot: gives the bits of dot_rows over an F32 row", "[kernels]") {
  Random random(3);
  const std::vector<float> w = RandomFloats(777, random), x = RandomFloats(777, random);
  for (const kernels::Table* table : Tables()) {
    const void* row = w.data();
    float y;
    table->dot_rows[0](&row, 1, 777, x.data(), 777, 1, &y, 1);
    CHECK(SameBits(y, table->dot(w.data(), x.data(), 777)));
  }
}

// A fused multiply-add rounds the exact sum once; in f64 the product of two f32 is exact (48 bits) and the sum is rounded at 2^-53,
// so the bound is one f32 rounding plus that. mul and add are single correctly rounded operations: f64 rounded to f32 is exact.
TEST_CASE("axpy, mul, add: one rounding for each element, nothing past the end", "[kernels]") {
  for (std::uint64_t n : kLengths) {
    Random random(n + 7);
    const std::vector<float> x = RandomFloats(n + 1, random), start = RandomFloats(n + 1, random);
    const std::vector<std::uint16_t> h = RandomHalves(n + 1, random);
    const float scale = 0.37f;
    for (const kernels::Table* table : Tables()) {
      INFO(table->isa << " n " << n);
      std::vector<float> y = start, y_h = start, product = start, sum = start;
      table->axpy(scale, x.data(), y.data(), n);
      table->axpy_f16(scale, h.data(), y_h.data(), n);
      table->mul(product.data(), x.data(), product.data(), n);
      table->add(x.data(), sum.data(), n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const double a = static_cast<double>(start[i]), b = static_cast<double>(x[i]), s = static_cast<double>(scale);
        REQUIRE(std::fabs(static_cast<double>(y[i]) - (a + s * b)) <= kU * 1.001 * std::fabs(a + s * b) + 0x1p-52);
        REQUIRE(std::fabs(static_cast<double>(y_h[i]) - (a + s * HalfValue(h[i]))) <=
                kU * 1.001 * std::fabs(a + s * HalfValue(h[i])) + 0x1p-52);
        REQUIRE(product[i] == static_cast<float>(a * b));
        REQUIRE(sum[i] == static_cast<float>(a + b));
      }
      for (const std::vector<float>* out : {&y, &y_h, &product, &sum}) REQUIRE(SameBits(out->back(), start.back()));
      std::vector<float> scalar = start, scalar_h = start;
      Scalar().axpy(scale, x.data(), scalar.data(), n);
      Scalar().axpy_f16(scale, h.data(), scalar_h.data(), n);
      CHECK(FirstDifference(y, scalar) == n + 1);
      CHECK(FirstDifference(y_h, scalar_h) == n + 1);
    }
  }
}

TEST_CASE("to_f16: any f32 bits, NaNs included, narrow to the same half on every instruction set", "[kernels]") {
  Random random(11);
  std::vector<float> x(100003);
  for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(random.Bits()));
  std::vector<std::uint16_t> expected(x.size());
  Scalar().to_f16(x.data(), expected.data(), x.size());
  for (const kernels::Table* table : Tables()) {
    for (std::uint64_t n : kLengths) {
      std::vector<std::uint16_t> out(n + 1, 0x1234);
      table->to_f16(x.data(), out.data(), n);
      CHECK(out.back() == 0x1234);
    }
    std::vector<std::uint16_t> out(x.size());
    table->to_f16(x.data(), out.data(), x.size());
    CHECK(out == expected);
  }
}

}  // namespace veneer::kernels_test
