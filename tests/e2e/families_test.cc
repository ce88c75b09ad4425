// Bases of the other families through the command line: Llama 3 (rope scaling `llama3`), Qwen2 (biases), Qwen3 (norms of heads, heads wider
// in all than the model). Their byte-level BPE vocabularies are not read, so they run by token ids. Vectors: see golden_test.cc.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/e2e/golden_check.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/process.h"

namespace {

std::vector<GoldenSet> Families(const std::filesystem::path& data) {
  std::vector<GoldenSet> sets;
  for (const char* const name : {"mini-llama3", "mini-qwen2", "mini-qwen3"}) {
    const std::filesystem::path folder = data / "families" / name;
    for (const char* const quant : {"q8_0", "q4_k_m"})
      sets.push_back(
          {folder / (std::string(name) + "-" + quant + ".gguf"), folder / "adapters", folder / (std::string("vectors-") + quant)});
  }
  return sets;
}

}  // namespace

TEST_CASE("families: exact logits and greedy tokens agree with the vectors of a Llama 3, a Qwen2 and a Qwen3, with adapters too") {
  const auto data = ExternalData();
  if (!data) return;
  for (const GoldenSet& set : Families(*data)) CheckExact(set);
}

TEST_CASE("families: fast stays within 1e-3 KL of exact and keeps every clear argmax, for a Llama 3, a Qwen2 and a Qwen3") {
  const auto data = ExternalData();
  if (!data) return;
  for (const GoldenSet& set : Families(*data)) CheckFast(set);
}

TEST_CASE("families: text for a base with a byte-level BPE vocabulary is refused with the way to give token ids") {
  const auto data = ExternalData();
  if (!data) return;
  for (const GoldenSet& set : Families(*data)) {
    const std::string base = set.base.string();
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"generate", "--base", base, "-p", "In the beginning", "-n", "2"},
          {"generate", "--base", base, "--tokens", "5,6", "--stop", "the", "-n", "2"},
          {"tokenize", "--base", base, "In the beginning"}}) {
      const ProcessResult result = Veneer(command);
      CAPTURE(result.err);
      CHECK(result.status == 3);
      CHECK(result.out.empty());
      for (const char* const word : {" E401 ", "tokenizer.ggml.model", "byte-level BPE", "--tokens"})
        CHECK(result.err.find(word) != std::string::npos);
    }
    const ProcessResult by_ids = Veneer({"generate", "--base", base, "--tokens", "5,6", "-n", "3", "--temp", "0"});
    CHECK(by_ids.status == 0);
    CHECK(std::count(by_ids.out.begin(), by_ids.out.end(), ',') == 2);  // ids, as there is no text to show
  }
}
