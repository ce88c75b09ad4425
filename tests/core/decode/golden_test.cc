// Logits and greedy tokens of real small models against an independent implementation (transformers in f32, data/README).
#include <algorithm>
#include <filesystem>

#include "core/decode/generate.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/tiny_base.h"
#include "tests/support/vectors.h"

namespace veneer {
namespace {

void CheckBase(const std::filesystem::path& folder, const std::string& model, const std::string& quant) {
  CAPTURE(model, quant);
  auto file = FileBytes::Map(folder / (model + "-" + quant + ".gguf"));
  REQUIRE(file);
  auto base = Base::OpenGguf(*std::move(file));
  REQUIRE(base);
  const Stack stack(*base);
  const std::vector<VectorCase> cases = ReadVectors(folder / ("vectors-" + quant));
  const auto golden = std::ranges::find(cases, "base", &VectorCase::name);
  REQUIRE(golden != cases.end());
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    const auto staged = stack.Stage(mode);
    const auto decoder = MakeDecoder(staged, {.threads = 2});
    const Matrix logits{golden->logits.rows, golden->logits.cols, LogitsOf(*decoder, golden->prompt)};
    GenerateOptions options;
    options.max_tokens = static_cast<std::uint32_t>(golden->greedy.size());
    options.ignore_end_of_text = true;
    options.sampling.temperature = 0;
    Generated made;
    REQUIRE(Generate(*MakeDecoder(staged), nullptr, golden->prompt, options, {}, made));
    if (mode == ComputeMode::kExact) {
      CHECK(MaxDifference(logits, golden->logits) <= golden->tolerance());
      CHECK(made.tokens == golden->greedy);
    } else {
      CHECK(MeanKl(golden->logits, logits) < 1e-3);
    }
  }
}

// Against the independent logits, which know no cache: the same bound as fast mode with its default. Greedy tokens from the same decoder;
// they may leave the golden ones only where those were nearly tied.
void CheckQ8_0Cache(const std::filesystem::path& folder, const std::string& model, const std::string& quant) {
  CAPTURE(model, quant);
  const Stack stack(OpenBase(folder / (model + "-" + quant + ".gguf")));
  const auto staged = stack.Stage(ComputeMode::kFast);
  const std::vector<VectorCase> cases = ReadVectors(folder / ("vectors-" + quant));
  const auto golden = std::ranges::find(cases, "base", &VectorCase::name);
  REQUIRE(golden != cases.end());
  std::vector<TokenId> tokens = golden->prompt;
  tokens.insert(tokens.end(), golden->greedy.begin(), golden->greedy.end());
  const DecoderOptions options{.threads = 2, .kv = KvType::kQ8_0};
  const Matrix logits{golden->logits.rows, golden->logits.cols, LogitsOf(*MakeDecoder(staged, options), golden->prompt)};
  CHECK(MeanKl(golden->logits, logits) < 1e-3);
  const std::vector<float> all = LogitsOf(*MakeDecoder(staged, options), tokens);
  const std::vector<float> exact = LogitsOf(*MakeDecoder(stack.Stage(ComputeMode::kExact)), tokens);
  const std::uint64_t vocab = golden->logits.cols;
  const double kl = MeanKl({tokens.size(), vocab, exact}, {tokens.size(), vocab, all});
  CHECK(kl < 1e-3);
  WARN("mean KL(exact || fast, K/V in q8_0) of " << model << ' ' << quant << ": " << kl);
  for (std::size_t i = 0; i < golden->greedy.size(); ++i) {
    if (golden->margins[i] <= 0.5) continue;
    CAPTURE(i);
    const float* row = &all[(golden->prompt.size() - 1 + i) * vocab];
    CHECK(std::max_element(row, row + vocab) - row == golden->greedy[i]);
  }
}

TEST_CASE("golden: with keys and values in q8_0 logits stay within 1e-3 KL of the independent ones and keep every clear argmax") {
  const auto data = ExternalData();
  if (!data) return;
  for (const char* const quant : {"q8_0", "q4_0", "q6_k", "q4_k_m", "q3_k_m"}) CheckQ8_0Cache(*data / "fable", "fable", quant);
  for (const char* const model : {"mini-llama3", "mini-qwen2"}) CheckQ8_0Cache(*data / "families" / model, model, "q8_0");
}

TEST_CASE("golden: the base models decode as the independent implementation does, exactly and fast") {
  const auto data = ExternalData();
  if (!data) return;
  for (const char* const quant : {"f32", "q8_0", "q4_0"}) CheckBase(*data / "stories260k", "stories260k", quant);
  for (const char* const quant : {"q8_0", "q4_0", "q6_k", "q4_k_m", "q3_k_m"}) CheckBase(*data / "fable", "fable", quant);
}

TEST_CASE("golden: the base in the repository decodes as the independent implementation does") {
  CheckBase(RepoData() / "stories260k", "stories260k", "q8_0");
}

}  // namespace
}  // namespace veneer
