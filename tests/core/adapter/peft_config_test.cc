#include <string>

#include "tests/support/peft_adapter.h"
#include "tests/support/catch.h"

namespace {

bool Says(const PeftAdapter& adapter, const std::string& words) { return adapter.ErrorText().find(words) != std::string::npos; }

// Low-rank factors on exactly these modules of the tiny base.
PeftAdapter On(const std::vector<std::string>& modules, const std::string& targets) {
  PeftAdapter adapter;
  adapter.config = LowRank().config;
  adapter.Key("target_modules", targets);
  for (const std::string& module : modules) {
    const veneer::Site* site = TinyBase()->sites().Find(module);
    if (site == nullptr) throw std::runtime_error(module);
    adapter.AddLowRank(module, site->out, site->in, 4);
  }
  return adapter;
}
std::vector<std::string> BothLayers(const std::vector<std::string>& modules) {
  std::vector<std::string> all;
  for (const int layer : {0, 1})
    for (const std::string& module : modules) all.push_back(Layer(layer, module));
  return all;
}
const std::vector<std::string> kAllLinear = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                             "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

}  // namespace

TEST_CASE("config: one set of modules reads under list, string and default alike") {
  const auto modules = BothLayers({"self_attn.q_proj", "self_attn.v_proj"});
  for (const char* targets : {R"(["q_proj","v_proj"])", R"(".*\\.(q|v)_proj")", R"(["self_attn.q_proj","self_attn.v_proj"])", "null",
                              R"(["model.layers.0.self_attn.q_proj","model.layers.1.self_attn.q_proj","v_proj"])"}) {
    CAPTURE(targets);
    const auto read = On(modules, targets).Read();
    if (!read) FAIL(read.error().Text());
    CHECK(read->sites.size() == 4);
  }
  CHECK(On(modules, R"(["_attn.q_proj","_attn.v_proj"])").CodeOf() == 405);  // an entry begins where a name begins
  CHECK(On(modules, R"("(q|v)_proj")").CodeOf() == 405);                     // a string matches the whole path
  CHECK(On(modules, R"(["q_proj","v_proj","x"])").CodeOf() == 0);            // an entry that names nothing here
  CHECK(On(modules, "4").CodeOf() == 204);
  CHECK(On(modules, "[4]").CodeOf() == 204);
  CHECK(On(modules, R"("(")").CodeOf() == 103);
}

TEST_CASE("config: all-linear is every layer's projections, and not the head") {
  CHECK(On(BothLayers(kAllLinear), R"("all-linear")").CodeOf() == 0);
  auto with_head = BothLayers(kAllLinear);
  with_head.push_back("lm_head");
  CHECK(On(with_head, R"("all-linear")").CodeOf() == 405);
  CHECK(On(BothLayers({"self_attn.q_proj"}), R"("all-linear")").CodeOf() == 405);
}

TEST_CASE("config: exclude_modules wins over target_modules") {
  PeftAdapter adapter = On({Layer(0, "self_attn.q_proj")}, R"(["q_proj","v_proj"])");
  CHECK(adapter.Key("exclude_modules", R"(["v_proj","layers.1.self_attn.q_proj"])").CodeOf() == 0);
  CHECK(adapter.Key("exclude_modules", R"("model\\.layers\\.1.*|.*v_proj")").CodeOf() == 0);
  CHECK(adapter.Key("exclude_modules", R"(["v_proj"])").CodeOf() == 405);
}

TEST_CASE("config: layers_to_transform narrows a list of targets, as a number or a list") {
  PeftAdapter adapter = On({Layer(1, "self_attn.q_proj")}, R"(["q_proj"])");
  CHECK(adapter.CodeOf() == 405);
  CHECK(adapter.Key("layers_to_transform", "1").CodeOf() == 0);
  CHECK(adapter.Key("layers_to_transform", "[1]").CodeOf() == 0);
  CHECK(adapter.Key("layers_pattern", "\"layers\"").CodeOf() == 0);
  CHECK(adapter.Key("layers_pattern", R"(["layers"])").CodeOf() == 0);
  CHECK(adapter.Key("layers_pattern", "\"h\"").CodeOf() == 420);
  adapter.config.erase("layers_pattern");
  CHECK(adapter.Key("layers_to_transform", "[0]").CodeOf() == 405);
  CHECK(adapter.Key("layers_to_transform", "[-1]").CodeOf() == 107);
  CHECK(adapter.Key("layers_to_transform", "1").Key("target_modules", R"(".*q_proj")").CodeOf() == 401);
}

TEST_CASE("config: a key that nobody knows passes with an inert value only") {
  for (const char* inert : {"null", "false", "\"\"", "[]", "{}"}) CHECK(LowRank().Key("new_field", inert).CodeOf() == 0);
  for (const char* active : {"true", "1", "0", "\"x\"", "[1]", R"({"a":1})"}) {
    CAPTURE(active);
    PeftAdapter adapter = LowRank();
    adapter.Key("new_field", active);
    CHECK(adapter.CodeOf() == 401);
    CHECK(Says(adapter, "/new_field"));
  }
}

TEST_CASE("config: initialisations that changed the base are E418 with the way to convert; the others pass") {
  for (const char* init : {"\"pissa\"", "\"pissa_niter_16\"", "\"olora\"", "\"corda\"", "\"loftq\"", "\"lora_ga\""}) {
    CAPTURE(init);
    PeftAdapter adapter = LowRank();
    adapter.Key("init_lora_weights", init);
    CHECK(adapter.CodeOf() == 418);
    CHECK(Says(adapter, "path_initial_model_for_weight_conversion"));
    CHECK(Says(adapter, "/init_lora_weights"));
  }
  for (const char* init : {"true", "false", "null", "\"gaussian\"", "\"eva\"", "\"orthogonal\"", "\"mica\""}) {
    CAPTURE(init);
    CHECK(LowRank().Key("init_lora_weights", init).CodeOf() == 0);
  }
  CHECK(LowRank().Key("init_lora_weights", "\"something_new\"").CodeOf() == 401);
  CHECK(LowRank().Key("kasa_config", R"({"beta": 0.1})").CodeOf() == 418);
}

TEST_CASE("config: variants that compute something else are refused by key, value and reason") {
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"use_qalora", "true"},
                                                                                   {"use_bdlora", "true"},
                                                                                   {"velora_config", R"({"a":1})"},
                                                                                   {"monteclora_config", R"({"a":1})"},
                                                                                   {"arrow_config", R"({"a":1})"},
                                                                                   {"alora_invocation_tokens", "[1,2]"},
                                                                                   {"megatron_config", R"({"a":1})"},
                                                                                   {"target_parameters", R"(["mlp.experts"])"},
                                                                                   {"layer_replication", "[[0,1],[0,1]]"},
                                                                                   {"fan_in_fan_out", "true"},
                                                                                   {"ensure_weight_tying", "true"},
                                                                                   {"task_type", "\"SEQ_CLS\""},
                                                                                   {"task_type", "1"}}) {
    CAPTURE(key, value);
    PeftAdapter adapter = LowRank();
    adapter.Key(key, value);
    CHECK(adapter.CodeOf() == 401);
    CHECK(Says(adapter, "/" + key + " " + veneer::ParseJson(value)->Dump()));
    CHECK(adapter.Key(key, "null").CodeOf() == 0);
  }
}

