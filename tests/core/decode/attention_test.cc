#include "core/decode/attention.h"

#include <cmath>

#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

TEST_CASE("rope table: cos and sin of pos * base^(-2i/d) / factor_i, correctly rounded far from the origin too") {
  ModelConfig config;
  config.head_dim = 8;
  config.rope_base = 500000;
  config.rope_factors = {1, 1, 4, 4};
  RopeTable table(config, 2);
  table.Fill(100000, 2);
  // Pair 3 of head_dim 8: base^(-6/8), factor 4.
  const double theta = 100001.0 * std::pow(500000.0, -0.75) / 4;
  CHECK(table.cos(1)[3] == static_cast<float>(std::cos(theta)));
  CHECK(table.sin(1)[3] == static_cast<float>(std::sin(theta)));
  CHECK(table.cos(0)[0] == static_cast<float>(std::cos(100000.0)));  // pair 0 turns by the position itself
  CHECK(table.sin(1)[0] == static_cast<float>(std::sin(100001.0)));
}

TEST_CASE("rope table: linear scaling divides the angle") {
  ModelConfig config;
  config.head_dim = 4;
  config.rope_frequency_scale = 0.25F;
  RopeTable table(config, 1);
  table.Fill(8, 1);
  CHECK(table.cos(0)[0] == static_cast<float>(std::cos(2.0)));
}

TEST_CASE("attention: the norm of a head gives the same bits in place, under every instruction set and for any head size") {
  const auto runnable = kernels::Runnable();
  for (std::size_t i = 0; i < runnable.count; ++i)
    for (const std::uint64_t n : {2U, 12U, 48U, 64U, 130U}) {
      const std::vector<float> x = Uniform(n, 3, 5), weight = Uniform(n, 1, 6);
      std::vector<float> apart(n), in_place = x;
      runnable.tables[i]->rms_norm(x.data(), weight.data(), 1e-5F, n, apart.data());
      runnable.tables[i]->rms_norm(in_place.data(), weight.data(), 1e-5F, n, in_place.data());
      CHECK(in_place == apart);
    }
}

TEST_CASE("attention: a token sees itself and what came before, never what comes after") {
  const Stack stack(OpenTiny());
  const auto staged = stack.Stage(ComputeMode::kExact);
  const std::vector<TokenId> tokens = {5, 9, 14, 200}, other_end = {5, 9, 14, 250};
  const std::vector<float> a = LogitsOf(*MakeDecoder(staged), tokens), b = LogitsOf(*MakeDecoder(staged), other_end);
  const auto vocab = static_cast<std::ptrdiff_t>(stack.base().config().vocab);
  CHECK(std::equal(a.begin(), a.begin() + 3 * vocab, b.begin()));
  CHECK_FALSE(std::equal(a.begin() + 3 * vocab, a.end(), b.begin() + 3 * vocab));
}

TEST_CASE("attention: keys and values in f16 change logits by no more than their rounding can") {
  const Stack stack(OpenTiny({.matrix_type = VNR_F32, .embedding_type = VNR_F32}));  // so that fast mode computes in f32 otherwise
  const auto staged = stack.Stage(ComputeMode::kFast);
  const std::vector<TokenId> tokens = SomeTokens(60, stack.base().config().vocab);
  const std::vector<float> half = LogitsOf(*MakeDecoder(staged, {.kv = KvType::kF16}), tokens);
  const std::vector<float> full = LogitsOf(*MakeDecoder(staged, {.kv = KvType::kF32}), tokens);
  double worst = 0, squares = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(half[i]) - static_cast<double>(full[i])));
    squares += static_cast<double>(full[i]) * static_cast<double>(full[i]);
  }
  const double deviation = std::sqrt(squares / static_cast<double>(full.size()));
  CHECK(worst > 0);
  // Each stored number is off by at most 2^-11 of itself; two layers, K and V, and the norms between pass it on about once each.
  CHECK(worst <= 2 * 2 * 2 * 0x1p-11 * 4 * deviation);
}

}  // namespace
}  // namespace veneer
