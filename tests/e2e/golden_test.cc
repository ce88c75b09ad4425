// Golden vectors through the command line, as a user runs them. Vectors: transformers + PEFT on the dequantized base in float32,
// cross-checked by a float64 weight-space oracle. Tolerance: 5e-4 x logit_std + 1e-4 (a plain f32 implementation is at about 1e-5).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/vectors.h"

namespace {

struct Set {
  std::filesystem::path base, adapters, vectors;
};

std::vector<std::string> Source(const Set& set, const VectorCase& one) {
  std::vector<std::string> arguments{"--base", set.base.string()};
  for (const auto& [name, strength] : one.adapters) {
    arguments.emplace_back("--adapter");
    arguments.push_back((set.adapters / name).string() + "=" + strength);
  }
  return arguments;
}

// Logits of `tokens` as the program computes them.
Matrix Logits(const Set& set, const VectorCase& one, const std::vector<std::int32_t>& tokens, const std::vector<std::string>& extra) {
  const TempDir dir;
  const std::string out = (dir.path() / "logits.npy").string();
  std::vector<std::string> arguments{"logits", "--tokens", JoinTokens(tokens), "--out", out};
  for (const std::string& word : Source(set, one)) arguments.push_back(word);
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  const ProcessResult result = Veneer(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return ReadNpy(out);
}

std::vector<std::int32_t> Greedy(const Set& set, const VectorCase& one, const std::vector<std::string>& extra) {
  std::vector<std::string> arguments{"generate", "--tokens", JoinTokens(one.prompt), "-n", std::to_string(one.greedy.size()), "--temp",
                                     "0",        "--json",   "--ignore-eos"};
  for (const std::string& word : Source(set, one)) arguments.push_back(word);
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  const ProcessResult result = Veneer(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out).at("tokens").get<std::vector<std::int32_t>>();
}

// Cases of a third party's kind, which is not among the project's own.
bool IsForeign(const VectorCase& one) {
  return std::ranges::any_of(one.adapters, [](const auto& adapter) { return adapter.first == "thirdparty-dora"; });
}

void CheckExact(const Set& set) {
  int checked = 0;
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (IsForeign(one)) continue;
    CAPTURE(set.vectors.string(), one.name);
    ++checked;
    CHECK(MaxDifference(Logits(set, one, one.prompt, {"--compute", "exact"}), one.logits) <= one.tolerance());
    const std::vector<std::int32_t> tokens = Greedy(set, one, {"--compute", "exact"});
    REQUIRE(tokens.size() == one.greedy.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == one.greedy[i]) continue;
      CAPTURE(i, tokens[i], one.greedy[i]);
      CHECK(one.margins[i] < 2 * one.tolerance());  // a near tie may fall either way, and what follows it differs
      break;
    }
  }
  CHECK(checked >= 4);
}

// fast, teacher-forced over prompt and greedy tokens, against exact on the same tokens.
void CheckFast(const Set& set) {
  double kl = 0;
  int checked = 0;
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (IsForeign(one)) continue;
    CAPTURE(set.vectors.string(), one.name);
    std::vector<std::int32_t> tokens = one.prompt;
    tokens.insert(tokens.end(), one.greedy.begin(), one.greedy.end() - 1);
    const Matrix exact = Logits(set, one, tokens, {"--compute", "exact"});
    const Matrix fast = Logits(set, one, tokens, {"--compute", "fast"});
    REQUIRE(fast.rows == tokens.size());
    const double one_kl = MeanKl(exact, fast);
    CHECK(one_kl < 1e-3);
    kl += one_kl;
    ++checked;
    for (std::size_t i = 0; i < one.greedy.size(); ++i) {
      if (one.margins[i] <= 0.5) continue;
      const float* row = &fast.values[(one.prompt.size() - 1 + i) * fast.cols];
      CAPTURE(i);
      CHECK(std::max_element(row, row + fast.cols) - row == one.greedy[i]);
    }
  }
  REQUIRE(checked >= 4);
  WARN("mean KL(exact || fast) over " << checked << " cases of " << set.vectors.filename().string() << ": " << kl / checked);
}

