// sparse-delta: the arithmetic against a dense f64 oracle built from the definition in DESIGN 5, the order of its sums, and its files.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "tests/plugins/sparse_delta_matrix.h"
#include "tests/support/catch.h"

using namespace plugin_test;

namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// W + c S with c = float(w s), in f64.
std::vector<double> Edited(const std::vector<float>& w, const SparseMatrix& s, float c) {
  std::vector<double> edited(w.begin(), w.end());
  for (const auto& entry : s.entries) edited[entry.row * s.in + entry.column] += static_cast<double>(c) * entry.value;
  return edited;
}

constexpr std::uint32_t kTypes[] = {VNR_F32, VNR_F16, VNR_BF16};
constexpr std::uint32_t kIndexTypes[] = {VNR_I32, VNR_U32, VNR_I64, VNR_F32};

}  // namespace

TEST_CASE("sparse-delta: y is within 16 units of the f64 oracle for every shape, density, token count, form and type (num-oracle)") {
  std::mt19937 rng(20261130);
  int cases = 0;
  for (const auto& [out, in] : {std::pair<std::uint64_t, std::uint64_t>{1, 1},
                                {2, 3},
                                {3, 2},
                                {7, 8},
                                {8, 7},
                                {31, 33},
                                {33, 31},
                                {64, 100},
                                {127, 64},
                                {100, 257},
                                {5, 1000}})
    for (const double density : {0.0, 0.02, 0.3, 1.0})
      for (const std::uint32_t tokens : {1U, 2U, 3U, 8U, 9U, 64U}) {
        const std::uint32_t type = kTypes[cases % 3], index_type = kIndexTypes[cases / 3 % 4];
        const bool is_csr = cases++ % 2 == 0;
        const SparseMatrix s = SparseMatrix::Random(rng, out, in, density, type);
        const std::vector<float> w = RandomFloats(rng, out * in), x = RandomFloats(rng, tokens * in);
        TestHost host;
        Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, out, in},
                        is_csr ? s.Csr(index_type == VNR_F32 ? std::uint32_t{VNR_I32} : index_type, VNR_I64) : s.Coo(index_type),
                        {{"/scale", 2.0}, {"/strength", -0.7}});
        INFO("out " << out << " in " << in << " density " << density << " tokens " << tokens << " types " << type << " " << index_type);
        INFO(binding.failure.text);
        REQUIRE(binding.Ready());
        REQUIRE(binding.program.det_level == 2);
        const std::vector<float> y = Apply(binding, x, BaseProduct(w, x, out, in, tokens), tokens);
        const auto edited = Edited(w, s, static_cast<float>(-0.7 * 2.0));
        REQUIRE(OracleUnits(y, w, edited, x, out, in, tokens, binding.program.amplification) <= 16);
        const std::vector<float> rows = binding.Weights(w);
        for (std::uint64_t i = 0; i < out * in; ++i) REQUIRE(rows[i] == static_cast<float>(edited[i]));
      }
  CHECK(cases == 264);
}

TEST_CASE("sparse-delta: one-hot x gives the columns of weight_rows (num-onehot)") {
  std::mt19937 rng(7);
  const std::uint64_t out = 37, in = 19;
  const SparseMatrix s = SparseMatrix::Random(rng, out, in, 0.4, VNR_F16);
  TestHost host;
  Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, out, in}, s.Coo(VNR_I32), {{"/strength", 0.5}});
  REQUIRE(binding.Ready());
  const std::vector<float> w = RandomFloats(rng, out * in), rows = binding.Weights(w);
  std::vector<float> x(in * in, 0.0F);
  for (std::uint64_t i = 0; i < in; ++i) x[i * in + i] = 1.0F;
  const std::vector<float> y = Apply(binding, x, BaseProduct(w, x, out, in, in), static_cast<std::uint32_t>(in));
  for (std::uint64_t i = 0; i < in; ++i)
    for (std::uint64_t o = 0; o < out; ++o) CHECK(y[i * out + o] == rows[o * in + i]);  // one product, one rounding each
}

