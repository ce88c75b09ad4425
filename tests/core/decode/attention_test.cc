#include "core/decode/attention.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

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

// Heads [n_heads * d] turned to a position, in f64: pairs (i, i + d/2) by pos * base^(-2i/d).
std::vector<double> Turned(std::span<const float> heads, std::uint64_t d, double base, std::uint64_t position) {
  std::vector<double> out(heads.begin(), heads.end());
  for (std::size_t head = 0; head < heads.size(); head += d)
    for (std::size_t i = 0; i < d / 2; ++i) {
      const double theta = static_cast<double>(position) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      const double a = out[head + i], b = out[head + i + d / 2];
      out[head + i] = a * std::cos(theta) - b * std::sin(theta);
      out[head + i + d / 2] = b * std::cos(theta) + a * std::sin(theta);
    }
  return out;
}

// Half a step of the block that holds element i of a row: max|x| / 127, at most 2^-10 of it more for being a half (README of the kernels).
double HalfStep(std::span<const double> row, std::size_t i) {
  double largest = 0;
  for (std::size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) largest = std::max(largest, std::abs(row[j]));
  return largest / 127 * (1 + 0x1p-10) / 2;
}

// An error e_k of the keys moves each score by at most s_p = sum |q| e_k / sqrt(d), and so the weights by factors within exp(+-2 max s); an
// error e_v of the values moves the sum by sum w e_v. All f32 roundings (d / 32 + 5 of a score of at most sum |q k|, some of exp, one a
// position of the sum) stay below 1e-5 of the magnitudes here.
TEST_CASE("attention: keys and values in q8_0 move what a head sees by no more than half steps of their blocks can, against f64") {
  constexpr std::uint32_t kTokens = 90, kHeads = 6, kKvHeads = 2, kDim = 64;
  const Stack stack(OpenTiny({.hidden = 64, .n_heads = kHeads, .n_kv_heads = kKvHeads, .head_dim = kDim}));
  const ModelConfig& config = stack.base().config();
  const std::vector<float> q = Uniform(kTokens * kHeads * kDim, 2, 21), k = Uniform(kTokens * kKvHeads * kDim, 1.5F, 22),
                           v = Uniform(kTokens * kKvHeads * kDim, 3, 23);
  const auto row_of = [](std::span<const float> all, std::uint64_t width, std::uint64_t t) { return all.subspan(t * width, width); };
  const auto runnable = kernels::Runnable();
  std::vector<float> first_out;
  for (std::size_t table = 0; table < runnable.count; ++table) {
    auto cache = KvCache::Create(*stack.Stage(ComputeMode::kFast), kTokens, KvType::kQ8_0);
    REQUIRE(cache);
    Attention attention(config, kTokens, 1, *runnable.tables[table]);
    RopeTable rope(config, kTokens);
    rope.Fill(0, kTokens);
    ThreadPool pool(1);
    std::vector<float> q_in = q, k_in = k, v_in = v, out(q.size());
    pool.Run([&](std::uint32_t worker) {
      attention.Run(pool, worker, 1, {q_in.data(), k_in.data(), v_in.data(), out.data(), kTokens, 0}, {}, rope, *cache);
    });
    if (first_out.empty()) first_out = out;
    CHECK(out == first_out);  // every table the same bits

    double worst = 0;  // of what is allowed
    for (std::uint64_t t = 0; t < kTokens; ++t) {
      const std::vector<double> query = Turned(row_of(q, kHeads * kDim, t), kDim, static_cast<double>(config.rope_base), t);
      for (std::uint64_t head = 0; head < kHeads; ++head) {
        const std::size_t at = head * kDim, kv = head / (kHeads / kKvHeads) * kDim;
        std::vector<double> weights, expected(kDim), magnitude(kDim), value_error(kDim);
        double moved = 0, total = 0;
        for (std::uint64_t p = 0; p <= t; ++p) {
          const std::vector<double> key = Turned(row_of(k, kKvHeads * kDim, p), kDim, static_cast<double>(config.rope_base), p);
          double score = 0, error = 0;
          for (std::size_t i = 0; i < kDim; ++i) {
            score += query[at + i] * key[kv + i];
            error += std::abs(query[at + i]) * (HalfStep(key, kv + i) + 1e-5 * std::abs(key[kv + i]));
          }
          moved = std::max(moved, error / 8);  // sqrt(64)
          total += weights.emplace_back(std::exp(score / 8));
        }
        for (std::uint64_t p = 0; p <= t; ++p) {
          const auto stored = row_of(v, kKvHeads * kDim, p);
          const std::vector<double> value(stored.begin(), stored.end());
          for (std::size_t i = 0; i < kDim; ++i) {
            expected[i] += weights[p] / total * value[kv + i];
            magnitude[i] += weights[p] / total * std::abs(value[kv + i]);
            value_error[i] += weights[p] / total * HalfStep(value, kv + i);
          }
        }
        for (std::size_t i = 0; i < kDim; ++i) {
          const double factor = std::exp(2 * moved);
          const double allowed = (factor - 1 + 1e-5) * magnitude[i] + factor * value_error[i];
          worst = std::max(worst, std::abs(static_cast<double>(out[(t * kHeads + head) * kDim + i]) - expected[i]) / allowed);
        }
      }
    }
    CHECK(worst <= 1);
    CHECK(worst > 0.01);  // it is no f32 cache
  }
}

TEST_CASE("attention: keys and values in q8_0 change logits by no more than their rounding can") {
  const Stack stack(OpenTiny({.head_dim = 32, .matrix_type = VNR_F32, .embedding_type = VNR_F32}));
  const std::vector<TokenId> tokens = SomeTokens(60, stack.base().config().vocab);
  const std::vector<reference::Vector> exact = reference::Model(stack.base(), {}).Logits(tokens);
  const std::vector<float> stored = LogitsOf(*MakeDecoder(stack.Stage(ComputeMode::kFast), {.kv = KvType::kQ8_0}), tokens);
  double worst = 0, squares = 0;
  std::size_t i = 0;
  for (const reference::Vector& row : exact)
    for (const double value : row) {
      worst = std::max(worst, std::abs(static_cast<double>(stored[i++]) - value));
      squares += value * value;
    }
  REQUIRE(i == stored.size());
  const double deviation = std::sqrt(squares / static_cast<double>(i));
  // As above for f16, with 1/254 of the largest of 32 numbers in the place of 2^-11.
  CHECK(worst <= 2 * 2 * 2 / 254.0 * 4 * deviation);
  CHECK(worst > 2 * 0x1p-11 * deviation);
}

}  // namespace
}  // namespace veneer
