// Logits and greedy tokens of real small models against an independent implementation (transformers in f32, data/README).
#include <filesystem>

#include "core/decode/generate.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
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
