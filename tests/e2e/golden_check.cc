#include "tests/e2e/golden_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace {

std::vector<std::string> Source(const GoldenSet& set, const VectorCase& one) {
  std::vector<std::string> arguments{"--base", set.base.string()};
  for (const auto& [name, strength] : one.adapters) {
    arguments.emplace_back("--adapter");
    arguments.push_back((set.adapters / name).string() + "=" + strength);
  }
  return arguments;
}

std::vector<std::int32_t> Greedy(const GoldenSet& set, const VectorCase& one, const std::vector<std::string>& extra) {
  std::vector<std::string> arguments{"generate", "--tokens", JoinTokens(one.prompt), "-n", std::to_string(one.greedy.size()), "--temp",
                                     "0",        "--json",   "--ignore-eos"};
  for (const std::string& word : Source(set, one)) arguments.push_back(word);
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  const ProcessResult result = Veneer(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out).at("tokens").get<std::vector<std::int32_t>>();
}

constexpr double kMostKl = 1e-3;

// The prompt and the greedy tokens, without the last: nothing follows it.
std::vector<std::int32_t> TeacherForced(const VectorCase& one) {
  std::vector<std::int32_t> tokens = one.prompt;
  tokens.insert(tokens.end(), one.greedy.begin(), one.greedy.end() - 1);
  return tokens;
}

// Cases of a third party's kind, which is not among the project's own.
bool IsForeign(const VectorCase& one) {
  return std::ranges::any_of(one.adapters, [](const auto& adapter) { return adapter.first == "thirdparty-dora"; });
}

}  // namespace

Matrix GoldenLogits(const GoldenSet& set, const VectorCase& one, const std::vector<std::int32_t>& tokens,
                    const std::vector<std::string>& extra) {
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

void CheckExact(const GoldenSet& set) {
  int checked = 0;
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (IsForeign(one)) continue;
    CAPTURE(set.vectors.string(), one.name);
    ++checked;
    CHECK(MaxDifference(GoldenLogits(set, one, one.prompt, {"--compute", "exact"}), one.logits) <= one.tolerance());
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

void CheckModesAgree(const GoldenSet& set) {
  int checked = 0;
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (IsForeign(one)) continue;
    CAPTURE(set.base.string(), one.name);
    const std::vector<std::int32_t> tokens = TeacherForced(one);
    const Matrix exact = GoldenLogits(set, one, tokens, {"--compute", "exact"});
    CHECK(MeanKl(exact, GoldenLogits(set, one, tokens, {"--compute", "fast"})) < kMostKl);
    for (const char* mode : {"exact", "fast"}) CHECK(Greedy(set, one, {"--compute", mode}).size() == one.greedy.size());
    ++checked;
  }
  CHECK(checked >= 4);
}

void CheckFast(const GoldenSet& set, const std::vector<std::string>& extra) {
  std::vector<std::string> options{"--compute", "fast"};
  options.insert(options.end(), extra.begin(), extra.end());
  double kl = 0;
  int checked = 0;
  for (const VectorCase& one : ReadVectors(set.vectors)) {
    if (IsForeign(one)) continue;
    CAPTURE(set.vectors.string(), one.name);
    const std::vector<std::int32_t> tokens = TeacherForced(one);
    const Matrix exact = GoldenLogits(set, one, tokens, {"--compute", "exact"});
    const Matrix fast = GoldenLogits(set, one, tokens, options);
    REQUIRE(fast.rows == tokens.size());
    const double one_kl = MeanKl(exact, fast);
    CHECK(one_kl < kMostKl);
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
