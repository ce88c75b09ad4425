// Golden vectors through the command line, as a user runs them. Vectors: transformers + PEFT on the dequantized base in float32,
// cross-checked by a float64 weight-space oracle. Tolerance: 5e-4 x logit_std + 1e-4 (a plain f32 implementation is at about 1e-5).
#include "tests/e2e/golden_check.h"

#include "tests/support/catch.h"
#include "tests/support/data.h"

namespace {

GoldenSet Stories() {
  const auto data = RepoData() / "stories260k";
  return {data / "stories260k-q8_0.gguf", data / "adapters", data / "vectors-q8_0"};
}
GoldenSet Fable() { return {DemoData() / "fable-q4_0.gguf", DemoData() / "adapters", RepoData() / "fable/vectors-q4_0"}; }

std::vector<GoldenSet> External(const std::filesystem::path& data) {
  std::vector<GoldenSet> sets;
  for (const char* quant : {"f32", "q4_0"})
    sets.push_back({data / "stories260k" / (std::string("stories260k-") + quant + ".gguf"), data / "stories260k/adapters",
                    data / "stories260k" / (std::string("vectors-") + quant)});
  for (const char* quant : {"q8_0", "q6_k", "q4_k_m", "q3_k_m"})
    sets.push_back({data / "fable" / (std::string("fable-") + quant + ".gguf"), data / "fable/adapters",
                    data / "fable" / (std::string("vectors-") + quant)});
  return sets;
}

}  // namespace

TEST_CASE("golden: exact logits and greedy tokens agree with the vectors of stories260k Q8_0") { CheckExact(Stories()); }
TEST_CASE("golden: exact logits and greedy tokens agree with the vectors of fable Q4_0") { CheckExact(Fable()); }

TEST_CASE("golden: exact logits and greedy tokens agree with the vectors of the other quantizations") {
  const auto data = ExternalData();
  if (!data) return;
  for (const GoldenSet& set : External(*data)) CheckExact(set);
}

TEST_CASE("golden: fast stays within 1e-3 KL of exact and keeps every clear argmax, stories260k Q8_0 and fable Q4_0") {
  CheckFast(Stories());
  CheckFast(Fable());
}

TEST_CASE("golden: fast with --kv q8_0 stays within 1e-3 KL of exact and keeps every clear argmax, fable Q4_0") {
  CheckFast(Fable(), {"--kv", "q8_0"});
}

TEST_CASE("golden: fast stays within 1e-3 KL of exact and keeps every clear argmax, the other quantizations") {
  const auto data = ExternalData();
  if (!data) return;
  for (const GoldenSet& set : External(*data)) CheckFast(set);
}

TEST_CASE("golden: bases of Q2_K, Q5_K, Q4_1 and Q5_0 decode with adapters, and fast stays within 1e-3 KL of exact") {
  const auto data = ExternalData();
  if (!data) return;
  for (const char* quant : {"q2_k", "q5_k_m", "q4_1", "q5_0"})
    CheckModesAgree({*data / "fable" / (std::string("fable-") + quant + ".gguf"), *data / "fable/adapters", *data / "fable/vectors-q4_0"});
}

TEST_CASE("golden: the order of a mixed stack matters, and each order is right") {
  const GoldenSet set = Stories();
  std::vector<Matrix> logits;
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (one.name != "stack-lora-ia3" && one.name != "stack-ia3-lora") continue;
    logits.push_back(GoldenLogits(set, one, one.prompt, {"--compute", "exact"}));
    CHECK(MaxDifference(logits.back(), one.logits) <= one.tolerance());
  }
  REQUIRE(logits.size() == 2);
  CHECK(MaxDifference(logits[0], logits[1]) > 1e-2);
}

TEST_CASE("golden: results are identical bit for bit for 1, 2, 3 and 8 threads in both modes") {
  const GoldenSet set = Fable();
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (one.name != "bard-lexicon" && one.name != "base") continue;
    std::vector<std::int32_t> tokens;  // longer than a token block, so that the many-token paths run
    while (tokens.size() < 75) tokens.insert(tokens.end(), one.prompt.begin(), one.prompt.end());
    for (const char* mode : {"exact", "fast"}) {
      const Matrix reference = GoldenLogits(set, one, tokens, {"--compute", mode, "--threads", "1"});
      for (const char* threads : {"2", "3", "8"}) {
        CAPTURE(one.name, mode, threads);
        CHECK(GoldenLogits(set, one, tokens, {"--compute", mode, "--threads", threads}).values == reference.values);
      }
    }
  }
}

TEST_CASE("golden: in exact mode results are identical bit for bit for any --batch") {
  const GoldenSet set = Stories();
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (one.name != "stack-ia3-lora") continue;
    std::vector<std::int32_t> tokens;
    while (tokens.size() < 70) tokens.insert(tokens.end(), one.prompt.begin(), one.prompt.end());
    const Matrix reference = GoldenLogits(set, one, tokens, {"--compute", "exact"});
    for (const char* batch : {"1", "3", "32", "33", "64"}) {
      CAPTURE(batch);
      CHECK(GoldenLogits(set, one, tokens, {"--compute", "exact", "--batch", batch}).values == reference.values);
    }
  }
}

TEST_CASE("golden: strength 0 gives the very bits of the base") {
  const GoldenSet set = Stories();
  VectorCase with, without;
  with.prompt = without.prompt = {1, 2, 3, 4};
  with.adapters = {{"lora-all-r4", "0"}, {"ia3-default", "0"}};
  for (const char* mode : {"exact", "fast"})
    CHECK(GoldenLogits(set, with, with.prompt, {"--compute", mode}).values ==
          GoldenLogits(set, without, with.prompt, {"--compute", mode}).values);
}
