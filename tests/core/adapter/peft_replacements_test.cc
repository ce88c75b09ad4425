// Replacement tensors in PEFT checkpoints. The tiny base: hidden 64, ffn 96, vocabulary 320, two layers.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/peft_adapter.h"

namespace {

const std::string kPrefix = "base_model.model.";
const std::string kHead = kPrefix + "lm_head.weight";
const std::string kRows = kPrefix + "model.embed_tokens.token_adapter.trainable_tokens_delta";

PeftAdapter WithHead() {
  PeftAdapter adapter = LowRank().Key("modules_to_save", R"(["lm_head"])");
  adapter.file.Fill(kHead, {320, 64}, 1);
  return adapter;
}
PeftAdapter WithRows(const std::string& tokens) {
  PeftAdapter adapter = LowRank().Key("trainable_token_indices", tokens);
  adapter.file.SetF32(kRows, {2, 64}, std::vector<float>(128, 0.5F));
  return adapter;
}
std::vector<float> RowsOfBase(const std::string& id) {
  const veneer::Site& site = *TinyBase()->sites().Find(id);
  std::vector<float> values(site.out * site.in);
  veneer::ReadRows(site, 0, site.out, values.data(), site.in);
  return values;
}

}  // namespace

TEST_CASE("replacements: a saved module, and a saved copy of embedding or head, under every spelling replaces its site") {
  struct Spelling {
    std::string name, site;
    bool is_saved;  // asks for modules_to_save
  };
  for (const Spelling& one :
       {Spelling{"lm_head.weight", "lm_head", false}, Spelling{"lm_head.weight", "lm_head", true},
        Spelling{"model.embed_tokens.weight", "model.embed_tokens", false},
        Spelling{"model.embed_tokens.base_layer.weight", "model.embed_tokens", false},
        Spelling{"lm_head.modules_to_save.weight", "lm_head", true}, Spelling{"lm_head.modules_to_save.default.weight", "lm_head", true}}) {
    CAPTURE(one.name, one.is_saved);
    PeftAdapter adapter = LowRank();
    if (one.is_saved) adapter.Key("modules_to_save", R"(["lm_head"])");
    adapter.file.Fill(kPrefix + one.name, {320, 64}, 1);
    const auto read = adapter.Read();
    if (!read) FAIL(read.error().Text());
    REQUIRE(read->replacements.size() == 1);
    CHECK(read->replacements[0].site == one.site);
    CHECK(read->replacements[0].rows.empty());
    CHECK(read->kind == "lora");
    CHECK(read->sites.size() == 4);
    CHECK(Notes(*read, "differs from the base's tensor and replaces it"));
  }
}

TEST_CASE("replacements: an entry of modules_to_save may name a module that has others in it, and all of those are saved") {
  for (const std::string entry : {"mlp", "layers.1.mlp", "layers.1"}) {
    CAPTURE(entry);
    PeftAdapter adapter = LowRank();
    adapter.Key("modules_to_save", "[\"" + entry + "\"]");
    if (entry == "layers.1") {  // saved whole: no target any more
      for (const char* const name : {"q_proj.lora_A", "q_proj.lora_B", "v_proj.lora_A", "v_proj.lora_B"})
        adapter.file.Remove(kPrefix + Layer(1, "self_attn.") + name + ".weight");
    }
    adapter.file.Fill(kPrefix + Layer(1, "mlp.gate_proj.weight"), {96, 64}, 1);
    adapter.file.Fill(kPrefix + Layer(1, "mlp.up_proj.weight"), {96, 64}, 1);
    adapter.file.Fill(kPrefix + Layer(1, "mlp.down_proj.weight"), {64, 96}, 1);
    const auto read = adapter.Read();
    if (!read) FAIL(read.error().Text());
    CHECK(read->replacements.size() == 3);
    CHECK(read->sites.size() == (entry == "layers.1" ? 2 : 4));
  }
  PeftAdapter other = LowRank();
  other.Key("modules_to_save", R"(["layers.0.mlp"])").file.Fill(kPrefix + Layer(1, "mlp.up_proj.weight"), {96, 64}, 1);
  CHECK(other.CodeOf() == 419);
}

TEST_CASE("replacements: a saved copy that equals the base bit for bit is left out with a note; one bit more and it replaces") {
  PeftAdapter adapter = LowRank();
  std::vector<float> copy = RowsOfBase("model.embed_tokens");
  adapter.file.SetF32(kPrefix + "model.embed_tokens.base_layer.weight", {320, 64}, copy);
  auto read = adapter.Read();
  if (!read) FAIL(read.error().Text());
  CHECK(read->replacements.empty());
  CHECK(Ignores(*read, "equals the base's tensor bit for bit"));
  copy.back() = std::nextafter(copy.back(), 10.0F);
  adapter.file.SetF32(kPrefix + "model.embed_tokens.base_layer.weight", {320, 64}, copy);
  read = adapter.Read();
  REQUIRE(read);
  CHECK(read->replacements.size() == 1);
}

