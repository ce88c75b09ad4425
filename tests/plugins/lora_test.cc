// lora: the arithmetic against an f64 oracle built from the definition in DESIGN 5, and what the kind refuses.
#include <cmath>
#include <cstring>

#include "tests/plugins/harness.h"
#include "tests/support/catch.h"

using namespace plugin_test;

namespace {

// W + c B A with c = float(w s), in f64.
std::vector<double> Edited(const std::vector<float>& w, const Stored& a, const Stored& b, float c) {
  const std::uint64_t r = a.dims[0], in = a.dims[1], out = b.dims[0];
  std::vector<double> edited(w.begin(), w.end());
  for (std::uint64_t o = 0; o < out; ++o)
    for (std::uint64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (std::uint64_t u = 0; u < r; ++u) sum += b.values[o * r + u] * a.values[u * in + i];
      edited[o * in + i] += static_cast<double>(c) * sum;
    }
  return edited;
}

Tensors Factors(std::mt19937& rng, std::uint64_t out, std::uint64_t in, std::uint64_t r, std::uint32_t a_type, std::uint32_t b_type) {
  return {{"A", Random(rng, a_type, {r, in}, 0.5)}, {"B", Random(rng, b_type, {out, r}, 0.3)}};
}

constexpr std::uint32_t kTypes[] = {VNR_F32, VNR_F16, VNR_BF16};

}  // namespace

TEST_CASE("lora: y is within 16 units of the f64 oracle for every shape, rank, token count and factor type (num-oracle)") {
  std::mt19937 rng(20261130);
  int cases = 0;
  for (const auto& [out, in] : {std::pair<std::uint64_t, std::uint64_t>{1, 1},
                                {2, 3},
                                {3, 2},
                                {7, 8},
                                {8, 7},
                                {31, 33},
                                {32, 32},
                                {33, 31},
                                {64, 100},
                                {127, 64},
                                {256, 127},
                                {100, 256},
                                {200, 1000}})
    for (const std::uint64_t r : {1U, 2U, 5U, 16U, 64U})
      for (const std::uint32_t tokens : {1U, 2U, 3U, 7U, 8U, 33U}) {
        const std::uint32_t a_type = kTypes[cases % 3], b_type = kTypes[cases / 3 % 3];
        ++cases;
        const Tensors factors = Factors(rng, out, in, r, a_type, b_type);
        const std::vector<float> w = RandomFloats(rng, out * in), x = RandomFloats(rng, tokens * in);
        TestHost host;
        Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, factors, {{"/scale", 2.0}, {"/strength", 0.7}});
        REQUIRE(binding.Ready());
        const std::vector<float> y = Apply(binding, x, BaseProduct(w, x, out, in, tokens), tokens);
        const auto edited = Edited(w, factors.at("A"), factors.at("B"), static_cast<float>(0.7 * 2.0));
        const double units = OracleUnits(y, w, edited, x, out, in, tokens, binding.program.amplification);
        INFO("out " << out << " in " << in << " r " << r << " tokens " << tokens << " types " << a_type << " " << b_type);
        REQUIRE(units <= 16);
      }
}

