// The identity vectors: documents whose digests were computed by two other implementations.
#include <string>
#include <vector>

#include "core/manifest/composition.h"
#include "core/manifest/dsse.h"
#include "core/manifest/manifest.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

// The files are short texts, each ending in a newline.
Digest FileHash(std::string_view text) { return Sha256::Of(std::string(text) + "\n"); }

Decimal Weight(std::string_view text) { return Decimal::FromCanonical(text, "").value(); }

Composition MakeVector(std::vector<std::string> style_targets, std::vector<std::string> safety_targets) {
  Composition composition;
  composition.base_model_hash = FileHash("veneer test base");
  composition.base_model_size = 17;
  composition.base_format = "gguf";
  composition.tokenizer_id = "test-bpe-v1";
  composition.tokenizer_hash = FileHash("veneer test tokenizer");
  composition.tokenizer_size = 22;
  composition.quantization = {"q4_0", "symmetric", 32};
  composition.runtime_name = "veneer";
  composition.runtime_version = "1";
  composition.tied_weights = "forbid";
  AdapterEntry style;
  style.name = "style";
  style.kind = "lora";
  style.format = "gguf";
  style.file_hash = FileHash("veneer test adapter 0");
  style.file_size = 22;
  style.merge_weight = Weight("0.7");
  style.rank = 16;
  style.target_layers = std::move(style_targets);
  AdapterEntry safety;
  safety.name = "safety";
  safety.kind = "lora";
  safety.format = "safetensors";
  safety.file_hash = FileHash("veneer test adapter 1");
  safety.file_size = 22;
  safety.config_hash = FileHash("veneer test adapter config 1");
  safety.config_size = 29;
  safety.merge_weight = Weight("-0.25");
  safety.rank = 8;
  safety.sparsity = Weight("0.5");
  safety.target_layers = std::move(safety_targets);
  composition.adapters = {style, safety};
  return composition;
}

Composition GgufNames() { return MakeVector({"blk.0.attn_q", "blk.0.attn_v"}, {"blk.1.ffn_up"}); }
Composition SiteNames() {
  return MakeVector({"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj"}, {"model.layers.1.mlp.up_proj"});
}

// RFC 8032, section 7.1, test 1.
Ed25519Secret TestSecret() {
  return {0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
          0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};
}

struct Expected {
  std::size_t size;
  std::string id, swapped, nudged, statement, pre_authentication, signature;
};

void CheckVector(const Composition& composition, const Expected& expected) {
  CHECK(composition.Canonical().size() == expected.size);
  CHECK(composition.Id().Hex() == expected.id);

  Composition swapped = composition;
  std::swap(swapped.adapters[0], swapped.adapters[1]);
  CHECK(swapped.Id().Hex() == expected.swapped);

  Composition nudged = composition;
  nudged.adapters[0].merge_weight = Weight("0.70000001");
  CHECK(nudged.Id().Hex() == expected.nudged);

  const Statement statement{composition.Id(), "2026-01-02T03:04:05Z", "test", {}, 1, {}};
  CHECK(statement.Canonical().size() == 188);
  CHECK(Sha256::Of(statement.Canonical()).Hex() == expected.statement);
  const std::string signed_bytes = PreAuthentication(kStatementPayloadType, statement.Canonical());
  CHECK(signed_bytes.size() == 243);
  CHECK(Sha256::Of(signed_bytes).Hex() == expected.pre_authentication);
  const auto signature = SignEd25519(TestSecret(), signed_bytes);
  REQUIRE(signature);
  CHECK(ToHex(*signature) == expected.signature);

  for (const Composition& each : {composition, swapped, nudged}) {
    const auto parsed = Composition::Parse(each.Canonical());
    REQUIRE(parsed);
    CHECK(parsed->Canonical() == each.Canonical());
  }
}

constexpr std::string_view kGgufNamesText =
    R"({"adapters":[{"file_hash":"sha256:4aa7bc426736ea96f2bc4b0e35ff3867909496e53dc81c09343195e2581543b6","file_size":22,"format":"gguf","kind":"lora","load_order":0,"merge_weight":"0.7","name":"style","rank":16,"sparsity":"0","target_layers":["blk.0.attn_q","blk.0.attn_v"]},{"config_hash":"sha256:5d95ea829a551739583d50a57436f9b3290bf46b3501d5de4ef17433bb5bda09","config_size":29,"file_hash":"sha256:8433627bcbb19858e3ded864d3ef38fde896989ec7a37d17b60488b446d2228f","file_size":22,"format":"safetensors","kind":"lora","load_order":1,"merge_weight":"-0.25","name":"safety","rank":8,"sparsity":"0.5","target_layers":["blk.1.ffn_up"]}],"base_format":"gguf","base_model_hash":"sha256:37265981c449d4ea80cc0bddf90294af539e354a52d8183ab0b3490b82e58f8b","base_model_size":17,"quantization":{"block_size":32,"dtype":"q4_0","scheme":"symmetric"},"runtime":{"name":"veneer","version":"1"},"schema":"veneer.composition/1","tied_weights":"forbid","tokenizer_hash":"sha256:f6c2191a7bcb9015e0a128d4ea06e1e0d3e106ff8fd5eee93ebe11dd280299d4","tokenizer_id":"test-bpe-v1","tokenizer_size":22})";

}  // namespace

TEST_CASE("vector: the composition with GGUF site names prints the published 1,070 bytes and has the published digests", "[manifest]") {
  CHECK(GgufNames().Canonical() == kGgufNamesText);
  CheckVector(GgufNames(),
              {1070, "fdae6fd666f24d65d8f223548545ba5ddcfa6a5fed4d462ec8a3e3c554c529eb",
               "023c653eb51a129a43a27bf098858b73e2ac69812fa91c615151806a02b1a027",
               "3e4edd9b204a2d2508bd4a649030de2a6548e4760b948c1e2cfa9d0e732826c0",
               "b1636a8fd07d7eecc088bad34a689c1f204af254f26f2a58a8798bbeebde8e93",
               "7dba288457d5c1afee471c90e279a5a9a7dfe28913a84df4e50bca062674d876",
               "b80371319ef41cc7ce8d6d367e3d1ce9b503bf4b25a2a0b58329702df66d56a89cd5b01cb203b7dece9d77a8c3f98262b422e35810f11df44"
               "820c8143e3b0f0a"});
}

TEST_CASE("vector: the composition with Hugging Face site names has 1,122 bytes and the published digests", "[manifest]") {
  CheckVector(SiteNames(),
              {1122, "f4c01d13305ca186f4100cebf110303164c16a0d64a3105a5d9b6759445ab01d",
               "54c13c6b26cf0b5c10803794cb2d852ed03503620c5083ce470912a49ae9e940",
               "41eafb24e9f687286cab6d484a8f69e32efe724a96e06227cf9870daac61e495",
               "7d164e2bc425851feee81e8c1ca00d7afcee436917fdf419bcf7a3b34ae0eea4",
               "95ba2720e84115abe393a824767003c60403d58d5b7e6cfbe289d4d21d38c929",
               "0d041a08b220635288e2b67e88480e1f752b7df8a8ee34b900a0d52bc3861774ff100c11108e19f3108387507132adb46ed603b5268550598"
               "ba0929d53262602"});
}
