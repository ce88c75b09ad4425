// Replacement tensors through the command line: saved copies, saved heads, and stacks in which they contradict each other.
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/vectors.h"

namespace {

const std::string kPrompt = "1,403,407,261,378";

ProcessResult Run(const std::string& verb, const std::filesystem::path& base, const std::vector<std::string>& adapters,
                  std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {verb, "--base", base.string()});
  for (const std::string& adapter : adapters) arguments.insert(arguments.end(), {"--adapter", adapter});
  return Veneer(arguments);
}

Matrix Logits(const std::filesystem::path& base, const std::vector<std::string>& adapters) {
  const TempDir dir;
  const std::string out = (dir.path() / "logits.npy").string();
  const ProcessResult result = Run("logits", base, adapters, {"--tokens", kPrompt, "--out", out, "--compute", "exact"});
  INFO(result.err);
  REQUIRE(result.status == 0);
  return ReadNpy(out);
}

nlohmann::json Inspect(const std::filesystem::path& adapter, const std::filesystem::path& base) {
  const ProcessResult result = Veneer({"inspect", adapter.string(), "--base", base.string(), "--json"});
  INFO(result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out);
}

}  // namespace

TEST_CASE("replace: a saved copy of the embedding does nothing over the base it was copied from, and replaces over another") {
  const auto data = ExternalData();
  if (!data) return;
  const auto stories = *data / "stories260k";
  const auto copies = stories / "adapters/copies-embed-lora", f32 = stories / "stories260k-f32.gguf",
             q8_0 = stories / "stories260k-q8_0.gguf";
  CHECK(Inspect(copies, f32).at("replacements").empty());
  CHECK(Inspect(copies, f32).dump().find("equals the base's tensor bit for bit") != std::string::npos);
  // With the better embedding the logits over the quantized base come nearer to those over the base it was copied from.
  const Matrix wanted = Logits(f32, {copies.string()}), near = Logits(q8_0, {copies.string()});
  CHECK(MaxDifference(near, wanted) > 0);
  CHECK(MaxDifference(near, wanted) < MaxDifference(Logits(q8_0, {}), Logits(f32, {})));
  const auto replaced = Inspect(copies, q8_0).at("replacements");
  REQUIRE(replaced.size() == 1);
  CHECK(replaced[0].at("site") == "model.embed_tokens");
}

TEST_CASE("replace: a replacement behind an edit of its site, and two owners of one tensor, are E216; the other order decodes") {
  const auto base = RepoData() / "stories260k/stories260k-q8_0.gguf";
  const std::string head = (RepoData() / "stories260k/adapters/lora-mts-head").string();
  const ProcessResult twice = Run("generate", base, {head, head}, {"--tokens", kPrompt, "-n", "1"});
  CHECK(twice.status == 3);
  CHECK(twice.err.find("E216") != std::string::npos);
  CHECK(twice.err.find("lm_head") != std::string::npos);
  CHECK(Run("generate", base, {head, head + "=0"}, {"--tokens", kPrompt, "-n", "1"}).status == 0);
  CHECK(Logits(base, {head + "=0"}).values == Logits(base, {}).values);
}