TEST_CASE("sparse-delta: scalar and AVX2, every token count, tile, thread count and alignment give the bits of the order in product.h") {
  std::mt19937 rng(11);
  const std::uint32_t tokens = 61;  // blocks of 16 and 8 and single ones
  for (const std::uint32_t type : kTypes)
    for (const auto& [out, in, density] :
         {std::tuple<std::uint64_t, std::uint64_t, double>{203, 93, 0.05}, {64, 130, 0.6}, {9, 65'537, 0.001}}) {
      INFO("type " << type << " in " << in);
      const SparseMatrix s = SparseMatrix::Random(rng, out, in, density, type);
      const std::vector<float> x = RandomFloats(rng, tokens * in), y0 = RandomFloats(rng, tokens * out);
      // The documented order, from its definition.
      const float c = 1.25F;
      std::vector<float> expected = y0;
      for (std::uint32_t t = 0; t < tokens; ++t)
        for (std::uint64_t o = 0; o < out; ++o) {
          float partial[4] = {};
          std::uint64_t k = 0;
          for (const auto& entry : s.entries)
            if (entry.row == o) {
              float& sum = partial[k++ % 4];
              sum = std::fma(static_cast<float>(entry.value), x[t * in + entry.column], sum);
            }
          float& y = expected[t * out + o];
          if (k > 0) y = std::fma(c, (partial[0] + partial[2]) + (partial[1] + partial[3]), y);
        }
      for (const std::uint64_t features : {std::uint64_t{0}, TestHost().raw()->cpu_features}) {
        TestHost host;
        host.set_cpu_features(features);
        Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, out, in}, s.Csr(VNR_I32, VNR_I64), {{"/scale", 1.25}});
        REQUIRE(binding.Ready());
        for (const std::uint32_t at_once : {1U, 2U, 3U, 8U, 9U, 16U, 24U, 31U, 64U})
          CHECK(SameBits(Apply(binding, x, y0, tokens, {.tokens_at_once = at_once}), expected));
        for (const std::uint64_t tile : {1U, 24U, 72U, 1000U})
          CHECK(SameBits(Apply(binding, x, y0, tokens, {.tile = tile, .x_offset = 3, .y_offset = 5, .padding = 13}), expected));
        for (const std::uint32_t threads : {2U, 7U})
          CHECK(SameBits(Apply(binding, x, y0, tokens, {.tile = 16, .tokens_at_once = 25, .threads = threads}), expected));
      }
    }
}

TEST_CASE("sparse-delta: products that underflow to -0 and sums of -0 are the same bits with and without AVX2") {
  // Two rows of one to seven entries that underflow, over y of -0.
  SparseMatrix s{16, 8, VNR_F32, {}};
  for (std::uint64_t row = 0; row < 14; ++row)
    for (std::uint64_t column = 0; column <= row % 7; ++column) s.entries.push_back({row, column, row < 7 ? -1e-30 : 1e-30});
  const std::uint32_t tokens = 25;
  const std::vector<float> x(tokens * 8, 1e-30F), y0(tokens * 16, -0.0F);
  std::vector<float> results[2];
  for (const int is_fast : {0, 1}) {
    TestHost host;
    if (is_fast == 0) host.set_cpu_features(0);
    Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, 16, 8}, s.Csr(), {});
    REQUIRE(binding.Ready());
    results[is_fast] = Apply(binding, x, y0, tokens);
  }
  CHECK(SameBits(results[0], results[1]));
  for (std::uint32_t t = 0; t < tokens; ++t)
    for (const std::uint64_t lane : {14U, 15U}) CHECK(std::signbit(results[1][t * 16 + lane]));  // rows without entries
}

TEST_CASE(
    "sparse-delta: strength 0, scale 0, zero values and no entries leave every bit of y, -0 included, and keep no memory (num-zero)") {
  std::mt19937 rng(13);
  const std::uint64_t out = 70, in = 40;
  const SparseMatrix s = SparseMatrix::Random(rng, out, in, 0.1, VNR_F16);
  SparseMatrix zero = s, negative_zero = s;
  for (auto& entry : zero.entries) entry.value = 0;
  for (auto& entry : negative_zero.entries) entry.value = -0.0;
  const SparseMatrix empty{out, in, VNR_BF16, {}};
  const std::vector<float> x = RandomFloats(rng, in), w = RandomFloats(rng, out * in);
  std::vector<float> y0 = RandomFloats(rng, out);
  y0[3] = y0[69] = -0.0F;
  const auto check = [&](const Tensors& tensors, const Params& params) {
    TestHost host;
    Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, out, in}, tensors, params);
    const std::uint64_t bound = host.live_bytes();
    REQUIRE(binding.Ready());
    CHECK(host.live_bytes() == bound);
    CHECK(host.peak_bytes() == bound);
    CHECK(binding.program.flags == 0);
    CHECK(binding.program.prepared_bytes_per_token == 0);
    CHECK(SameBits(Apply(binding, x, y0, 1), y0));
    CHECK(binding.Weights(w) == w);
    CHECK(binding.Bias(y0) == y0);
  };
  check(s.Csr(), {{"/scale", 2.0}, {"/strength", 0.0}});
  check(s.Shuffled(rng).Coo(VNR_I64), {{"/scale", 0.0}});
  check(zero.Coo(VNR_I32), {});
  check(negative_zero.Csr(), {});
  check(empty.Csr(), {});
  check(empty.Coo(VNR_F32), {});
}