TEST_CASE("lora: one-hot x gives the columns of weight_rows, and those are W + w s B A (num-onehot)") {
  std::mt19937 rng(7);
  const std::uint64_t out = 37, in = 19, r = 3;
  for (const std::uint32_t type : kTypes) {
    const Tensors factors = Factors(rng, out, in, r, type, type);
    const std::vector<float> w = RandomFloats(rng, out * in);
    TestHost host;
    Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, factors, {{"/scale", 0.5}, {"/strength", -1.5}});
    REQUIRE(binding.Ready());
    const std::vector<float> rows = binding.Weights(w);
    const std::vector<double> edited = Edited(w, factors.at("A"), factors.at("B"), -0.75F);
    for (std::uint64_t i = 0; i < out * in; ++i) {
      // One rounding of the sum, and the sum itself in f64.
      REQUIRE(std::abs(static_cast<double>(rows[i]) - edited[i]) <= 0x1p-24 * std::abs(edited[i]) + 1e-12);
    }
    std::vector<float> x(in * in, 0.0F);
    for (std::uint64_t i = 0; i < in; ++i) x[i * in + i] = 1.0F;
    const std::vector<float> y = Apply(binding, x, BaseProduct(w, x, out, in, in), static_cast<std::uint32_t>(in));
    for (std::uint64_t i = 0; i < in; ++i)
      for (std::uint64_t o = 0; o < out; ++o) {
        const double before = static_cast<double>(w[o * in + i]), after = edited[o * in + i];
        REQUIRE(std::abs(static_cast<double>(y[i * out + o]) - after) <= 16 * 0x1p-24 * (std::abs(before) + 16 * std::abs(after - before)));
      }
  }
}

TEST_CASE("lora: strength 0, scale 0 and zero factors leave every bit of y, -0 included, and keep no memory (num-zero)") {
  std::mt19937 rng(11);
  const std::uint64_t out = 70, in = 40, r = 4;
  Tensors factors = Factors(rng, out, in, r, VNR_F32, VNR_F16);
  const std::vector<float> x = RandomFloats(rng, in);
  std::vector<float> y0 = RandomFloats(rng, out);
  y0[3] = -0.0F;
  y0[69] = -0.0F;
  const auto check = [&](const Tensors& tensors, const Params& params) {
    TestHost host;
    Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, tensors, params);
    const std::uint64_t bound = host.live_bytes();
    REQUIRE(binding.Ready());
    CHECK(host.live_bytes() == bound);
    CHECK(binding.program.flags == 0);
    const std::vector<float> y = Apply(binding, x, y0, 1);
    CHECK(std::memcmp(y.data(), y0.data(), out * sizeof(float)) == 0);
    const std::vector<float> w = RandomFloats(rng, out * in);
    CHECK(binding.Weights(w) == w);
  };
  check(factors, {{"/scale", 2.0}, {"/strength", 0.0}});
  check(factors, {{"/scale", 0.0}, {"/strength", 1.0}});
  Tensors zero = factors;
  zero["B"] = Store(VNR_F16, {out, r}, std::vector<double>(out * r, -0.0));
  check(zero, {{"/scale", 2.0}, {"/strength", 1.0}});
  zero = factors;
  zero["A"] = Store(VNR_BF16, {r, in}, std::vector<double>(r * in, 0.0));
  check(zero, {{"/scale", 2.0}, {"/strength", 1.0}});
}

TEST_CASE("lora: the program is linear in x (num-linear)") {
  std::mt19937 rng(13);
  const std::uint64_t out = 48, in = 64, r = 8;
  const Tensors factors = Factors(rng, out, in, r, VNR_F16, VNR_F16);
  TestHost host;
  Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, factors, {{"/scale", 1.0}});
  REQUIRE(binding.Ready());
  const std::vector<float> zero(out, 0.0F), x = RandomFloats(rng, in), z = RandomFloats(rng, in);
  const float a = 0.75F, b = -1.5F;  // exact in f32
  std::vector<float> mixed(in), both(in);
  for (std::uint64_t i = 0; i < in; ++i) mixed[i] = a * x[i] + b * z[i];
  const auto px = Apply(binding, x, zero, 1), pz = Apply(binding, z, zero, 1), pm = Apply(binding, mixed, zero, 1);
  const std::vector<float> none(out * in, 0.0F);
  const auto delta = Edited(none, factors.at("A"), factors.at("B"), 1.0F);
  for (std::uint64_t o = 0; o < out; ++o) {
    double magnitude = 0;
    for (std::uint64_t i = 0; i < in; ++i)
      magnitude += std::abs(delta[o * in + i]) * (std::abs(static_cast<double>(a * x[i])) + std::abs(static_cast<double>(b * z[i])));
    const double expected = static_cast<double>(a) * static_cast<double>(px[o]) + static_cast<double>(b) * static_cast<double>(pz[o]);
    CHECK(std::abs(static_cast<double>(pm[o]) - expected) <= 3 * 16 * 16 * 0x1p-24 * magnitude);
  }
  for (const float value : Apply(binding, std::vector<float>(in, 0.0F), zero, 1)) CHECK(value == 0.0F);
}

