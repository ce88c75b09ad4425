// veneer's own layout, for kinds of which one has the roles A [r, in] and B [out, r] and a parameter `scale`.
#include "core/adapter/native_reader.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/peft_adapter.h"

namespace {

const std::string kUp = Layer(0, "mlp.up_proj"), kQ = Layer(1, "self_attn.q_proj");

SafetensorsWriter OwnFile() {
  SafetensorsWriter file;
  file.SetMetadata("format", "veneer.lora");
  file.SetMetadata("format_version", "1");
  file.SetMetadata("scale", "1.5");
  file.Fill(kUp + ".A", {4, 64}, 0.5F);
  file.Fill(kUp + ".B", {96, 4}, 0.25F);
  return file;
}
veneer::Result<veneer::Adapter> Read(const SafetensorsWriter& file, veneer::AdapterRequest request = {}) {
  return veneer::ReadAdapter({InMemory(file.Bytes(), "own.safetensors"), std::nullopt}, *TinyBase(), TestCatalog(), request);
}
int CodeOf(const SafetensorsWriter& file, veneer::AdapterRequest request = {}) {
  const auto read = Read(file, std::move(request));
  return read ? 0 : static_cast<int>(read.error().code);
}
int CodeWith(const std::string& key, const std::string& value) {
  SafetensorsWriter file = OwnFile();
  file.SetMetadata(key, value);
  return CodeOf(file);
}

}  // namespace

TEST_CASE("native: metadata name the kind and its parameters, names end with its roles, GGUF names are translated") {
  SafetensorsWriter file = OwnFile();
  file.SetMetadata("producer", "somebody");
  file.Fill("blk.1.attn_v.A", {2, 64}, 1);
  file.Fill("blk.1.attn_v.B", {32, 2}, 1);
  const auto read = Read(file);
  if (!read) FAIL(read.error().Text());
  CHECK(read->kind == "lora");
  REQUIRE(read->sites.size() == 2);
  CHECK(read->sites[0].site == kUp);
  CHECK(read->sites[1].site == Layer(1, "self_attn.v_proj"));
  for (const veneer::AdapterSite& site : read->sites) {
    REQUIRE(site.source.params.size() == 1);
    CHECK(site.source.params[0].path == "/scale");
    CHECK(site.scale == 1.5);
    CHECK(site.source.params[0].d == 1.5);
  }
}

TEST_CASE("native: rows of a module that GGUF orders otherwise need their order said when the module has its GGUF name") {
  SafetensorsWriter file;
  file.SetMetadata("format", "veneer.lora");
  file.Fill("blk.1.attn_q.A", {2, 64}, 1);
  file.Fill("blk.1.attn_q.B", {64, 2}, 1);
  const auto read = Read(file);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == veneer::Code::FIELD_MISSING);
  CHECK(read.error().at == "/__metadata__/weight_layout");
  CHECK(read.error().detail.find(kQ) != std::string::npos);
  file.SetMetadata("weight_layout", "hf");
  CHECK(CodeOf(file) == 0);
  file.SetMetadata("weight_layout", "gguf");
  CHECK(CodeOf(file) == 401);
}

TEST_CASE("native: metadata of a file that is not in veneer's layout are free") {
  SafetensorsWriter file;
  file.SetMetadata("step", "100");
  file.Fill("base_model.model." + kUp + ".l_out", {96, 1}, 1);
  CHECK(CodeOf(file) == 0);
}

TEST_CASE("native: a version, a layout, a kind or a parameter that is not known is refused at its place") {
  CHECK(CodeWith("format_version", "2") == 401);
  CHECK(CodeWith("format", "veneer.nothing") == 415);
  CHECK(CodeWith("weight_layout", "columns") == 401);
  CHECK(CodeWith("weight_layout", "gguf") == 0);  // the same order on this module
  CHECK(CodeWith("scale", "big") == 213);
  CHECK(CodeWith("scale", "1e9") == 213);
  CHECK(CodeWith("rate", "2") == 213);
  CHECK(CodeWith("producer", "a test") == 0);
  SafetensorsWriter file = OwnFile();
  CHECK(CodeOf(file, {.kind = "ia3"}) == 415);
  file.SetMetadata("weight_layout", "gguf");
  file.Fill(kQ + ".A", {4, 64}, 1);
  file.Fill(kQ + ".B", {64, 4}, 1);
  CHECK(CodeOf(file) == 401);
  CHECK(Read(file).error().at == kQ);
}

