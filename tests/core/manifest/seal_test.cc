// Sealing: claims against facts. Rows 30, 31 and 37 to 42 of the design's table, as far as this folder sees them.
#include <fmt/format.h>

#include <functional>
#include <string>

#include "core/manifest/manifest.h"
#include "tests/core/manifest/documents.h"
#include "tests/core/manifest/facts.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

struct Facts {
  BaseFacts base;
  std::vector<AdapterFacts> adapters;
};

std::string Outcome(const Result<Composition>& result) {
  return result ? "sealed" : fmt::format("E{} {}", static_cast<int>(result.error().code), result.error().at);
}

// Outcome of sealing a text after `change` to what the files are.
std::string Seal(const std::string& text, const std::function<void(Facts&)>& change = [](Facts&) {}) {
  const auto manifest = ParseManifest(text, DetectSyntax(text));
  REQUIRE(manifest);
  Facts facts{VectorBase(), VectorAdapters(*manifest)};
  change(facts);
  return Outcome(SealManifest(*manifest, facts.base, facts.adapters));
}

// The vector's manifest with a line more at the top, or in the last adapter.
std::string WithTop(std::string_view line) { return std::string(line) + "\n" + VectorToml(); }
std::string WithLast(std::string_view line) { return VectorToml() + std::string(line) + "\n"; }

const std::string kOther = "\"sha256:" + std::string(64, '1') + "\"";

}  // namespace

TEST_CASE("seal: a manifest with required fields only is filled from the files", "[manifest]") {
  const std::string least = R"({"schema": "veneer.manifest/1", "timestamp_utc": "2026-01-02T03:04:05Z",
    "base_model_hash": "sha256:37265981c449d4ea80cc0bddf90294af539e354a52d8183ab0b3490b82e58f8b",
    "adapters": [
      {"name": "style", "file_hash": "sha256:4aa7bc426736ea96f2bc4b0e35ff3867909496e53dc81c09343195e2581543b6", "load_order": 1, "merge_weight": 0.7},
      {"name": "safety", "file_hash": "sha256:8433627bcbb19858e3ded864d3ef38fde896989ec7a37d17b60488b446d2228f", "load_order": 2, "merge_weight": -0.25}]})";
  const auto composition = SealText(least, ManifestSyntax::kJson);
  REQUIRE(composition);
  CHECK(composition->tied_weights == "separate");
  // With the vector's policy for tied weights it is the vector.
  const auto forbid = SealText(Replaced(least, "\"adapters\"", "\"tied_weights\": \"forbid\", \"adapters\""), ManifestSyntax::kJson);
  REQUIRE(forbid);
  CHECK(forbid->Id().Hex() == "f4c01d13305ca186f4100cebf110303164c16a0d64a3105a5d9b6759445ab01d");
}

TEST_CASE("rows 30, 31 and 42: files of another size or digest are refused, the size first", "[manifest]") {
  CHECK(Seal(VectorToml()) == "sealed");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.base.size = 16; }) == "E302 /base_model_size");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.base.hash.bytes[31] ^= 1; }) == "E303 /base_model_hash");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.base.size = 16, f.base.hash.bytes[31] ^= 1; }) == "E302 /base_model_size");
  CHECK(Seal(WithTop("tokenizer_size = 21")) == "E302 /tokenizer_size");
  CHECK(Seal(WithTop("tokenizer_hash = " + kOther)) == "E303 /tokenizer_hash");
  CHECK(Seal(WithLast("file_size = 21")) == "E302 /adapters/1/file_size");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.adapters[1].file_hash.bytes[0] ^= 1; }) == "E303 /adapters/1/file_hash");
  CHECK(Seal(WithLast("config_size = 30")) == "E302 /adapters/1/config_size");
  CHECK(Seal(WithLast("config_hash = " + kOther)) == "E303 /adapters/1/config_hash");
  CHECK(Seal(WithLast("config_hash = " + kOther), [](Facts& f) { f.adapters[1].config_hash.reset(); }) == "E301 /adapters/1/config_hash");
}