TEST_CASE("sparse-delta: rows without entries keep every bit of y beside rows that have some") {
  std::mt19937 rng(17);
  const std::uint64_t out = 83, in = 50;
  SparseMatrix s = SparseMatrix::Random(rng, out, in, 0.3, VNR_F32);
  std::erase_if(s.entries, [](const auto& entry) { return entry.row % 3 == 1; });
  for (const std::uint32_t tokens : {1U, 8U, 16U, 29U}) {
    TestHost host;
    Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, out, in}, s.Csr(), {});
    REQUIRE(binding.Ready());
    const std::vector<float> y0(tokens * out, -0.0F), y = Apply(binding, RandomFloats(rng, tokens * in), y0, tokens);
    for (std::uint64_t i = 0; i < y.size(); ++i) REQUIRE((y[i] == 0 && std::signbit(y[i])) == (i % out % 3 == 1));
  }
}

TEST_CASE("sparse-delta: any order of COO entries gives the bits of the sorted one, in memory that the estimate told (budget-honest)") {
  std::mt19937 rng(19);
  const std::uint64_t out = 41, in = 67;
  const SparseMatrix s = SparseMatrix::Random(rng, out, in, 0.2, VNR_BF16);
  const std::vector<float> x = RandomFloats(rng, 20 * in), y0 = RandomFloats(rng, 20 * out);
  const std::uint64_t n = s.entries.size();
  std::vector<float> sorted;
  for (const std::uint32_t type : kIndexTypes)
    for (const bool is_shuffled : {false, true}) {
      TestHost host;
      Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, out, in}, (is_shuffled ? s.Shuffled(rng) : s).Coo(type), {});
      const std::uint64_t bound = host.live_bytes();
      REQUIRE(binding.Ready());
      CHECK(host.live_bytes() == binding.cost.shared_bytes + binding.cost.resident_bytes);
      CHECK(host.peak_bytes() == binding.cost.shared_bytes + binding.cost.stage_peak_bytes);
      CHECK(host.live_bytes() - bound == (out + 1) * 4 + (n + 4) * (2 + 2));  // row_ptr; u16 columns and bf16 values, four more of each
      CHECK(binding.cost.stage_peak_bytes - binding.cost.resident_bytes == (is_shuffled ? n * 4 : 0));
      const std::vector<float> y = Apply(binding, x, y0, 20);
      if (sorted.empty()) sorted = y;
      CHECK(SameBits(y, sorted));
    }
}

TEST_CASE("sparse-delta: columns beyond 65536 take four bytes, up to it two") {
  std::mt19937 rng(23);
  for (const std::uint64_t in : {65'536U, 65'537U}) {
    SparseMatrix s{3, in, VNR_F32, {{0, 0, 1.0}, {1, in - 1, 2.0}, {2, 5, 3.0}, {2, in - 1, 4.0}}};
    TestHost host;
    Binding binding(host, StaticKind("sparse-delta"), {VNR_SITE_LINEAR, 3, in}, s.Csr(), {});
    const std::uint64_t bound = host.live_bytes();
    REQUIRE(binding.Ready());
    CHECK(host.live_bytes() - bound == 4 * 4 + 8 * (4 + (in == 65'536 ? 2U : 4U)));
    std::vector<float> x(9 * in, 0.0F);
    for (std::uint64_t t = 0; t < 9; ++t) {
      x[t * in] = 1;
      x[t * in + 5] = 10;
      x[t * in + in - 1] = 100;
    }
    const std::vector<float> y = Apply(binding, x, std::vector<float>(27, 0.5F), 9);
    for (std::uint64_t t = 0; t < 9; ++t) {
      CHECK(y[t * 3] == 1.5F);
      CHECK(y[t * 3 + 1] == 200.5F);
      CHECK(y[t * 3 + 2] == 430.5F);
    }
  }
}