TEST_CASE("native: the table of modules must be the file's modules, with their sizes") {
  CHECK(CodeWith("modules", R"({")" + kUp + R"(": {"rows": 96, "cols": 64}})") == 0);
  CHECK(CodeWith("modules", R"({")" + kUp + R"(": {"rows": 64, "cols": 96}})") == 404);
  CHECK(CodeWith("modules", R"({")" + kUp + R"(": {"nnz": 1}})") == 404);
  CHECK(CodeWith("modules", R"({})") == 419);
  CHECK(CodeWith("modules", R"({")" + kUp + R"(": {}, ")" + kQ + R"(": {}})") == 419);
  CHECK(CodeWith("modules", "[]") == 204);
}

TEST_CASE("native: every tensor must be a role of a module of the base") {
  SafetensorsWriter file = OwnFile();
  file.Fill(kUp + ".C", {4}, 1);
  CHECK(CodeOf(file) == 419);
  file = OwnFile();
  file.Fill("model.layers.9.mlp.up_proj.A", {4, 64}, 1);
  CHECK(CodeOf(file) == 405);
  file = OwnFile();
  file.Remove(kUp + ".B");
  CHECK(CodeOf(file) == 419);
  file = OwnFile();
  file.Fill(kUp + ".B", {97, 4}, 1);
  CHECK(CodeOf(file) == 404);
}

TEST_CASE("native: without metadata the names decide, if they are those of one kind; else the missing configuration is named") {
  SafetensorsWriter plain;
  plain.Fill("base_model.model." + kUp + ".l_out", {96, 1}, 1);
  const auto read = Read(plain);
  if (!read) FAIL(read.error().Text());
  CHECK(read->kind == "ia3");
  SafetensorsWriter peft;
  peft.Fill("base_model.model." + kUp + ".lora_A.weight", {4, 64}, 1);
  CHECK(CodeOf(peft) == 301);
  CHECK(Read(peft).error().Text().find("adapter_config.json") != std::string::npos);
  CHECK(CodeOf(peft, {.kind = "nothing"}) == 415);
  CHECK(CodeOf(peft, {.kind = "lora"}) == 420);
}

TEST_CASE("native: a file of the host's own kind replaces tensors, biases included, each once") {
  SafetensorsWriter file;
  file.SetMetadata("format", "veneer.replace");
  file.Fill("output.weight", {320, 64}, 1);
  file.Fill("model.norm.weight", {64}, 1);
  const auto read = Read(file);
  if (!read) FAIL(read.error().Text());
  CHECK(read->kind == "replace");
  CHECK(read->sites.empty());
  REQUIRE(read->replacements.size() == 2);
  CHECK(read->replacements[0].site == "lm_head");
  CHECK(read->replacements[1].site == "model.norm");
  CHECK(CodeOf(file, {.params = {{"scale", "2"}}}) == 213);
  file.Fill("lm_head.weight", {320, 64}, 1);
  CHECK(CodeOf(file) == 216);
  file.Remove("lm_head.weight");
  file.Fill("model.layers.7.mlp.up_proj.weight", {96, 64}, 1);
  CHECK(CodeOf(file) == 405);
}

TEST_CASE("params: a manifest's parameters take the place of the file's, typed and bounded by the kind's schema") {
  for (const bool is_peft : {false, true}) {
    const auto read = [&](const std::string& value) {
      return is_peft ? veneer::ReadAdapter({InMemory(LowRank().file.Bytes(), "w"), InMemory(LowRank().ConfigText(), "c")}, *TinyBase(),
                                           TestCatalog(), {.params = {{"scale", value}}})
                     : Read(OwnFile(), {.params = {{"scale", value}}});
    };
    const auto adapter = read("0.125");
    if (!adapter) FAIL(adapter.error().Text());
    for (const veneer::AdapterSite& site : adapter->sites) {
      REQUIRE(site.source.params.size() == 1);
      CHECK(site.source.params[0].d == 0.125);
      CHECK(site.scale == 0.125);
    }
    CHECK(read("much").error().code == veneer::Code::VALUE_UNKNOWN);
    CHECK(read("1e9").error().code == veneer::Code::VALUE_UNKNOWN);
  }
}
