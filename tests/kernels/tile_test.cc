#include <memory>

#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

using kernels::kPackedTokens;
using kernels::PackedBlock;

// Every q the quantizer can make (-127..127): the ends of the range alone, each with a sign for the block's halves that makes the partial
// sums of a tile largest; or any.
enum class Fill { kRandom, kLargest };

struct Activations {
  std::uint64_t blocks;
  std::uint32_t tokens;
  std::vector<std::int8_t> q;
  std::vector<float> d;
  std::vector<std::int32_t> sum;

  Activations(std::uint32_t n_tokens, std::uint64_t cols, Random& random, Fill fill)
      : blocks(cols / 32), tokens(n_tokens), q(tokens * (cols + 5)), d(tokens * (blocks + 1)), sum(tokens * (blocks + 1)) {
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint64_t b = 0; b < blocks; ++b) {
        const std::uint64_t signs = random.Below(16);
        for (std::uint64_t j = 0; j < 32; ++j) {
          const std::int64_t value = fill == Fill::kRandom       ? static_cast<std::int64_t>(random.Below(255)) - 127
                                     : (signs >> j / 8 & 1) != 0 ? 127
                                                                 : -127;
          q[t * (cols + 5) + 32 * b + j] = static_cast<std::int8_t>(value);
          sum[t * (blocks + 1) + b] += static_cast<std::int32_t>(value);
        }
        d[t * (blocks + 1) + b] = random.Below(11) == 0 ? 0.0f : static_cast<float>(0.01 * random.Uniform());
      }
    }
  }
  kernels::QuantizedActivations View() const { return {q.data(), d.data(), sum.data(), 32 * blocks + 5, blocks + 1}; }

  // Groups `stride` blocks apart.
  std::vector<PackedBlock> Packed(const kernels::Table& table, std::uint32_t n_tokens, std::uint64_t stride) const {
    std::vector<PackedBlock> packed((n_tokens + kPackedTokens - 1) / kPackedTokens * stride);
    for (std::uint32_t t = 0; t < n_tokens; t += kPackedTokens) {
      kernels::QuantizedActivations part = View();
      part.q += t * part.q_stride;
      part.d += t * part.block_stride;
      part.sum += t * part.block_stride;
      table.pack_activations(part, std::min(kPackedTokens, n_tokens - t), blocks, &packed[t / kPackedTokens * stride]);
    }
    return packed;
  }
};

struct Scratch {
  std::unique_ptr<void, decltype(&std::free)> data{std::aligned_alloc(64, kernels::kTileScratchBytes), &std::free};
  Scratch() { std::memset(data.get(), 0xa5, kernels::kTileScratchBytes); }
};

// The tile of each table against one row and one token at a time.
void Compare(const StoredType& type, const Matrix& matrix, std::uint32_t n_rows, std::uint64_t cols, const Activations& x,
             std::uint32_t tokens, std::span<const float> expected, std::uint32_t expected_stride) {
  const std::uint64_t x_stride = x.blocks + 2, y_stride = n_rows + 3;
  const Scratch scratch;
  for (const kernels::Table* table : Tables()) {
    const std::vector<PackedBlock> packed = x.Packed(*table, tokens, x_stride);
    std::vector<float> y(y_stride * tokens, -7.0f);
    REQUIRE(table->multiply_tile[type.type] != nullptr);
    table->multiply_tile[type.type](matrix.rows.data(), n_rows, cols, packed.data(), x_stride, tokens, scratch.data.get(), y.data(),
                                    y_stride);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t r = 0; r < y_stride; ++r) {
        const float wanted = r < n_rows ? expected[t * expected_stride + r] : -7.0f;
        if (!SameBits(y[t * y_stride + r], wanted)) {
          FAIL(table->isa << " " << type.name << " cols " << cols << ", " << n_rows << " rows, " << tokens << " tokens: row " << r
                          << " token " << t << " is " << y[t * y_stride + r] << ", dot_rows_q8 " << wanted);
        }
      }
    }
  }
}

std::vector<float> OneByOne(const StoredType& type, const Matrix& matrix, std::uint32_t n_rows, std::uint64_t cols, const Activations& x) {
  std::vector<float> y(n_rows * x.tokens);
  Scalar().dot_rows_q8[type.type](matrix.rows.data(), n_rows, cols, x.View(), x.tokens, y.data(), n_rows);
  return y;
}

}  // namespace

