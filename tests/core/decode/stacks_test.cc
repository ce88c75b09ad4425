// Stacks of overlays in every order, over random models, against edits of the weights in f64. All random choices come from a seed that a
// failure shows.
#include <random>

#include "tests/core/decode/group_run.h"
#include "tests/core/decode/oracle_check.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

const std::string kUp = "model.layers.0.mlp.up_proj", kGate = "model.layers.0.mlp.gate_proj";

enum class Part { kLowRank, kInput, kOutput, kSparse, kDense };
constexpr Part kParts[] = {Part::kLowRank, Part::kInput, Part::kOutput, Part::kSparse, Part::kDense};

void AddPart(Stack& stack, Part part, const std::string& site) {
  switch (part) {
    case Part::kLowRank:
      stack.LowRank(site, 4, 0.75, true);
      return;
    case Part::kInput:
      stack.Rescale(site, Scales::kInput);
      return;
    case Part::kOutput:
      stack.Rescale(site, Scales::kOutput);
      return;
    case Part::kSparse:
      stack.Sparse(site, 100, 1.5);
      return;
    case Part::kDense:
      stack.Dense(site, VNR_BF16);
  }
}

void CheckStack(const Stack& stack, std::uint32_t tokens) {
  const std::vector<std::string> group = {kGate, kUp};
  CHECK(WorstError(stack, group, RunGroup(*stack.Stage(ComputeMode::kExact), group, tokens, 2)) < 1);
}

TEST_CASE("stacks: every pair and every triple of kinds, a kind twice and thrice too, in every order agrees with f64") {
  const auto base = OpenTiny();
  for (const Part first : kParts)
    for (const Part second : kParts) {
      CAPTURE(first, second);
      Stack pair(base);
      AddPart(pair, first, kUp);
      AddPart(pair, second, kUp);
      CheckStack(pair, 1);
      CheckStack(pair, 3);
      for (const Part third : kParts) {
        CAPTURE(third);
        Stack triple(pair);
        AddPart(triple, third, kUp);
        CheckStack(triple, 2);
      }
    }
}

// Every kind's strength is linear in weight space.
TEST_CASE("stacks: at strengths above one, between, negative and zero every kind agrees with f64, alone and before another") {
  const auto base = OpenTiny();
  for (const Part part : kParts)
    for (const double w : {2.5, 0.3, -1.25, 0.0}) {
      CAPTURE(part, w);
      Stack stack(base);
      AddPart(stack, part, kUp);
      stack.AtStrength(w);
      CheckStack(stack, 3);
      stack.Rescale(kUp, Scales::kInput).LowRank(kUp, 2, 1);
      CheckStack(stack, 3);
    }
}

TEST_CASE("stacks: strength zero is bit for bit the composition without the overlay, for every kind and in both modes") {
  const auto base = OpenTiny();
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast})
    for (const Part part : kParts) {
      Stack with(base), without(base);
      with.LowRank(kUp, 3, 1);
      without.LowRank(kUp, 3, 1);
      AddPart(with, part, kUp);
      with.AtStrength(0);
      const std::vector<TokenId> tokens = SomeTokens(20, base->config().vocab);
      CHECK(LogitsOf(*MakeDecoder(with.Stage(mode)), tokens) == LogitsOf(*MakeDecoder(without.Stage(mode)), tokens));
    }
}

// A random model, and a random stack of up to eight overlays over its linear sites and embedding.
class RandomStack {
 public:
  explicit RandomStack(std::uint64_t seed) : random_(seed) {}

  Stack Draw() {
    constexpr std::uint32_t types[] = {VNR_F32, VNR_F16, VNR_Q8_0, VNR_Q4_0};
    const std::uint32_t heads = Pick(1, 2) == 1 ? 4 : 8;
    Stack stack(OpenTiny({.n_layers = Pick(1, 2),
                          .hidden = 64,
                          .ffn = Pick(1, 2) * 64,
                          .n_heads = heads,
                          .n_kv_heads = heads / Pick(1, 2),
                          .matrix_type = types[Pick(0, 3)],
                          .tied = Pick(0, 1) == 1,
                          .biases = Pick(0, 1) == 1,
                          .seed = random_()}));
    std::vector<std::string> sites;
    for (const Site& site : stack.base().sites().sites())
      if (site.shape_class == SiteClass::kLinear) sites.push_back(site.id);
    if (Pick(0, 2) == 0) stack.Replace(sites[Pick(0, 3)]);
    if (Pick(0, 2) == 0) stack.Replace("model.embed_tokens", {5, 22, 300});
    for (std::uint32_t n = Pick(1, 8); n > 0; --n) {
      constexpr double strengths[] = {1, 0.4, -0.8};
      if (Pick(0, 5) == 0) {
        stack.LowRank("model.embed_tokens", Pick(1, 6), 0.5);
      } else {
        AddPart(stack, kParts[Pick(0, 4)], sites[Pick(0, static_cast<std::uint32_t>(sites.size()) - 1)]);
      }
      stack.AtStrength(strengths[Pick(0, 2)]);
    }
    return stack;
  }

 private:
  std::uint32_t Pick(std::uint32_t low, std::uint32_t high) { return low + static_cast<std::uint32_t>(random_() % (high - low + 1)); }
  std::mt19937_64 random_;
};

TEST_CASE("stacks: random stacks over random models decode as the weights edited in f64 do") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Stack stack = RandomStack(seed).Draw();
    CheckAgainstOracle(stack, 7);
  }
}

}  // namespace
}  // namespace veneer
