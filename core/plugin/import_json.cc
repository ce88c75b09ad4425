// The import sections of a kind in a card.
#include <fmt/format.h>

#include <array>

#include "core/plugin/decl_json.h"
#include "core/plugin/import_decl.h"

namespace veneer {
namespace {

using decl_json::BitsToJson;
using decl_json::kSites;
using decl_json::ListFromJson;
using decl_json::ListToJson;
using decl_json::Members;
using decl_json::Optional;
using decl_json::OptionalJson;

constexpr std::array<std::string_view, 3> kTensorFlags = {"when-listed", "when-not-listed", "shared"};
constexpr std::array<std::string_view, 1> kGgufTensorFlags = {"transposed"};
constexpr std::array<std::string_view, 4> kActions = {"accept", "select", "refuse", "base-changed"};
constexpr std::array<std::string_view, 4> kParamTypes = {"integer", "number", "string", "boolean"};

std::string RuleToJson(const ImportRule& rule) {
  const std::string_view action = rule.action < kActions.size() ? kActions[rule.action] : "";
  return fmt::format(R"({{"key":{},"action":"{}"{}{}}})", JsonQuote(rule.key), action, OptionalJson("values", rule.values.value_or("")),
                     Optional("text", rule.text));
}

std::string TensorToJson(const ImportTensor& tensor) {
  return fmt::format(R"({{"suffix":{},"role":{},"sites":{},"flags":{}{}{}}})", JsonQuote(tensor.suffix), JsonQuote(tensor.role),
                     BitsToJson(tensor.site_mask, kSites), BitsToJson(tensor.flags, kTensorFlags), Optional("when_key", tensor.when_key),
                     OptionalJson("when_default", tensor.when_default));
}

std::string ParamToJson(const ImportParam& param) {
  const std::string_view type = param.type < kParamTypes.size() ? kParamTypes[param.type] : "";
  return fmt::format(R"({{"param":{},"key":{},"type":"{}"{}}})", JsonQuote(param.param), JsonQuote(param.key), type,
                     OptionalJson("default", param.default_json.value_or("")));
}

std::string ScaleToJson(const ImportScale& scale) {
  return fmt::format(R"({{"param":{},"numerator_key":{},"numerator_default":{}{},"denominator_key":{},"denominator_default":{}{}{}}})",
                     JsonQuote(scale.param), JsonQuote(scale.numerator_key), scale.numerator_default,
                     Optional("numerator_pattern", scale.numerator_pattern), JsonQuote(scale.denominator_key), scale.denominator_default,
                     Optional("denominator_pattern", scale.denominator_pattern), Optional("sqrt_key", scale.sqrt_key));
}

std::string GgufTensorToJson(const GgufImportTensor& tensor) {
  return fmt::format(R"({{"suffix":{},"role":{},"sites":{},"flags":{}}})", JsonQuote(tensor.suffix), JsonQuote(tensor.role),
                     BitsToJson(tensor.site_mask, kSites), BitsToJson(tensor.flags, kGgufTensorFlags));
}

Result<ImportScale> ScaleFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportScale scale;
  VENEER_ASSIGN(scale.param, members.String("param"));
  VENEER_ASSIGN(scale.numerator_key, members.String("numerator_key"));
  VENEER_ASSIGN(scale.numerator_default, members.Number("numerator_default"));
  VENEER_ASSIGN(scale.numerator_pattern, members.OptionalString("numerator_pattern"));
  VENEER_ASSIGN(scale.denominator_key, members.String("denominator_key"));
  VENEER_ASSIGN(scale.denominator_default, members.Number("denominator_default"));
  VENEER_ASSIGN(scale.denominator_pattern, members.OptionalString("denominator_pattern"));
  VENEER_ASSIGN(scale.sqrt_key, members.OptionalString("sqrt_key"));
  VENEER_TRY(members.Done());
  return scale;
}

Result<ImportRule> RuleFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportRule rule;
  VENEER_ASSIGN(rule.key, members.String("key"));
  VENEER_ASSIGN(rule.action, members.Choice("action", kActions));
  rule.values = members.OptionalDump("values");
  VENEER_ASSIGN(rule.text, members.OptionalString("text"));
  VENEER_TRY(members.Done());
  return rule;
}