TEST_CASE("multiply_tile: gives the bits of dot_rows_q8 for any number of tokens and rows", "[kernels]") {
  for (const StoredType& type : StoredTypes()) {
    if (!type.quantized) continue;
    Random random(41);
    const std::uint32_t most_rows = 70, most_tokens = 70;
    const std::uint64_t cols = 2 * type.block;
    const Matrix matrix(type, most_rows, cols, random, Scales::kExtreme);
    const Activations x(most_tokens, cols, random, Fill::kRandom);
    const std::vector<float> expected = OneByOne(type, matrix, most_rows, cols, x);
    for (std::uint32_t tokens = 1; tokens <= most_tokens; ++tokens) Compare(type, matrix, 33, cols, x, tokens, expected, most_rows);
    for (std::uint32_t n_rows = 1; n_rows <= most_rows; ++n_rows) Compare(type, matrix, n_rows, cols, x, 6, expected, most_rows);
  }
}

TEST_CASE("multiply_tile: rows longer than a panel go on from the sums of the panel before", "[kernels]") {
  for (const StoredType& type : StoredTypes()) {
    if (!type.quantized) continue;
    for (const std::uint64_t cols : std::initializer_list<std::uint64_t>{type.block, 1536 + 256, 2048, 2048 + 256, 5632}) {
      Random random(cols);
      const Matrix matrix(type, 19, cols, random, Scales::kExtreme);
      const Activations x(7, cols, random, Fill::kRandom);
      Compare(type, matrix, 19, cols, x, 7, OneByOne(type, matrix, 19, cols, x), 19);
    }
  }
}

// Every byte, so every pair of neighbouring integers at the ends of their range, and every sign pattern of the quarters of a block: the
// largest sums of either sign that 16 bits must hold.
TEST_CASE("multiply_tile: integers stay exact at the ends of their range", "[kernels]") {
  for (const StoredType& type : StoredTypes()) {
    if (!type.quantized) continue;
    const std::uint64_t cols = 4 * 256;
    for (const int byte : {0x00, 0xff, 0x0f, 0xf0, 0x80, 0x7f, 0x01, 0xfe}) {
      Random random(static_cast<std::uint64_t>(byte) + 1);
      Matrix matrix(type, 5, cols, random, Scales::kUsual);
      Saturate(type, matrix, static_cast<std::uint8_t>(byte));
      const Activations x(9, cols, random, Fill::kLargest);
      Compare(type, matrix, 5, cols, x, 9, OneByOne(type, matrix, 5, cols, x), 5);
    }
  }
}

TEST_CASE("multiply_tile: exists exactly where dot_rows_q8 does", "[kernels]") {
  for (const kernels::Table* table : Tables())
    for (std::uint32_t type = 0; type < kernels::kTypes; ++type)
      CHECK((table->multiply_tile[type] != nullptr) == (table->dot_rows_q8[type] != nullptr));
}

TEST_CASE("pack_activations: columns, scales and sums of four tokens, zeros for those that lack", "[kernels]") {
  Random random(3);
  const Activations x(3, 64, random, Fill::kRandom);
  const kernels::QuantizedActivations view = x.View();
  for (const kernels::Table* table : Tables()) {
    INFO(table->isa);
    const bool neighbours = std::string(table->isa) == "avx512";
    const std::vector<PackedBlock> packed = x.Packed(*table, 3, 2);
    for (std::uint64_t b = 0; b < 2; ++b) {
      for (std::uint32_t t = 0; t < kPackedTokens; ++t) {
        int halves[2] = {}, first[2] = {};
        for (std::uint64_t c = 0; c < 32; ++c) {
          const std::int8_t q = t < 3 ? view.q[t * view.q_stride + 32 * b + c] : std::int8_t{0};
          CHECK((neighbours ? packed[b].q[c / 4][t][c % 4] : packed[b].q[c % 16 / 2][t][2 * (c / 16) + c % 2]) == q);
          halves[c / 16] += q;
          if (c % 16 < 8) first[c / 16] += q;
        }
        CHECK(packed[b].d[t] == (t < 3 ? view.d[t * view.block_stride + b] : 0.0f));
        CHECK(packed[b].sum[t] == halves[0] + halves[1]);
        for (int h = 0; h < 2; ++h) {
          CHECK(packed[b].half[t][h] == halves[h]);
          CHECK(packed[b].first_steps[t][h] == first[h]);
        }
      }
    }
  }
}

}  // namespace veneer::kernels_test