Set Stories() {
  const auto data = RepoData() / "stories260k";
  return {data / "stories260k-q8_0.gguf", data / "adapters", data / "vectors-q8_0"};
}
Set Fable() { return {DemoData() / "fable-q4_0.gguf", DemoData() / "adapters", RepoData() / "fable/vectors-q4_0"}; }

std::vector<Set> External(const std::filesystem::path& data) {
  std::vector<Set> sets;
  for (const char* quant : {"f32", "q4_0"})
    sets.push_back({data / "stories260k" / (std::string("stories260k-") + quant + ".gguf"), data / "stories260k/adapters",
                    data / "stories260k" / (std::string("vectors-") + quant)});
  sets.push_back({data / "fable/fable-q8_0.gguf", data / "fable/adapters", data / "fable/vectors-q8_0"});
  sets.push_back({data / "fable/fable-q6_k.gguf", data / "fable/adapters", data / "fable/vectors-q6_k"});
  return sets;
}

}  // namespace

TEST_CASE("golden: exact logits and greedy tokens agree with the vectors of stories260k Q8_0") { CheckExact(Stories()); }
TEST_CASE("golden: exact logits and greedy tokens agree with the vectors of fable Q4_0") { CheckExact(Fable()); }

TEST_CASE("golden: exact logits and greedy tokens agree with the vectors of the other quantizations") {
  const auto data = ExternalData();
  if (!data) return;
  for (const Set& set : External(*data)) CheckExact(set);
}

TEST_CASE("golden: fast stays within 1e-3 KL of exact and keeps every clear argmax, stories260k Q8_0 and fable Q4_0") {
  CheckFast(Stories());
  CheckFast(Fable());
}

TEST_CASE("golden: fast stays within 1e-3 KL of exact and keeps every clear argmax, the other quantizations") {
  const auto data = ExternalData();
  if (!data) return;
  for (const Set& set : External(*data)) CheckFast(set);
}

TEST_CASE("golden: the order of a mixed stack matters, and each order is right") {
  const Set set = Stories();
  std::vector<Matrix> logits;
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (one.name != "stack-lora-ia3" && one.name != "stack-ia3-lora") continue;
    logits.push_back(Logits(set, one, one.prompt, {"--compute", "exact"}));
    CHECK(MaxDifference(logits.back(), one.logits) <= one.tolerance());
  }
  REQUIRE(logits.size() == 2);
  CHECK(MaxDifference(logits[0], logits[1]) > 1e-2);
}

TEST_CASE("golden: results are identical bit for bit for 1, 2, 3 and 8 threads in both modes") {
  const Set set = Fable();
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (one.name != "bard-lexicon" && one.name != "base") continue;
    std::vector<std::int32_t> tokens;  // longer than a token block, so that the many-token paths run
    while (tokens.size() < 75) tokens.insert(tokens.end(), one.prompt.begin(), one.prompt.end());
    for (const char* mode : {"exact", "fast"}) {
      const Matrix reference = Logits(set, one, tokens, {"--compute", mode, "--threads", "1"});
      for (const char* threads : {"2", "3", "8"}) {
        CAPTURE(one.name, mode, threads);
        CHECK(Logits(set, one, tokens, {"--compute", mode, "--threads", threads}).values == reference.values);
      }
    }
  }
}

TEST_CASE("golden: in exact mode results are identical bit for bit for any --batch") {
  const Set set = Stories();
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (one.name != "stack-ia3-lora") continue;
    std::vector<std::int32_t> tokens;
    while (tokens.size() < 70) tokens.insert(tokens.end(), one.prompt.begin(), one.prompt.end());
    const Matrix reference = Logits(set, one, tokens, {"--compute", "exact"});
    for (const char* batch : {"1", "3", "32", "33", "64"}) {
      CAPTURE(batch);
      CHECK(Logits(set, one, tokens, {"--compute", "exact", "--batch", batch}).values == reference.values);
    }
  }
}

TEST_CASE("golden: strength 0 gives the very bits of the base") {
  const Set set = Stories();
  VectorCase with, without;
  with.prompt = without.prompt = {1, 2, 3, 4};
  with.adapters = {{"lora-all-r4", "0"}, {"ia3-default", "0"}};
  for (const char* mode : {"exact", "fast"})
    CHECK(Logits(set, with, with.prompt, {"--compute", mode}).values == Logits(set, without, with.prompt, {"--compute", mode}).values);
}
