#include "kernels/kernels.h"

#include <algorithm>

#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

// Activations as a caller may hold them: every q the quantizer can make (-127..127), any strides.
struct Activations {
  std::uint64_t blocks, q_stride, block_stride;
  std::vector<std::int8_t> q;
  std::vector<float> d;
  std::vector<std::int32_t> sum;

  Activations(std::uint32_t tokens, std::uint64_t cols, Random& random, bool saturated)
      : blocks(cols / 32),
        q_stride(cols + 17),
        block_stride(blocks + 3),
        q(tokens * q_stride + 1),
        d(tokens * block_stride),
        sum(tokens * block_stride) {
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint64_t b = 0; b < blocks; ++b) {
        const bool zero = random.Below(13) == 0;
        const std::int64_t sign = random.Below(2) ? 1 : -1;
        std::int32_t total = 0;
        for (std::uint64_t j = 0; j < 32; ++j) {
          const std::int64_t value = zero ? 0 : saturated ? 127 * sign : static_cast<std::int64_t>(random.Below(255)) - 127;
          q[1 + t * q_stride + 32 * b + j] = static_cast<std::int8_t>(value);
          total += static_cast<std::int32_t>(value);
        }
        d[t * block_stride + b] = zero ? 0.0f : static_cast<float>(0.001 + 0.01 * std::fabs(random.Uniform()));
        sum[t * block_stride + b] = total;
      }
    }
  }

  kernels::QuantizedActivations View(std::uint32_t token = 0) const {
    return {q.data() + 1 + token * q_stride, d.data() + token * block_stride, sum.data() + token * block_stride, q_stride, block_stride};
  }
};

}  // namespace

// Per block the integer sum is exact, its scale product rounds once, and the running total rounds once for each of the blocks (twice
// with a minimum): |y - exact| <= Gamma(k blocks + 1) sum |terms|, k = 1 or 2. Terms are those of the f32 chain, not of elements.
TEST_CASE("dot_rows_q8: every result is within the bound of its summation order", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    for (const StoredType& type : StoredTypes()) {
      if (!type.quantized) continue;
      for (std::uint64_t cols : {type.block, 3 * type.block, 40 * type.block}) {
        for (int fill : {-1, 0x00, 0xff, 0x80, 0x7f}) {
          INFO(table->isa << " " << type.name << " cols " << cols << " fill " << fill);
          Random random(cols);
          const std::uint32_t n_rows = 9, tokens = 7;
          Matrix matrix(type, n_rows, cols, random, fill < 0 ? Scales::kExtreme : Scales::kUsual);
          if (fill >= 0) Saturate(type, matrix, static_cast<std::uint8_t>(fill));
          const Activations x(tokens, cols, random, fill >= 0);
          std::vector<float> y(n_rows * tokens);
          REQUIRE(table->dot_rows_q8[type.type] != nullptr);
          table->dot_rows_q8[type.type](matrix.rows.data(), n_rows, cols, x.View(), tokens, y.data(), n_rows);
          for (std::uint32_t r = 0; r < n_rows; ++r) {
            const auto* row = static_cast<const std::uint8_t*>(matrix.rows[r]);
            const std::vector<double> w = RowValues(type, row, cols), m = RowMinimums(type, row, cols);
            for (std::uint32_t t = 0; t < tokens; ++t) {
              double exact = 0, magnitude = 0;
              for (std::uint64_t b = 0; b < cols / 32; ++b) {
                double block = 0, minimum = 0;
                const auto d = static_cast<double>(x.d[t * x.block_stride + b]);
                for (std::uint64_t j = 0; j < 32; ++j) {
                  const double value = d * x.q[1 + t * x.q_stride + 32 * b + j];
                  block += w[32 * b + j] * value;
                  minimum += m[32 * b + j] * value;
                }
                exact += block;
                magnitude += std::fabs(block - minimum) + std::fabs(minimum);
              }
              const double steps = (type.minimum ? 2.0 : 1.0) * static_cast<double>(cols) / 32 + 1;
              const double bound = Gamma(steps) * magnitude + steps * kSmallest;
              const double error = std::fabs(static_cast<double>(y[t * n_rows + r]) - exact);
              // The oracle itself rounds in f64: 64 operations a block.
              if (!(error <= bound + 64 * 0x1p-53 * magnitude)) {
                FAIL("row " << r << " token " << t << ": " << y[t * n_rows + r] << " against " << exact << ", bound " << bound);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("dot_rows_q8: no number of rows or tokens, no stride and no instruction set changes a bit", "[kernels]") {
  for (const StoredType& type : StoredTypes()) {
    if (!type.quantized) continue;
    for (std::uint64_t cols : {type.block, 5 * type.block, 32 * type.block}) {
      Random random(cols + 2);
      const std::uint32_t most_rows = 17, most_tokens = 9;
      const Matrix matrix(type, most_rows, cols, random, Scales::kExtreme);
      const Activations x(most_tokens, cols, random, false);
      std::vector<float> single(most_rows * most_tokens);
      for (std::uint32_t r = 0; r < most_rows; ++r) {
        for (std::uint32_t t = 0; t < most_tokens; ++t) {
          Scalar().dot_rows_q8[type.type](&matrix.rows[r], 1, cols, x.View(t), 1, &single[t * most_rows + r], 1);
        }
      }
      for (const kernels::Table* table : Tables()) {
        for (std::uint32_t n_rows = 1; n_rows <= most_rows; ++n_rows) {
          for (std::uint32_t tokens = 1; tokens <= most_tokens; ++tokens) {
            std::vector<float> y((n_rows + 3) * tokens, -7.0f);
            table->dot_rows_q8[type.type](matrix.rows.data(), n_rows, cols, x.View(), tokens, y.data(), n_rows + 3);
            for (std::uint32_t t = 0; t < tokens; ++t) {
              for (std::uint32_t r = 0; r < n_rows + 3; ++r) {
                const float expected = r < n_rows ? single[t * most_rows + r] : -7.0f;
                if (!SameBits(y[t * (n_rows + 3) + r], expected)) {
                  FAIL(table->isa << " " << type.name << " cols " << cols << ", " << n_rows << " rows, " << tokens << " tokens: row " << r
                                  << " token " << t << " is " << y[t * (n_rows + 3) + r] << ", alone " << expected);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("dot_rows_q8: float types have no quantized product and unknown types have no kernel", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    std::uint32_t known = 0;
    for (std::uint32_t type = 0; type < kernels::kTypes; ++type) {
      CHECK((table->dequantize[type] == nullptr) == (table->dot_rows[type] == nullptr));
      known += table->dequantize[type] != nullptr;
    }
    CHECK(known == StoredTypes().size() + 2);  // NF4 and int8 rows, whose rows are no plain bytes: bitsandbytes_test.cc
    for (const int type : {VNR_NF4, VNR_INT8_ROW}) CHECK(table->dot_rows_q8[type] == nullptr);
    for (const StoredType& type : StoredTypes()) CHECK((table->dot_rows_q8[type.type] != nullptr) == type.quantized);
  }
}

}  // namespace veneer::kernels_test