TEST_CASE("row 37: a target that stands in the manifest or in the adapter only is refused by name", "[manifest]") {
  const auto error = [](const std::function<void(Facts&)>& change) {
    const auto manifest = ParseManifest(VectorToml(), ManifestSyntax::kToml);
    Facts facts{VectorBase(), VectorAdapters(*manifest)};
    change(facts);
    return SealManifest(*manifest, facts.base, facts.adapters).error();
  };
  const Error extra = error([](Facts& f) { f.adapters[0].target_layers = {"model.layers.0.self_attn.q_proj"}; });
  CHECK(extra.code == Code::TARGET_UNKNOWN);
  CHECK(extra.at == "/adapters/0/target_layers");
  CHECK(extra.detail.find("model.layers.0.self_attn.v_proj") != std::string::npos);
  const Error missing = error([](Facts& f) { f.adapters[1].target_layers.insert(f.adapters[1].target_layers.begin(), "lm_head"); });
  CHECK(missing.code == Code::TARGET_UNKNOWN);
  CHECK(missing.at == "/adapters/1/target_layers");
  CHECK(missing.detail.find("lm_head") != std::string::npos);
  CHECK(Seal(EditToml("target_layers", "[\"model.layers.1.mlp.up_proj\"]", "[]")) == "E405 /adapters/1/target_layers");
  // Two names of one site, canonicalised by the caller, are one site.
  CHECK(Seal(VectorToml(),
             [](Facts& f) { f.adapters[1].claimed_targets = {"model.layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj"}; }) == "sealed");
}

TEST_CASE("rows 38 and 40 to 42: claims that the files contradict are refused", "[manifest]") {
  CHECK(Seal(VectorToml(), [](Facts& f) { f.adapters[1].rank = 16; }) == "E406 /adapters/1/rank");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.adapters[1].sparsity = Decimal(); }) == "E412 /adapters/1/sparsity");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.adapters[0].tied_targets = {"lm_head"}; }) == "E409 /adapters/0/target_layers");
  CHECK(Seal(EditToml("tied_weights", "\"forbid\"", "\"separate\""), [](Facts& f) { f.adapters[0].tied_targets = {"lm_head"}; }) ==
        "sealed");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.base.quantization = {"q8_0", "symmetric", 32}; }) == "E408 /quantization");
  CHECK(Seal(EditToml("block_size", "32", "64")) == "E408 /quantization");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.base.tokenizer_id = "gguf-llama-default"; }) == "E407 /tokenizer_id");
  CHECK(Seal(WithTop("base_format = \"hf\"")) == "E414 /base_format");
  CHECK(Seal(EditToml("version", "\"1\"", "\"2\"")) == "E413 /runtime");
  CHECK(Seal(EditToml("name", "\"veneer\"", "\"other\"")) == "E413 /runtime");
  CHECK(Seal(EditToml("kind", "\"lora\"", "\"org.example.other\"")) == "E401 /adapters/0/kind");
  CHECK(Seal(WithLast("format = \"gguf\"")) == "E401 /adapters/1/format");
}

TEST_CASE("seal: the class decides which of two failures is told, then the index", "[manifest]") {
  CHECK(Seal(EditToml("version", "\"1\"", "\"2\""), [](Facts& f) { f.adapters[1].file_hash.bytes[0] ^= 1; }) ==
        "E303 /adapters/1/file_hash");
  CHECK(Seal(VectorToml(), [](Facts& f) { f.adapters[1].rank = 1, f.adapters[0].sparsity = Decimal::FromFraction(1, 4); }) ==
        "E412 /adapters/0/sparsity");
}

TEST_CASE("seal: places are those of the document, also when load_order turns the adapters round", "[manifest]") {
  CHECK(Seal(EditToml("load_order", "10", "30"), [](Facts& f) { f.adapters[0].rank = 9; }) == "E406 /adapters/1/rank");
}

TEST_CASE("seal: names are checked again with what the files are", "[manifest]") {
  auto manifest = ParseManifest(VectorToml(), ManifestSyntax::kToml);
  REQUIRE(manifest);
  manifest->adapters[1].name = "style";
  auto adapters = VectorAdapters(*manifest);
  adapters[1].file_hash.bytes[0] ^= 1;  // another file
  CHECK(Outcome(SealManifest(*manifest, VectorBase(), adapters)) == "E206 /adapters/1/name");
  CHECK(Outcome(SealManifest(*manifest, VectorBase(), VectorAdapters(*manifest))) == "E215 /adapters/1");
  CHECK(Outcome(SealManifest(*manifest, VectorBase(), {})) == "E902 /adapters");
}

TEST_CASE("seal: a composition above 256 KiB is refused", "[manifest]") {
  CHECK(Seal(Replaced(VectorToml(), "target_layers = [\"model.layers.1.mlp.up_proj\"]\n", ""), [](Facts& f) {
          f.adapters[1].target_layers.clear();
          for (int i = 0; i < 4096; ++i) f.adapters[1].target_layers.push_back(fmt::format("{:064}", i));
        }) == "E214 ");
}
