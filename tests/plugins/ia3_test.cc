// ia3: both forms against the definition in DESIGN 5.
#include <cmath>
#include <cstring>

#include "tests/plugins/harness.h"
#include "tests/support/catch.h"

using namespace plugin_test;

namespace {

// l_w = 1 + w (l - 1), rounded once.
std::vector<float> Scaled(const Stored& l, double w) {
  std::vector<float> out;
  for (const double value : l.values) out.push_back(static_cast<float>(1.0 + w * (value - 1.0)));
  return out;
}

}  // namespace

TEST_CASE("ia3: both forms stay within 16 units of the f64 oracle, and the bias is scaled in the output form only (num-oracle, num-bias)") {
  std::mt19937 rng(31);
  for (const std::uint32_t type : {VNR_F32, VNR_F16, VNR_BF16})
    for (const bool is_input : {true, false})
      for (const auto& [out, in] : {std::pair<std::uint64_t, std::uint64_t>{1, 1}, {3, 7}, {64, 63}, {65, 130}, {100, 64}})
        for (const std::uint32_t tokens : {1U, 3U, 33U}) {
          const Tensors tensors =
              is_input ? Tensors{{"l_in", Random(rng, type, {1, in}, 2.0)}} : Tensors{{"l_out", Random(rng, type, {out, 1}, 2.0)}};
          const std::vector<float> w = RandomFloats(rng, out * in), x = RandomFloats(rng, tokens * in), b = RandomFloats(rng, out);
          TestHost host;
          Binding binding(host, StaticKind("ia3"), {VNR_SITE_LINEAR, out, in}, tensors, {{"/strength", 0.6}});
          REQUIRE(binding.Ready());
          const std::vector<float> l = Scaled(tensors.begin()->second, 0.6);
          std::vector<double> edited(out * in);
          for (std::uint64_t o = 0; o < out; ++o)
            for (std::uint64_t i = 0; i < in; ++i)
              edited[o * in + i] = static_cast<double>(w[o * in + i]) * static_cast<double>(l[is_input ? i : o]);
          const std::vector<float> x0 = TransformX(binding, x, tokens);
          const std::vector<float> y = Apply(binding, x, BaseProduct(w, x0, out, in, tokens), tokens);
          const double units = OracleUnits(y, w, edited, x, out, in, tokens, binding.program.amplification);
          REQUIRE(units <= 16);
          const std::vector<float> rows = binding.Weights(w);
          for (std::uint64_t i = 0; i < out * in; ++i) CHECK(rows[i] == static_cast<float>(edited[i]));
          const std::vector<float> bias = binding.Bias(b);
          for (std::uint64_t o = 0; o < out; ++o) CHECK(bias[o] == (is_input ? b[o] : b[o] * l[o]));
          CHECK(((binding.program.flags & VNR_TRANSFORMS_X) != 0) == is_input);
          CHECK(((binding.program.flags & VNR_LANEWISE_T) != 0) == is_input);
          CHECK(((binding.program.flags & VNR_EDITS_BIAS) != 0) == !is_input);
        }
}

TEST_CASE("ia3: strength 0 leaves every bit, asks for no transform and keeps no memory (num-zero)") {
  std::mt19937 rng(37);
  for (const char* role : {"l_in", "l_out"}) {
    const bool is_input = std::strcmp(role, "l_in") == 0;
    const Tensors tensors = {
        {role, Random(rng, VNR_F32, is_input ? std::vector<std::uint64_t>{1, 20} : std::vector<std::uint64_t>{30, 1})}};
    TestHost host;
    Binding binding(host, StaticKind("ia3"), {VNR_SITE_LINEAR, 30, 20}, tensors, {{"/strength", 0.0}});
    const std::uint64_t bound = host.live_bytes();
    REQUIRE(binding.Ready());
    CHECK(host.live_bytes() == bound);
    CHECK(binding.program.flags == 0);
    std::vector<float> y0 = RandomFloats(rng, 30);
    y0[1] = -0.0F;
    const std::vector<float> y = Apply(binding, RandomFloats(rng, 20), y0, 1);
    CHECK(std::memcmp(y.data(), y0.data(), sizeof(float) * 30) == 0);
    const std::vector<float> w = RandomFloats(rng, 600);
    CHECK(binding.Weights(w) == w);
    CHECK(binding.Bias(y0) == y0);
  }
}

TEST_CASE("ia3: neither or both of l_in and l_out is refused and the message names both") {
  std::mt19937 rng(41);
  TestHost host;
  const Binding none(host, StaticKind("ia3"), {VNR_SITE_LINEAR, 4, 4}, {}, {});
  CHECK(none.failure.code == VNR_E_INVALID);
  CHECK(none.failure.text.find("l_in [1, in]") != std::string::npos);
  const Binding both(host, StaticKind("ia3"), {VNR_SITE_LINEAR, 4, 4},
                     {{"l_in", Random(rng, VNR_F32, {1, 4})}, {"l_out", Random(rng, VNR_F32, {4, 1})}}, {});
  CHECK(both.failure.code == VNR_E_INVALID);
  CHECK(both.failure.text.find("l_out [out, 1]") != std::string::npos);
}

TEST_CASE("ia3: a scale that overflows at its strength is refused at stage as NUMERIC, not NaN later (num-norm-degenerate)") {
  TestHost host;
  const Tensors tensors = {{"l_out", Store(VNR_F32, {2, 1}, {1.0, 1e38})}};
  Binding binding(host, StaticKind("ia3"), {VNR_SITE_LINEAR, 2, 4}, tensors, {{"/strength", 100.0}});
  CHECK_FALSE(binding.Ready());
  CHECK(binding.failure.code == VNR_E_NUMERIC);
  CHECK(binding.failure.text.find("element 1") != std::string::npos);
}
