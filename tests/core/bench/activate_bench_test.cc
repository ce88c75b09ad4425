#include "core/bench/activate_bench.h"

#include <filesystem>
#include <string>

#include "core/manifest/composition.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace veneer {
namespace {

std::string CompositionOver(const std::string& base, const std::string& tokenizer) {
  Composition composition;
  composition.base_model_hash = Sha256::Of(base);
  composition.base_model_size = base.size();
  composition.base_format = "gguf";
  composition.tokenizer_id = "bench";
  composition.tokenizer_hash = Sha256::Of(tokenizer);
  composition.tokenizer_size = tokenizer.size();
  composition.quantization = {"q4_0", "symmetric", 32};
  composition.runtime_name = "veneer";
  composition.runtime_version = "1";
  composition.tied_weights = "separate";
  return composition.Canonical();
}

TEST_CASE("bench activate: a cold activation reads every byte of its files once, a warm one none, and each is validated") {
  const TempDir dir;
  const std::string base((9 << 20) + 11, 'b'), tokenizer = "tokenizer";
  const std::string composition = CompositionOver(base, tokenizer);
  const std::span<const std::byte> contents[] = {std::as_bytes(std::span(base)), std::as_bytes(std::span(tokenizer))};
  int validated = 0;
  const auto report = BenchActivate(composition, contents,
                                    {.directory = dir.path().string(), .runs = 2, .threads = 3, .validate = [&](const Store&, const auto&) {
                                       ++validated;
                                       return Status();
                                     }});
  REQUIRE(report);
  CHECK(report->bytes == base.size() + tokenizer.size());
  // The composition itself is read before the lock and under it.
  CHECK(report->warm_counts.blob_bytes_read == 2 * composition.size());
  CHECK(report->cold_counts.blob_bytes_read == report->bytes + 2 * composition.size());
  CHECK(validated == 2 * 4);
  CHECK(report->cold_ms.median > 0);
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("bench activate: what the validation refuses ends it, and nothing is left behind") {
  const TempDir dir;
  const std::string base = "base", tokenizer = "tokenizer";
  const std::span<const std::byte> contents[] = {std::as_bytes(std::span(base)), std::as_bytes(std::span(tokenizer))};
  const auto report = BenchActivate(CompositionOver(base, tokenizer), contents,
                                    {.directory = dir.path().string(), .validate = [](const Store&, const auto&) {
                                       return Status(Fail(Code::SHAPE_MISMATCH, "here", "no"));
                                     }});
  REQUIRE_FALSE(report);
  CHECK(report.error().code == Code::SHAPE_MISMATCH);
  CHECK(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace veneer
