#include "core/decode/sampler.h"

#include <array>
#include <cmath>
#include <map>
#include <set>

#include "tests/support/catch.h"

namespace veneer {
namespace {

// Everything off but what a test sets.
SamplingOptions Plain() { return {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .seed = 1}; }

// Shares of the ids in n draws.
std::map<TokenId, double> Shares(const SamplingOptions& options, const std::vector<float>& logits, int n = 20000) {
  Sampler sampler(options);
  std::map<TokenId, double> shares;
  for (int i = 0; i < n; ++i) shares[sampler.Sample(logits)] += 1.0 / n;
  return shares;
}

std::vector<float> LogOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST_CASE("sampler: the generator is xoshiro256** over splitmix64, by the published numbers of both") {
  Random random(Random::State{1, 2, 3, 4});
  for (const std::uint64_t expected :
       {11520ULL, 0ULL, 1509978240ULL, 1215971899390074240ULL, 1216172134540287360ULL, 607988272756665600ULL})
    CHECK(random.Next() == expected);
  CHECK(Random::Seeded(1234567) ==
        Random::State{6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL, 4593380528125082431ULL});
  Random seeded(1);
  CHECK(seeded.Next() == 12966619160104079557ULL);
  Random unit(1);
  CHECK(unit.Unit() == std::ldexp(static_cast<double>(12966619160104079557ULL >> 11), -53));
}

TEST_CASE("sampler: temperature 0 takes the largest logit, of equals the lowest id, and draws no number") {
  SamplingOptions options;
  options.temperature = 0;
  Sampler sampler(options);
  CHECK(sampler.Sample(std::vector<float>{1, 5, 2, 5}) == 1);
  CHECK(sampler.Sample(std::vector<float>{-3, -3, -3}) == 0);
  CHECK(ArgMax(std::vector<float>{0, 7, 7}) == 1);
}

TEST_CASE("sampler: tokens come as often as the softmax of the logits over the temperature says") {
  const std::vector<float> logits = LogOf({0.5, 0.3, 0.2});
  // 5 standard deviations of a share of 20000 draws: 5 * sqrt(0.25 / 20000) = 0.018
  auto shares = Shares(Plain(), logits);
  CHECK(std::abs(shares[0] - 0.5) < 0.018);
  CHECK(std::abs(shares[1] - 0.3) < 0.018);
  SamplingOptions cold = Plain();
  cold.temperature = 0.5;  // squares of the probabilities: 0.25, 0.09, 0.04 of 0.38
  shares = Shares(cold, logits);
  CHECK(std::abs(shares[0] - 0.25 / 0.38) < 0.018);
  CHECK(std::abs(shares[2] - 0.04 / 0.38) < 0.018);
}

TEST_CASE("sampler: top-k keeps the k likeliest, of equals the lowest ids") {
  SamplingOptions options = Plain();
  options.top_k = 2;
  const auto shares = Shares(options, {0, 1, 1, 1}, 500);
  CHECK(shares.size() == 2);
  CHECK(shares.contains(1));
  CHECK(shares.contains(2));
}

TEST_CASE("sampler: top-p keeps the fewest likeliest tokens that reach it, the one that reaches it included") {
  SamplingOptions options = Plain();
  const std::vector<float> logits = LogOf({0.2, 0.45, 0.05, 0.3});
  options.top_p = 0.4F;
  CHECK(Shares(options, logits, 500).size() == 1);
  options.top_p = 0.7F;  // 0.45 + 0.3 = 0.75
  const auto two = Shares(options, logits, 500);
  CHECK(two.size() == 2);
  CHECK(two.contains(1));
  CHECK(two.contains(3));
  options.top_p = 0.8F;
  CHECK(Shares(options, logits, 500).size() == 3);
}

TEST_CASE("sampler: min-p keeps what has at least that share of the likeliest token's probability") {
  SamplingOptions options = Plain();
  options.min_p = 0.4F;
  const auto shares = Shares(options, LogOf({0.5, 0.25, 0.15, 0.1}), 500);  // 0.25 / 0.5 stays, 0.15 / 0.5 goes
  CHECK(shares.size() == 2);
}

TEST_CASE("sampler: top-p is taken over what top-k left, and temperature acts last") {
  SamplingOptions options = Plain();
  options.top_k = 2;
  options.top_p = 0.6F;  // of 0.4 and 0.3, renormalised 0.57 and 0.43: both are needed; of all four 0.4 + 0.3 would do too
  CHECK(Shares(options, LogOf({0.4, 0.3, 0.2, 0.1}), 500).size() == 2);
  options.top_p = 0.55F;  // 0.57 reaches it alone; without renormalising 0.4 would not
  CHECK(Shares(options, LogOf({0.4, 0.3, 0.2, 0.1}), 500).size() == 1);
  SamplingOptions hot = Plain();
  hot.min_p = 0.4F;
  hot.temperature = 100;  // applied before, it would level the logits and keep all four
  CHECK(Shares(hot, LogOf({0.5, 0.25, 0.15, 0.1}), 500).size() == 2);
}

TEST_CASE("sampler: the penalty divides positive and multiplies negative logits of the last 64 tokens, once each") {
  SamplingOptions options = Plain();
  options.temperature = 0;
  options.repeat_penalty = 2;
  Sampler positive(options);
  positive.Accept(0);
  positive.Accept(0);
  CHECK(positive.Sample(std::vector<float>{4, 1.9F, 0}) == 0);  // 4 / 2 once; twice would lose
  CHECK(positive.Sample(std::vector<float>{4, 2.1F, 0}) == 1);
  Sampler negative(options);
  negative.Accept(1);
  CHECK(negative.Sample(std::vector<float>{-1.5F, -1, -9}) == 0);  // -1 * 2
  Sampler window(options);
  window.Accept(0);
  for (int i = 0; i < 63; ++i) window.Accept(2);
  CHECK(window.Sample(std::vector<float>{4, 3, 0}) == 1);  // 0 is the oldest of the 64
  Sampler beyond(options);
  beyond.Accept(0);
  for (int i = 0; i < 64; ++i) beyond.Accept(2);
  CHECK(beyond.Sample(std::vector<float>{4, 3, 0}) == 0);
}

TEST_CASE("sampler: one seed gives one sequence, another seed another") {
  const std::vector<float> logits(50, 0.0F);
  const auto draw = [&](std::uint64_t seed) {
    SamplingOptions options = Plain();
    options.seed = seed;
    Sampler sampler(options);
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(sampler.Sample(logits));
    return ids;
  };
  CHECK(draw(3) == draw(3));
  CHECK(draw(3) != draw(4));
  // By hand: equal weights, id = floor(50 * unit) for the numbers of seed 1.
  Random random(1);
  SamplingOptions options = Plain();
  Sampler sampler(options);
  for (int i = 0; i < 20; ++i) CHECK(sampler.Sample(logits) == static_cast<TokenId>(50 * random.Unit()));
}

TEST_CASE("sampler: an option out of its range is refused with E901 that names it") {
  const auto refused = [](auto set, const char* at) {
    SamplingOptions options;
    set(options);
    const Status checked = CheckSampling(options);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == Code::USAGE);
    CHECK(checked.error().at == at);
  };
  CHECK(CheckSampling({}));
  for (const float bad : {-0.1F, NAN, INFINITY}) refused([&](SamplingOptions& o) { o.temperature = bad; }, "--temp");
  for (const float bad : {0.0F, 1.5F, NAN}) refused([&](SamplingOptions& o) { o.top_p = bad; }, "--top-p");
  for (const float bad : {-0.5F, 1.5F, NAN}) refused([&](SamplingOptions& o) { o.min_p = bad; }, "--min-p");
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY}) refused([&](SamplingOptions& o) { o.repeat_penalty = bad; }, "--repeat-penalty");
}

}  // namespace
}  // namespace veneer