TEST_CASE("replacements: trainable tokens are rows in the order of the list, kept by ascending token") {
  const auto untied = OpenTiny({.tied = false});
  for (const std::string tokens : {"[300, 7]", R"({"embed_tokens": [300, 7]})"}) {
    const auto read = WithRows(tokens).Read(*untied);
    if (!read) FAIL(read.error().Text());
    REQUIRE(read->replacements.size() == 1);
    const veneer::Replacement& one = read->replacements[0];
    CHECK(one.site == "model.embed_tokens");
    REQUIRE(one.rows.size() == 2);
    CHECK((one.rows[0].lane == 7 && one.rows[0].index == 1));
    CHECK((one.rows[1].lane == 300 && one.rows[1].index == 0));
  }
}

TEST_CASE("replacements: lists of tokens that do not fit are refused by place") {
  CHECK(WithRows("[7, 7]").CodeOf() == 216);
  CHECK(WithRows("[7, 320]").CodeOf() == 405);
  CHECK(WithRows("[7, 8, 9]").CodeOf() == 404);
  CHECK(WithRows("null").CodeOf() == 203);
  CHECK(WithRows(R"({"lm_head": [1, 2]})").CodeOf() == 203);
  CHECK(WithRows("[1.5, 2]").CodeOf() == 107);
  CHECK(LowRank().Key("trainable_token_indices", "[1]").CodeOf() == 405);
}

TEST_CASE("replacements: file and configuration must agree on what is saved") {
  CHECK(LowRank().Key("modules_to_save", R"(["lm_head"])").CodeOf() == 405);
  CHECK(LowRank().Key("modules_to_save", R"(["score"])").CodeOf() == 405);
  PeftAdapter unasked = LowRank();
  unasked.file.Fill(kPrefix + Layer(0, "mlp.up_proj.weight"), {96, 64}, 1);
  CHECK(unasked.CodeOf() == 419);
  CHECK(unasked.Key("modules_to_save", R"(["up_proj"])").CodeOf() == 0);
  PeftAdapter twice = WithHead();
  twice.file.Fill(kPrefix + "lm_head.modules_to_save.weight", {320, 64}, 1);
  CHECK(twice.CodeOf() == 216);
}

TEST_CASE("replacements: another shape, another type and values that are not finite are refused") {
  PeftAdapter adapter = WithHead();
  adapter.file.Fill(kHead, {321, 64}, 1);
  CHECK(adapter.CodeOf() == 404);
  CHECK(adapter.ErrorText().find("[321, 64]") != std::string::npos);
  CHECK(adapter.ErrorText().find("[320, 64]") != std::string::npos);
  adapter.file.Set(kHead, "I32", {320, 64}, std::string(320 * 64 * 4, '\0'));
  CHECK(adapter.CodeOf() == 401);
  adapter.file.Fill(kHead, {320, 64}, std::numeric_limits<float>::infinity());
  CHECK(adapter.CodeOf() == 411);
}

TEST_CASE("replacements: trained biases replace the bias of a base that has one, when the bias mode says so") {
  const auto biased = OpenTiny({.biases = true});
  for (const std::string name : {"self_attn.q_proj.bias", "self_attn.q_proj.base_layer.bias"}) {
    PeftAdapter adapter = LowRank().Key("bias", "\"lora_only\"");
    adapter.file.Fill(kPrefix + Layer(0, name), {64}, 1);
    const auto read = adapter.Read(*biased);
    if (!read) FAIL(read.error().Text());
    REQUIRE(read->replacements.size() == 1);
    CHECK(read->replacements[0].site == Layer(0, "self_attn.q_proj.bias"));
    CHECK(adapter.CodeOf() == 405);  // the other base has no biases
    adapter.Key("bias", "\"none\"");
    CHECK(adapter.Read(*biased).error().code == veneer::Code::TENSOR_UNMATCHED);
  }
  CHECK(LowRank().Key("bias", "\"some\"").CodeOf() == 401);
}

TEST_CASE("replacements: a tensor that begins at an odd byte of the file is read at an aligned one") {
  PeftAdapter adapter = LowRank().Key("modules_to_save", R"(["lm_head","norm"])");
  adapter.file.Set(kPrefix + "model.norm.weight", "F16", {64}, std::string(128, '\x11'));
  adapter.file.SetF32(kHead, {320, 64}, std::vector<float>(std::size_t{320} * 64, 0.25F));
  std::string bytes = adapter.file.Bytes();
  // One blank more in the header moves all data by a byte.
  bytes[0] = static_cast<char>(bytes[0] + 1);
  REQUIRE(bytes[0] != 0);
  bytes.insert(bytes.find("}}") + 2, " ");
  veneer::AdapterFiles files{InMemory(bytes, "adapter_model.safetensors"), InMemory(adapter.ConfigText(), "adapter_config.json")};
  const auto read = veneer::ReadAdapter(std::move(files), *TinyBase(), TestCatalog());
  if (!read) FAIL(read.error().Text());
  REQUIRE(read->replacements.size() == 2);
  for (const veneer::Replacement& one : read->replacements)
    CHECK(reinterpret_cast<std::uintptr_t>(one.tensor.bytes.data()) % (one.site == "lm_head" ? 4 : 2) == 0);
  float value = 0;
  std::memcpy(&value, read->replacements[0].tensor.bytes.data(), sizeof value);
  CHECK(value == 0.25F);
}