TEST_CASE("lora: a bias of B is scaled like the weights and given to a site without a bias (num-bias)") {
  std::mt19937 rng(17);
  const std::uint64_t out = 21, in = 8, r = 2;
  Tensors factors = Factors(rng, out, in, r, VNR_F32, VNR_F32);
  factors["bias"] = Random(rng, VNR_F16, {out});
  TestHost host;
  Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, factors, {{"/scale", 4.0}, {"/strength", 0.3}});
  REQUIRE(binding.Ready());
  CHECK((binding.program.flags & VNR_EDITS_BIAS) != 0);
  const auto c = static_cast<double>(static_cast<float>(0.3 * 4.0));
  const std::vector<float> old = RandomFloats(rng, out), gained = binding.Bias(std::vector<float>(out, 0.0F)), edited = binding.Bias(old);
  for (std::uint64_t o = 0; o < out; ++o) {
    const double add = c * factors.at("bias").values[o];
    CHECK(gained[o] == static_cast<float>(add));
    CHECK(edited[o] == static_cast<float>(static_cast<double>(old[o]) + add));
  }
  // apply must not touch the bias part: y of x = 0 stays what it was.
  const std::vector<float> y0 = RandomFloats(rng, out);
  CHECK(Apply(binding, std::vector<float>(in, 0.0F), y0, 1) == y0);

  TestHost off_host;
  Binding off(off_host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, factors, {{"/scale", 4.0}, {"/strength", 0.0}});
  REQUIRE(off.Ready());
  CHECK((off.program.flags & VNR_EDITS_BIAS) == 0);
  CHECK(off.Bias(old) == old);
}

TEST_CASE("lora: an embedding row t gains w s B A[:, t], for the first, last and repeated ids (num-embed)") {
  std::mt19937 rng(19);
  const std::uint64_t vocab = 50, width = 37, r = 5;
  for (const std::uint32_t type : kTypes) {
    const Tensors factors = {{"embedding_A", Random(rng, type, {r, vocab}, 0.5)}, {"embedding_B", Random(rng, type, {width, r}, 0.5)}};
    const Stored &a = factors.at("embedding_A"), &b = factors.at("embedding_B");
    TestHost host;
    Binding binding(host, StaticKind("lora"), {VNR_SITE_EMBEDDING, vocab, width}, factors, {{"/scale", 1.5}, {"/strength", 2.0}});
    REQUIRE(binding.Ready());
    const std::vector<std::int32_t> ids = {0, 49, 7, 7, 0, 13};
    const std::vector<float> table = RandomFloats(rng, vocab * width);
    std::vector<float> rows;
    for (const std::int32_t id : ids) rows.insert(rows.end(), table.begin() + id * 37, table.begin() + (id + 1) * 37);
    const std::vector<float> y = ApplyEmbedding(binding, ids, rows), edited = binding.Weights(table);
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::uint64_t k = 0; k < width; ++k) {
        const auto id = static_cast<std::uint64_t>(ids[t]);
        double delta = 0, magnitude = 0;
        for (std::uint64_t u = 0; u < r; ++u) {
          delta += 3.0 * b.values[k * r + u] * a.values[u * vocab + id];
          magnitude += 3.0 * std::abs(b.values[k * r + u] * a.values[u * vocab + id]);
        }
        const double exact = static_cast<double>(rows[t * width + k]) + delta;
        // g(r + 2) of the header, on the sum of magnitudes.
        CHECK(std::abs(static_cast<double>(y[t * width + k]) - exact) <=
              (r + 3) * 0x1p-24 * (std::abs(static_cast<double>(rows[t * width + k])) + magnitude));
        CHECK(std::abs(static_cast<double>(edited[id * width + k]) - exact) <= 0x1p-24 * std::abs(exact) + 1e-12);
      }
    CHECK(std::equal(y.begin() + 2 * 37, y.begin() + 3 * 37, y.begin() + 3 * 37));
  }
}