TEST_CASE("config: a peft_type or variant that no installed kind reads is E415, naming type, variant and what there is") {
  PeftAdapter unknown = LowRank();
  unknown.Key("peft_type", "\"SHIRA\"");
  CHECK(unknown.CodeOf() == 415);
  CHECK(Says(unknown, "SHIRA"));
  CHECK(Says(unknown, "lora (LORA)"));
  PeftAdapter variant = LowRank();
  variant.Key("use_dora", "true");
  CHECK(variant.CodeOf() == 415);
  CHECK(Says(variant, "use_dora"));
  PeftAdapter none = LowRank();
  none.config.erase("peft_type");
  CHECK(none.CodeOf() == 203);
  CHECK(LowRank().Key("peft_type", "7").CodeOf() == 204);
}

TEST_CASE("config: a kind that is asked for must read the file") {
  CHECK(LowRank().Read(*TinyBase(), "lora"));
  const auto wrong = LowRank().Read(*TinyBase(), "ia3");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == veneer::Code::KIND_UNKNOWN);
}

TEST_CASE("config: another base's name is a note, not an error") {
  const auto read = LowRank().Key("base_model_name_or_path", "\"somebody/another-model\"").Read();
  REQUIRE(read);
  REQUIRE(read->notes.size() == 1);
  CHECK(read->notes[0].find("somebody/another-model") != std::string::npos);
  CHECK(LowRank().Read()->notes.empty());
}

TEST_CASE("config: what is no JSON object, or says a key twice, is refused") {
  const auto parse = [](const std::string& text) {
    veneer::AdapterFiles files{InMemory(LowRank().file.Bytes()), InMemory(text, "adapter_config.json")};
    const auto read = veneer::ReadAdapter(std::move(files), *TinyBase(), TestCatalog());
    return read ? 0 : static_cast<int>(read.error().code);
  };
  CHECK(parse(LowRank().ConfigText()) == 0);
  CHECK(parse("[]") == 204);
  CHECK(parse("{") == 103);
  CHECK(parse(R"({"peft_type":"LORA","r":4,"r":8})") == 105);
  CHECK(parse(R"({"peft_type":"LORA","r":NaN})") == 103);
}

TEST_CASE("config: adapted parameters, repeated layers, QALoRA and aLoRA are refused by name with the reason") {
  CHECK(Says(LowRank().Key("target_parameters", R"(["mlp.experts.gate_up_proj"])"), "raw parameters (fused experts)"));
  CHECK(Says(LowRank().Key("layer_replication", "[[0,2],[1,2]]"), "changes the architecture"));
  CHECK(Says(LowRank().Key("use_qalora", "true"), "pools the input over groups"));
  CHECK(Says(LowRank().Key("alora_invocation_tokens", "[7]"), "only from an invocation sequence onward"));
}