Result<ImportTensor> TensorFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportTensor tensor;
  VENEER_ASSIGN(tensor.suffix, members.String("suffix"));
  VENEER_ASSIGN(tensor.role, members.String("role"));
  VENEER_ASSIGN(tensor.site_mask, members.Bits("sites", kSites));
  VENEER_ASSIGN(tensor.flags, members.Bits("flags", kTensorFlags));
  VENEER_ASSIGN(tensor.when_key, members.OptionalString("when_key"));
  tensor.when_default = members.OptionalDump("when_default").value_or("");
  VENEER_TRY(members.Done());
  return tensor;
}

Result<ImportParam> ParamFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportParam param;
  VENEER_ASSIGN(param.param, members.String("param"));
  VENEER_ASSIGN(param.key, members.String("key"));
  VENEER_ASSIGN(param.type, members.Choice("type", kParamTypes));
  param.default_json = members.OptionalDump("default");
  VENEER_TRY(members.Done());
  return param;
}

Result<GgufImportTensor> GgufTensorFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  GgufImportTensor tensor;
  VENEER_ASSIGN(tensor.suffix, members.String("suffix"));
  VENEER_ASSIGN(tensor.role, members.String("role"));
  VENEER_ASSIGN(tensor.site_mask, members.Bits("sites", kSites));
  VENEER_ASSIGN(tensor.flags, members.Bits("flags", kGgufTensorFlags));
  VENEER_TRY(members.Done());
  return tensor;
}

}  // namespace

std::string ImportToJson(const ImportDecl& import) {
  return fmt::format(R"({{"peft_type":{}{}{}{},"rules":{},"tensors":{},"params":{}}})", JsonQuote(import.peft_type),
                     OptionalJson("default_targets", import.default_targets), Optional("rank_symbol", import.rank_symbol),
                     import.scale ? ",\"scale\":" + ScaleToJson(*import.scale) : "", ListToJson(import.rules, RuleToJson),
                     ListToJson(import.tensors, TensorToJson), ListToJson(import.params, ParamToJson));
}

Result<ImportDecl> ImportFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportDecl import;
  VENEER_ASSIGN(import.peft_type, members.String("peft_type"));
  import.default_targets = members.OptionalDump("default_targets").value_or("");
  VENEER_ASSIGN(import.rank_symbol, members.OptionalString("rank_symbol"));
  if (const Json* scale = members.TakeOptional("scale")) {
    VENEER_ASSIGN(import.scale, ScaleFromJson(*scale));
  }
  VENEER_TRY(ListFromJson(members, "rules", import.rules, RuleFromJson));
  VENEER_TRY(ListFromJson(members, "tensors", import.tensors, TensorFromJson));
  VENEER_TRY(ListFromJson(members, "params", import.params, ParamFromJson));
  VENEER_TRY(members.Done());
  return import;
}

std::string GgufImportToJson(const GgufImportDecl& import) {
  return fmt::format(R"({{"adapter_type":{}{}{}{},"rules":{},"tensors":{}}})", JsonQuote(import.adapter_type),
                     Optional("rank_symbol", import.rank_symbol), Optional("scale_param", import.scale_param),
                     Optional("numerator_key", import.numerator_key), ListToJson(import.rules, RuleToJson),
                     ListToJson(import.tensors, GgufTensorToJson));
}

Result<GgufImportDecl> GgufImportFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  GgufImportDecl import;
  VENEER_ASSIGN(import.adapter_type, members.String("adapter_type"));
  VENEER_ASSIGN(import.rank_symbol, members.OptionalString("rank_symbol"));
  VENEER_ASSIGN(import.scale_param, members.OptionalString("scale_param"));
  VENEER_ASSIGN(import.numerator_key, members.OptionalString("numerator_key"));
  VENEER_TRY(ListFromJson(members, "rules", import.rules, RuleFromJson));
  VENEER_TRY(ListFromJson(members, "tensors", import.tensors, GgufTensorFromJson));
  VENEER_TRY(members.Done());
  return import;
}

}  // namespace veneer