TEST_CASE("lora: a strength times scale beyond f32 is refused as NUMERIC before anything is staged") {
  std::mt19937 rng(23);
  TestHost host;
  const Tensors factors = Factors(rng, 8, 8, 2, VNR_F32, VNR_F32);
  const Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, 8, 8}, factors, {{"/scale", 1e5}, {"/strength", 1e38}});
  CHECK(binding.failure.code == VNR_E_NUMERIC);
  CHECK(binding.failure.text == "strength times scale is not finite in f32");
}

#if defined(VENEER_ONEDNN)
TEST_CASE("lora: in fast mode oneDNN takes part for f32 factors of enough work, within 16 units, for any number of threads (det-threads)") {
  std::mt19937 rng(67);
  const std::uint64_t out = 70, in = 1030, r = 33;
  const std::uint32_t tokens = 45;  // blocks of 32 and 13: calls of 8, the rest by the kernels
  const Tensors factors = Factors(rng, out, in, r, VNR_F32, VNR_F16);
  const std::vector<float> w = RandomFloats(rng, out * in), x = RandomFloats(rng, tokens * in), y0 = BaseProduct(w, x, out, in, tokens);
  TestHost host;
  Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, factors, {{"/scale", 1.25}});
  binding.limits.min_det = 1;
  REQUIRE(binding.Ready());
  CHECK((binding.program.flags & VNR_ALLOCATES_FOR_TOKENS) != 0);
  CHECK(binding.program.det_level == 1);
  CHECK(binding.cost.opaque_bytes > 0);
  CHECK(host.live_bytes() == binding.cost.shared_bytes + binding.cost.resident_bytes);
  const std::vector<float> y = Apply(binding, x, y0, tokens);
  CHECK(OracleUnits(y, w, Edited(w, factors.at("A"), factors.at("B"), 1.25F), x, out, in, tokens, binding.program.amplification) <= 16);
  for (const std::uint32_t threads : {2U, 3U, 8U}) CHECK(Apply(binding, x, y0, tokens, {.threads = threads}) == y);
  // One token never goes there: the bits of exact mode, however its units are cut.
  TestHost exact_host;
  Binding exact(exact_host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, factors, {{"/scale", 1.25}});
  REQUIRE(exact.Ready());
  CHECK(exact.program.det_level == 2);
  CHECK((exact.program.flags & VNR_ALLOCATES_FOR_TOKENS) == 0);
  CHECK(exact.cost.opaque_bytes == 0);
  const std::vector<float> alone = Apply(exact, x, y0, tokens, {.tokens_at_once = 1});
  CHECK(Apply(binding, x, y0, tokens, {.tokens_at_once = 1, .units_at_once = 5}) == alone);
  CHECK(y != alone);  // so oneDNN did take part
}
#endif

TEST_CASE("lora: fast mode stays with its own kernels, at D2, where oneDNN is not faster or would need a copy of A") {
  std::mt19937 rng(71);
  for (const auto& [in, r, type] :
       {std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>{1024, 16, VNR_F32}, {4096, 16, VNR_F16}, {4096, 16, VNR_BF16}}) {
    TestHost host;
    Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, 8, in}, Factors(rng, 8, in, r, type, type), {});
    binding.limits.min_det = 1;
    REQUIRE(binding.Ready());
    CHECK(binding.program.det_level == 2);
    CHECK(binding.program.flags == VNR_ADDS_Y);
    CHECK(binding.cost.opaque_bytes == 0);
  }
}
