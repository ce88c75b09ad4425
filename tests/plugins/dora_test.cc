// The standing test of the boundary: a kind that the project does not know, written with the wrapper by "somebody else".
#include <cmath>

#include "tests/plugins/harness.h"
#include "tests/plugins/kinds.h"
#include "tests/support/catch.h"

using namespace plugin_test;

namespace {

// W + w (diag(m / |W + s B A|) (W + s B A) - W), in f64.
std::vector<double> Edited(const std::vector<float>& base, const Tensors& tensors, double s, double w) {
  const Stored &a = tensors.at("A"), &b = tensors.at("B"), &m = tensors.at("m");
  const std::uint64_t r = a.dims[0], in = a.dims[1], out = b.dims[0];
  std::vector<double> edited(out * in), row(in);
  for (std::uint64_t o = 0; o < out; ++o) {
    double norm = 0;
    for (std::uint64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (std::uint64_t u = 0; u < r; ++u) sum += b.values[o * r + u] * a.values[u * in + i];
      row[i] = static_cast<double>(base[o * in + i]) + s * sum;
      norm += row[i] * row[i];
    }
    const double g = m.values[o] / std::sqrt(norm);
    for (std::uint64_t i = 0; i < in; ++i) {
      const auto before = static_cast<double>(base[o * in + i]);
      edited[o * in + i] = before + w * (g * row[i] - before);
    }
  }
  return edited;
}

}  // namespace

TEST_CASE("dora sample: numbers stay within 16 units of the f64 oracle at full and partial strength (num-oracle)") {
  std::mt19937 rng(43);
  for (const double w : {1.0, 0.5, -0.25})
    for (const auto& [out, in] : {std::pair<std::uint64_t, std::uint64_t>{1, 2}, {7, 33}, {64, 64}, {100, 257}})
      for (const std::uint64_t r : {1U, 4U, 32U}) {
        const Tensors tensors = {{"A", Random(rng, VNR_F16, {r, in}, 0.5)},
                                 {"B", Random(rng, VNR_F32, {out, r}, 0.3)},
                                 {"m", Random(rng, VNR_BF16, {out}, 3.0)}};
        const std::vector<float> base = RandomFloats(rng, out * in), x = RandomFloats(rng, 3 * in);
        TestHost host;
        Binding binding(host, DoraKind(), {VNR_SITE_LINEAR, out, in}, tensors, {{"/scale", 2.0}, {"/strength", w}});
        REQUIRE(binding.Ready(&base));
        const std::vector<double> edited = Edited(base, tensors, 2.0, w);
        const std::vector<float> y = Apply(binding, x, BaseProduct(base, x, out, in, 3), 3);
        CHECK(OracleUnits(y, base, edited, x, out, in, 3, binding.program.amplification) <= 16);
        // weight_rows: the same kept and added parts, a few f32 roundings each, and the norm's n = in in between.
        const std::vector<float> rows = binding.Weights(base);
        for (std::uint64_t i = 0; i < out * in; ++i)
          CHECK(std::abs(static_cast<double>(rows[i]) - edited[i]) <=
                1e-5 * (1 + std::abs(static_cast<double>(base[i])) + std::abs(edited[i])));
        CHECK(binding.Bias(RandomFloats(rng, out)).size() == out);
        CHECK((binding.program.flags & (VNR_EDITS_BIAS | VNR_TRANSFORMS_X)) == 0);
      }
}

TEST_CASE("dora sample: a zero row gives NUMERIC at stage, not NaN later (num-norm-degenerate)") {
  std::mt19937 rng(47);
  const std::vector<float> base(6, 0.0F);
  const Tensors tensors = {
      {"A", Random(rng, VNR_F32, {1, 3})}, {"B", Store(VNR_F32, {2, 1}, {0.0, 0.0})}, {"m", Random(rng, VNR_F32, {2})}};
  TestHost host;
  Binding binding(host, DoraKind(), {VNR_SITE_LINEAR, 2, 3}, tensors, {{"/scale", 1.0}});
  CHECK_FALSE(binding.Ready(&base));
  CHECK(binding.failure.code == VNR_E_NUMERIC);
  CHECK(binding.failure.text == "zero or non-finite row norm");
}
