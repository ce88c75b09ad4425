#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

std::vector<std::uint64_t> Widths(const StoredType& type) {
  if (type.block == 1) return {1, 7, 31, 32, 33, 95, 256, 300, 1000};
  return {type.block, 3 * type.block, 9 * type.block, 17 * type.block};
}

struct Product {
  std::uint32_t n_rows, tokens;
  std::vector<float> y;

  float At(std::uint32_t token, std::uint32_t row) const { return y[token * (n_rows + 3) + row]; }
};

// y has a stride of n_rows + 3; the gaps must keep their value.
Product Run(const kernels::Table& table, const StoredType& type, const Matrix& matrix, std::uint32_t n_rows, std::uint64_t cols,
            const float* x, std::uint64_t x_stride, std::uint32_t tokens) {
  Product product{n_rows, tokens, std::vector<float>((n_rows + 3) * tokens, -7.0f)};
  table.dot_rows[type.type](matrix.rows.data(), n_rows, cols, x, x_stride, tokens, product.y.data(), n_rows + 3);
  for (std::uint32_t t = 0; t < tokens; ++t) {
    for (std::uint32_t gap = n_rows; gap < n_rows + 3; ++gap) REQUIRE(product.At(t, gap) == -7.0f);
  }
  return product;
}

}  // namespace

// Weights are those of `dequantize`, exact in f32 (rounded once with a minimum: the oracle rounds too). A lane rounds once for each of
// its ceil(cols / 32) elements, the tree adds five levels: |y - exact| <= Gamma(ceil(cols / 32) + 5) sum |w x|.
TEST_CASE("dot_rows: every result is within the bound of its summation order", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    for (const StoredType& type : StoredTypes()) {
      for (std::uint64_t cols : Widths(type)) {
        for (Scales scales : {Scales::kUsual, Scales::kExtreme}) {
          INFO(table->isa << " " << type.name << " cols " << cols);
          Random random(cols);
          const std::uint32_t n_rows = 5, tokens = 5;
          const Matrix matrix(type, n_rows, cols, random, scales);
          const std::vector<float> x = RandomFloats(tokens * cols, random);
          const Product product = Run(*table, type, matrix, n_rows, cols, x.data(), cols, tokens);
          for (std::uint32_t r = 0; r < n_rows; ++r) {
            const std::vector<double> w = RowValues(type, static_cast<const std::uint8_t*>(matrix.rows[r]), cols);
            for (std::uint32_t t = 0; t < tokens; ++t) {
              double exact = 0, magnitude = 0;
              for (std::uint64_t i = 0; i < cols; ++i) {
                const double term = static_cast<double>(static_cast<float>(w[i])) * static_cast<double>(x[t * cols + i]);
                exact += term;
                magnitude += std::fabs(term);
              }
              const double bound = Gamma(std::ceil(static_cast<double>(cols) / 32) + 5) * magnitude + static_cast<double>(cols) * kSmallest;
              const double error = std::fabs(static_cast<double>(product.At(t, r)) - exact);
              if (!(error <= bound)) FAIL("row " << r << " token " << t << ": error " << error << ", bound " << bound);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("dot_rows: no number of rows or tokens, no stride and no instruction set changes a bit", "[kernels]") {
  for (const StoredType& type : StoredTypes()) {
    for (std::uint64_t cols : Widths(type)) {
      Random random(cols + 1);
      const std::uint32_t most_rows = 17, most_tokens = 29;
      const Matrix matrix(type, most_rows, cols, random, Scales::kExtreme);
      const std::uint64_t stride = cols + 5;
      const std::vector<float> x = RandomFloats(most_tokens * stride + 1, random);
      std::vector<float> single(most_rows * most_tokens);  // [token][row], one call each
      for (std::uint32_t r = 0; r < most_rows; ++r) {
        for (std::uint32_t t = 0; t < most_tokens; ++t) {
          Scalar().dot_rows[type.type](&matrix.rows[r], 1, cols, x.data() + 1 + t * stride, 1, 1, &single[t * most_rows + r], 1);
        }
      }
      for (const kernels::Table* table : Tables()) {
        for (std::uint32_t n_rows = 1; n_rows <= most_rows; ++n_rows) {
          for (std::uint32_t tokens : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 24u, 25u, 29u}) {
            if (tokens > 9 && n_rows % 5 != 0) continue;
            const Product product = Run(*table, type, matrix, n_rows, cols, x.data() + 1, stride, tokens);
            for (std::uint32_t t = 0; t < tokens; ++t) {
              for (std::uint32_t r = 0; r < n_rows; ++r) {
                if (!SameBits(product.At(t, r), single[t * most_rows + r])) {
                  FAIL(table->isa << " " << type.name << " cols " << cols << ", " << n_rows << " rows, " << tokens << " tokens: row " << r
                                  << " token " << t << " is " << product.At(t, r) << ", alone " << single[t * most_rows + r]);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("dot_rows: zero rows or zero tokens write nothing", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    for (const StoredType& type : StoredTypes()) {
      Random random(1);
      const Matrix matrix(type, 1, 256, random);
      const std::vector<float> x(256, 1.0f);
      float y = -7.0f;
      table->dot_rows[type.type](matrix.rows.data(), 0, 256, x.data(), 256, 1, &y, 1);
      table->dot_rows[type.type](matrix.rows.data(), 1, 256, x.data(), 256, 0, &y, 1);
      CHECK(y == -7.0f);
    }
  }
}

}  // namespace veneer::kernels_test
