// The import declarations against real adapter_config.json files: every key is either common to all tuners or ruled by the kind.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "core/format/json.h"
#include "tests/plugins/harness.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "veneer/import.h"

using namespace plugin_test;

namespace {

// Read by core for every tuner.
const std::set<std::string> kCommon = {"peft_type",
                                       "target_modules",
                                       "exclude_modules",
                                       "layers_to_transform",
                                       "layers_pattern",
                                       "modules_to_save",
                                       "task_type",
                                       "revision",
                                       "base_model_name_or_path",
                                       "inference_mode",
                                       "auto_mapping",
                                       "peft_version",
                                       "bias",
                                       "runtime_config",
                                       "trainable_token_indices",
                                       "target_parameters",
                                       "layer_replication",
                                       "fan_in_fan_out",
                                       "ensure_weight_tying"};

const vnr_import& ImportOf(const std::string& kind) {
  const vnr_kind& found = StaticKind(kind);
  return *static_cast<const vnr_import*>(found.get_extension(&found, VNR_IMPORT_ID));
}

// The first rule of `key` that matches the JSON text `value`, as veneer/import.h tells: the order counts, "pissa*" is a prefix.
const vnr_import_rule* Decide(const vnr_import& import, const std::string& key, const std::string& value) {
  const auto wanted = veneer::ParseJson(value, {});
  REQUIRE(wanted);
  for (std::uint32_t i = 0; i < import.n_rules; ++i) {
    const vnr_import_rule& rule = *import.rules[i];
    if (rule.key != key) continue;
    if (rule.values == nullptr) return &rule;
    const auto values = veneer::ParseJson(rule.values, {});
    REQUIRE(values);
    REQUIRE(values->is_array());
    for (const veneer::Json& allowed : values->elements) {
      const bool is_prefix = allowed.is_string() && allowed.text.ends_with('*');
      if (is_prefix ? wanted->is_string() && wanted->text.starts_with(allowed.text.substr(0, allowed.text.size() - 1))
                    : allowed.Dump() == wanted->Dump())
        return &rule;
    }
  }
  return nullptr;
}
bool HasRule(const vnr_import& import, const std::string& key) {
  return std::any_of(import.rules, import.rules + import.n_rules, [&](const vnr_import_rule* rule) { return rule->key == key; });
}

}  // namespace

TEST_CASE("imports: every key of every real adapter_config.json is common or ruled, and decided as its adapter needs") {
  const auto data = ExternalData();
  if (!data) return;
  int configs = 0;
  for (const auto& set : std::filesystem::directory_iterator(*data)) {
    if (!std::filesystem::is_directory(set.path() / "adapters")) continue;
    for (const auto& adapter : std::filesystem::directory_iterator(set.path() / "adapters")) {
      std::ifstream file(adapter.path() / "adapter_config.json");
      if (!file) continue;
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      const auto config = veneer::ParseJson(text, {});
      REQUIRE(config);
      const std::string type = config->Find("peft_type")->text, name = adapter.path().filename().string();
      const std::map<std::string, std::string> kind_of = {{"LORA", "lora"}, {"IA3", "ia3"}, {"SHIRA", "sparse-delta"}};
      if (!kind_of.contains(type)) continue;
      INFO(name);
      ++configs;
      const vnr_import& import = ImportOf(kind_of.at(type));
      CHECK(import.peft_type == type);
      bool is_selected = true, is_refused = false;
      for (const auto& [key, value] : config->members) {
        INFO(key);
        if (kCommon.contains(key)) {
          CHECK_FALSE(HasRule(import, key));  // core's business
          continue;
        }
        REQUIRE(HasRule(import, key));
        const vnr_import_rule* rule = Decide(import, key, value.Dump());
        const bool is_select_key = std::any_of(import.rules, import.rules + import.n_rules,
                                               [&](const vnr_import_rule* r) { return r->key == key && r->action == VNR_CFG_SELECT; });
        if (rule == nullptr && is_select_key) {
          is_selected = false;
          continue;
        }
        REQUIRE(rule != nullptr);
        if (rule->action == VNR_CFG_REFUSE || rule->action == VNR_CFG_BASE_CHANGED) is_refused = true;
      }
      CHECK(is_selected == (name != "thirdparty-dora"));
      CHECK(is_refused == (name == "refuse-pissa"));
    }
  }
  CHECK(configs >= 14);
}

TEST_CASE("imports: lora refuses the variants that change the maths or the base, each with its code and a reason") {
  const vnr_import& import = ImportOf("lora");
  const auto action = [&](const char* key, const char* value) {
    const vnr_import_rule* rule = Decide(import, key, value);
    if (rule == nullptr) return -1;
    if (rule->action == VNR_CFG_REFUSE || rule->action == VNR_CFG_BASE_CHANGED) CHECK(std::string(rule->text).size() > 20);
    return static_cast<int>(rule->action);
  };
  for (const char* value : {"\"pissa\"", "\"pissa_niter_16\"", "\"olora\"", "\"corda\"", "\"lora_ga\"", "\"loftq\""})
    CHECK(action("init_lora_weights", value) == VNR_CFG_BASE_CHANGED);
  for (const char* value : {"null", "true", "false", "\"gaussian\"", "\"eva\"", "\"orthogonal\"", "\"mica\""})
    CHECK(action("init_lora_weights", value) == VNR_CFG_ACCEPT);
  CHECK(action("init_lora_weights", "\"something_new\"") == -1);  // no rule matches: refused by the reader
  CHECK(action("kasa_config", R"({"beta":0.1})") == VNR_CFG_BASE_CHANGED);
  for (const char* key : {"use_qalora", "use_bdlora"}) {
    CHECK(action(key, "true") == VNR_CFG_REFUSE);
    CHECK(action(key, "false") == VNR_CFG_ACCEPT);
  }
  for (const char* key : {"velora_config", "monteclora_config", "arrow_config", "megatron_config"}) {
    CHECK(action(key, R"({"x":1})") == VNR_CFG_REFUSE);
    CHECK(action(key, "null") == VNR_CFG_ACCEPT);
  }
  CHECK(action("alora_invocation_tokens", "[1,2]") == VNR_CFG_REFUSE);
  CHECK(action("alora_invocation_tokens", "null") == VNR_CFG_ACCEPT);
  CHECK(action("use_dora", "false") == VNR_CFG_SELECT);
  CHECK(action("use_dora", "true") == -1);
}
