#include "core/adapter/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/adapter/names.h"

namespace veneer {
namespace {

constexpr std::size_t kMaxPatterns = 512;
constexpr double kMaxRank = 65536;
constexpr JsonLimits kConfigLimits{.bytes = 1 << 20, .depth = 8, .items = 50'000};

// Keys that say nothing about the computation whatever their value, or that are read here or in peft_replacements.cc.
constexpr std::array kCommon{"peft_type",
                             "base_model_name_or_path",
                             "revision",
                             "inference_mode",
                             "auto_mapping",
                             "peft_version",
                             "runtime_config",
                             "target_modules",
                             "exclude_modules",
                             "layers_pattern",
                             "task_type",
                             "bias",
                             "layers_to_transform",
                             "modules_to_save",
                             "trainable_token_indices"};

struct Refusal {
  const char* key;
  const char* why;
};
// Common keys that ask for something this reader does not do; accepted with an inert value.
constexpr std::array kRefused{
    Refusal{"target_parameters", "adapts raw parameters (fused experts), which this version does not; target modules instead"},
    Refusal{"layer_replication", "repeats layers and so changes the architecture, which an overlay cannot; no remedy but another adapter"},
    Refusal{"fan_in_fan_out",
            "is for bases that store weights transposed, which this architecture does not; the adapter was made for another base"},
    Refusal{"ensure_weight_tying", "ties the head to the embedding; here they are two sites: leave it out and target both"},
};

// A value as an alternative of a rule: equal text and type; a trailing '*' matches by prefix.
bool MatchesValue(const Json* value, const Json& alternative) {
  if (value == nullptr) return alternative.is_null();
  if (alternative.is_string() && alternative.text.ends_with('*') && value->is_string())
    return value->text.starts_with(std::string_view(alternative.text).substr(0, alternative.text.size() - 1));
  return value->type == alternative.type && value->Dump() == alternative.Dump();
}

Result<bool> MatchesRule(const Json* value, const ImportRule& rule) {
  if (!rule.values) return true;
  auto alternatives = ParseJson(*rule.values);
  if (!alternatives || !alternatives->is_array())
    return Fail(Code::PLUGIN_FAULT, rule.key, "the kind's import rule has no array of values; ask the plugin's author for a corrected one");
  return std::ranges::any_of(alternatives->elements, [value](const Json& one) { return MatchesValue(value, one); });
}

// Every key that has SELECT rules must match one of them.
Result<bool> Selects(const ImportDecl& import, const Json& document) {
  for (const ImportRule& rule : import.rules) {
    if (rule.action != VNR_CFG_SELECT) continue;
    bool matches = false;
    for (const ImportRule& other : import.rules) {
      if (other.action != VNR_CFG_SELECT || other.key != rule.key) continue;
      VENEER_ASSIGN(const bool one, MatchesRule(document.Find(rule.key), other));
      matches = matches || one;
    }
    if (!matches) return false;
  }
  return true;
}

}  // namespace

Result<ModuleList> ModuleList::Parse(const Json& value, Suffix suffix) {
  ModuleList list;
  list.suffix_ = suffix;
  if (value.is_string()) {
    VENEER_ASSIGN(list.pattern_, Pattern::Full(value.text, value.at));
    return list;
  }
  if (!value.is_array()) return Fail(Code::FIELD_TYPE, value.at, "write a regular expression or a list of module names");
  for (const Json& element : value.elements) {
    VENEER_ASSIGN(list.names_.emplace_back(), element.String());
  }
  return list;
}

Result<bool> ModuleList::Matches(std::string_view module) const {
  if (pattern_) return pattern_->Matches(module);
  return std::ranges::any_of(names_, [&](const std::string& name) {
    return module == name || (suffix_ == Suffix::kPlain ? module.ends_with(name) : module.ends_with("." + name));
  });
}

const Json* PeftConfig::Find(std::string_view key) const {
  const Json* value = document_->Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<PeftConfig> PeftConfig::Parse(std::string_view text, const Catalog& catalog, std::string_view wanted) {
  PeftConfig config;
  VENEER_ASSIGN(Json document, ParseJson(text, kConfigLimits));
  if (!document.is_object()) return Fail(Code::FIELD_TYPE, "", "adapter_config.json must hold an object");
  config.document_ = std::make_shared<const Json>(std::move(document));
  VENEER_TRY(config.SelectKind(catalog, wanted));
  VENEER_TRY(config.ApplyRules());
  VENEER_TRY(config.CheckCommon());
  VENEER_TRY(config.ReadScale());
  return config;
}

Status PeftConfig::SelectKind(const Catalog& catalog, std::string_view wanted) {
  VENEER_ASSIGN(const Json* type, document_->Get("peft_type"));
  VENEER_ASSIGN(const std::string peft_type, type->String());
  std::string importers;
  for (const KindDecl* kind : catalog.Importers()) {
    importers += fmt::format("{}{} ({})", importers.empty() ? "" : ", ", kind->id, kind->import->peft_type);
    if (kind->import->peft_type != peft_type || (!wanted.empty() && kind->id != wanted)) continue;
    VENEER_ASSIGN(const bool fits, Selects(*kind->import, *document_));
    if (!fits) continue;
    if (kind_ != nullptr && kind_->id != kind->id)
      return Fail(Code::PLUGIN_REFUSED, "/peft_type",
                  fmt::format("both {} and {} read this adapter; choose with --kind", kind_->id, kind->id));
    kind_ = kind;
  }
  if (kind_ != nullptr) return {};
  std::string variant;
  for (const auto& [key, value] : document_->members)
    if (key.starts_with("use_") && value.type == Json::Type::kBool && value.boolean) variant += fmt::format(" with {}", key);
  return Fail(
      Code::KIND_UNKNOWN, "/peft_type",
      fmt::format("no installed plugin{} reads a {} adapter{}; there are: {}", wanted.empty() ? "" : fmt::format(" of kind {}", wanted),
                  peft_type, variant, importers.empty() ? "none" : importers));
}

Status PeftConfig::ApplyRules() const {
  for (const auto& [key, value] : document_->members) {
    const bool is_common = std::ranges::find(kCommon, key) != kCommon.end() ||
                           std::ranges::any_of(kRefused, [&name = key](const Refusal& refusal) { return name == refusal.key; });
    bool has_rules = false, is_decided = false;
    for (const ImportRule& rule : import().rules) {
      if (rule.key != key) continue;
      has_rules = true;
      VENEER_ASSIGN(const bool matches, MatchesRule(&value, rule));
      if (!matches) continue;
      is_decided = true;
      if (rule.action == VNR_CFG_REFUSE) return Fail(Code::FORMAT_UNSUPPORTED, value.at, fmt::format("{}: {}", value.Dump(), rule.text));
      if (rule.action == VNR_CFG_BASE_CHANGED)
        return Fail(Code::BASE_CHANGED_BY_INIT, value.at, fmt::format("{}: {}", value.Dump(), rule.text));
      break;
    }
    if (is_decided || is_common || (!has_rules && value.is_inert())) continue;
    return Fail(Code::FORMAT_UNSUPPORTED, value.at,
                fmt::format("{} is not understood by kind {} and may change the result; remove the key if it does not",
                            value.Dump().substr(0, 120), kind_->id));
  }
  return {};
}

Status PeftConfig::CheckCommon() {
  for (const auto& [key, why] : kRefused) {
    const Json* value = document_->Find(key);
    if (value != nullptr && !value->is_inert())
      return Fail(Code::FORMAT_UNSUPPORTED, value->at, fmt::format("{}: {}", value->Dump().substr(0, 120), why));
  }
  if (const Json* task = Find("task_type"); task != nullptr && (!task->is_string() || task->text != "CAUSAL_LM"))
    return Fail(Code::FORMAT_UNSUPPORTED, "/task_type", fmt::format("{}, only \"CAUSAL_LM\" (or null) is decoded here", task->Dump()));
  if (const Json* base = Find("base_model_name_or_path"); base != nullptr && !base->text.empty())
    notes_.push_back(fmt::format("its configuration names the base '{}' (not checked; shapes are)", base->text));
  return {};
}

Result<std::vector<std::string>> PeftConfig::Targets(const Base& base) const {
  const Json* targets = Find("target_modules");
  Json defaults;
  if (targets == nullptr) {
    VENEER_ASSIGN(const Json by_arch, ParseJson(import().default_targets.empty() ? "{}" : import().default_targets));
    const Json* found = by_arch.Find(base.config().arch);
    if (found == nullptr)
      return Fail(Code::FIELD_MISSING, "/target_modules",
                  fmt::format("is null, and there is no default for architecture {}", base.config().arch));
    defaults = *found;
    targets = &defaults;
  }
  const bool is_all_linear = targets->is_string() && targets->text == "all-linear";
  VENEER_ASSIGN(const ModuleList listed, ModuleList::Parse(*targets, ModuleList::Suffix::kDotted));
  std::optional<ModuleList> excluded;
  if (const Json* value = Find("exclude_modules")) {
    VENEER_ASSIGN(excluded, ModuleList::Parse(*value, ModuleList::Suffix::kDotted));
  }
  // PEFT puts no adapter on a module that it saves whole. It matches these by whole segments here, although it saves by plain ending.
  std::optional<ModuleList> saved;
  if (const Json* value = Find("modules_to_save"); value != nullptr && value->is_array()) {
    VENEER_ASSIGN(saved, ModuleList::Parse(*value, ModuleList::Suffix::kDotted));
  }
  std::optional<std::vector<std::uint64_t>> layers;
  if (const Json* value = Find("layers_to_transform"); value != nullptr && !value->is_inert()) {
    if (targets->is_string())
      return Fail(Code::FORMAT_UNSUPPORTED, value->at, "does not go together with a regular expression in target_modules");
    layers.emplace();
    for (const Json& one : value->is_array() ? value->elements : std::vector<Json>{*value}) {
      VENEER_ASSIGN(layers->emplace_back(), one.U64());
    }
  }
  if (const Json* value = Find("layers_pattern"); value != nullptr && !value->is_inert()) {
    const auto names_layers = [](const Json& one) { return one.text == "layers"; };
    if (!(value->is_array() ? std::ranges::any_of(value->elements, names_layers) : names_layers(*value)))
      return Fail(Code::NOTHING_MATCHED, value->at, fmt::format("{}, the layers of this architecture lie in 'layers'", value->Dump()));
  }
  std::vector<std::string> ids;
  for (const Site& site : base.sites().sites()) {
    if (site.shape_class == SiteClass::kVector) continue;
    if (excluded) {
      VENEER_ASSIGN(const bool is_excluded, excluded->Matches(site.id));
      if (is_excluded) continue;
    }
    if (saved) {
      VENEER_ASSIGN(const bool is_saved, AnyModuleAround(site.id, [&](std::string_view module) { return saved->Matches(module); }));
      if (is_saved) continue;
    }
    bool is_target = is_all_linear && site.shape_class == SiteClass::kLinear && site.id != "lm_head";
    if (!is_all_linear) {
      VENEER_ASSIGN(is_target, listed.Matches(site.id));
    }
    if (is_target && layers) is_target = site.layer != kNoLayer && std::ranges::find(*layers, std::uint64_t{site.layer}) != layers->end();
    if (is_target) ids.push_back(site.id);
  }
  std::ranges::sort(ids);
  return ids;
}

Result<bool> PeftConfig::Lists(const std::string& key, const std::string& default_json, const std::string& arch,
                               std::string_view module) const {
  if (const Json* value = Find(key)) {
    if (value->type == Json::Type::kBool) return value->boolean;
    VENEER_ASSIGN(const ModuleList list, ModuleList::Parse(*value, ModuleList::Suffix::kPlain));
    return list.Matches(module);
  }
  VENEER_ASSIGN(const Json by_arch, ParseJson(default_json.empty() ? "{}" : default_json));
  const Json* found = by_arch.Find(arch);
  if (found == nullptr) return false;
  VENEER_ASSIGN(const ModuleList list, ModuleList::Parse(*found, ModuleList::Suffix::kPlain));
  return list.Matches(module);
}

Result<PeftConfig::ModuleNumbers> PeftConfig::ReadNumbers(const std::string& pattern_key, const std::string& key, double otherwise) const {
  ModuleNumbers numbers;
  numbers.otherwise = otherwise;
  if (const Json* value = Find(key)) {
    VENEER_ASSIGN(numbers.otherwise, value->Number());
  }
  const Json* patterns = pattern_key.empty() ? nullptr : Find(pattern_key);
  if (patterns == nullptr) return numbers;
  if (!patterns->is_object()) return Fail(Code::FIELD_TYPE, patterns->at, "write an object: pattern -> number");
  if (patterns->members.size() > kMaxPatterns)
    return Fail(Code::LIMIT, patterns->at, fmt::format("{} patterns, allowed {}", patterns->members.size(), kMaxPatterns));
  for (const auto& [expression, value] : patterns->members) {
    VENEER_ASSIGN(Pattern pattern, Pattern::ModuleKey(expression, value.at));
    VENEER_ASSIGN(const double number, value.Number());
    numbers.exceptions.push_back({expression, std::move(pattern), number});
  }
  return numbers;
}

Result<double> PeftConfig::ModuleNumbers::Of(std::string_view module) const {
  for (const Exception& one : exceptions) {
    VENEER_ASSIGN(const bool matches, one.pattern.Matches(module));
    if (matches) return one.number;
  }
  return otherwise;
}

Status PeftConfig::ReadScale() {
  if (!import().scale) return {};
  const ImportScale& scale = *import().scale;
  VENEER_ASSIGN(numerator_, ReadNumbers(scale.numerator_pattern, scale.numerator_key, scale.numerator_default));
  VENEER_ASSIGN(denominator_, ReadNumbers(scale.denominator_pattern, scale.denominator_key, scale.denominator_default));
  if (const Json* root = scale.sqrt_key.empty() ? nullptr : Find(scale.sqrt_key)) {
    VENEER_ASSIGN(takes_root_, root->Bool());
  }
  return {};
}

Result<std::optional<std::uint64_t>> PeftConfig::RankOf(std::string_view module) const {
  if (import().rank_symbol.empty() || !import().scale) return std::optional<std::uint64_t>();
  VENEER_ASSIGN(const double rank, denominator_.Of(module));
  if (!(rank >= 1 && rank <= kMaxRank) || rank != std::floor(rank))
    return Fail(Code::RANK_MISMATCH, "/" + import().scale->denominator_key,
                fmt::format("{} for {}, allowed are whole numbers 1 to {}", rank, module, kMaxRank));
  return std::optional(static_cast<std::uint64_t>(rank));
}

Result<std::vector<std::string>> PeftConfig::UnmatchedPatterns(const std::vector<std::string>& modules) const {
  std::vector<std::string> notes;
  if (!import().scale) return notes;
  for (const auto& [key, numbers] :
       {std::pair(&import().scale->numerator_pattern, &numerator_), std::pair(&import().scale->denominator_pattern, &denominator_)})
    for (const ModuleNumbers::Exception& one : numbers->exceptions) {
      bool matches = false;
      for (std::size_t i = 0; i < modules.size() && !matches; ++i) {
        VENEER_ASSIGN(matches, one.pattern.Matches(modules[i]));
      }
      if (!matches) notes.push_back(fmt::format("{}: '{}' matches none of the modules that it edits, and changes nothing", *key, one.key));
    }
  return notes;
}

Result<std::optional<double>> PeftConfig::ScaleOf(std::string_view module) const {
  if (!import().scale) return std::optional<double>();
  VENEER_ASSIGN(const double numerator, numerator_.Of(module));
  VENEER_ASSIGN(const double denominator, denominator_.Of(module));
  const double value = numerator / (takes_root_ ? std::sqrt(denominator) : denominator);
  if (!std::isfinite(value))
    return Fail(Code::NOT_FINITE, "/" + import().scale->numerator_key,
                fmt::format("{} over {} gives no finite scale for {}; correct the configuration", numerator, denominator, module));
  return std::optional(value);
}

Result<std::vector<ParamValue>> PeftConfig::Params() const {
  std::vector<ParamValue> params;
  if (import().params.empty()) return params;
  VENEER_ASSIGN(const ParamSchema schema, ParamSchema::Parse(kind_->config_schema, "kind " + kind_->id));
  for (const ImportParam& declared : import().params) {
    const Json* value = Find(declared.key);
    Json fallback;
    if (value == nullptr) {
      if (!declared.default_json)
        return Fail(Code::FIELD_MISSING, "/" + declared.key, fmt::format("kind {} needs it; add it to adapter_config.json", kind_->id));
      VENEER_ASSIGN(fallback, ParseJson(*declared.default_json));
      value = &fallback;
    }
    VENEER_ASSIGN(ParamValue param, schema.Typed(declared.param, *value, "/" + declared.key));
    params.push_back(std::move(param));
  }
  return params;
}

}  // namespace veneer
