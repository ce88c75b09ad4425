#include "tests/core/manifest/facts.h"

#include <algorithm>
#include <string>

using namespace veneer;

namespace {

Digest FileHash(std::string_view text) { return Sha256::Of(std::string(text) + "\n"); }

AdapterFacts StyleFacts() {
  AdapterFacts facts;
  facts.kind = "lora";
  facts.format = "gguf";
  facts.file_hash = FileHash("veneer test adapter 0");
  facts.file_size = 22;
  facts.target_layers = {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj"};
  facts.rank = 16;
  return facts;
}

AdapterFacts SafetyFacts() {
  AdapterFacts facts;
  facts.kind = "lora";
  facts.format = "safetensors";
  facts.file_hash = FileHash("veneer test adapter 1");
  facts.file_size = 22;
  facts.config_hash = FileHash("veneer test adapter config 1");
  facts.config_size = 29;
  facts.target_layers = {"model.layers.1.mlp.up_proj"};
  facts.rank = 8;
  facts.sparsity = Decimal::FromFraction(1, 2);
  return facts;
}

}  // namespace

BaseFacts VectorBase() {
  BaseFacts facts;
  facts.hash = FileHash("veneer test base");
  facts.size = 17;
  facts.format = "gguf";
  facts.tokenizer_id = "test-bpe-v1";
  facts.tokenizer_hash = FileHash("veneer test tokenizer");
  facts.tokenizer_size = 22;
  facts.quantization = {"q4_0", "symmetric", 32};
  return facts;
}

std::vector<AdapterFacts> VectorAdapters(const Manifest& manifest) {
  std::vector<AdapterFacts> adapters;
  for (const AuthoredAdapter& entry : manifest.adapters) {
    AdapterFacts& facts = adapters.emplace_back(entry.name == "safety" ? SafetyFacts() : StyleFacts());
    facts.claimed_targets = entry.target_layers.value_or(std::vector<std::string>());
    std::ranges::sort(facts.claimed_targets);
  }
  return adapters;
}

Result<Composition> SealText(std::string_view text, ManifestSyntax syntax) {
  VENEER_ASSIGN(const Manifest manifest, ParseManifest(text, syntax));
  return SealManifest(manifest, VectorBase(), VectorAdapters(manifest));
}
