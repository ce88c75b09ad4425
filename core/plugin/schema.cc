#include "core/plugin/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace veneer {
namespace {

constexpr std::size_t kMaxParams = 64;
constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53: JSON integers beyond are not exact everywhere
constexpr std::array<std::string_view, 4> kTypeNames = {"integer", "number", "string", "boolean"};  // by VNR_PARAM_*
constexpr std::array<std::string_view, 10> kKeywords = {"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "maxLength",
                                                        "enum", "default", "title",   "description"};

std::unexpected<Error> Bad(const Json& json, std::string_view at, std::string detail) {
  return Fail(Code::PLUGIN_FAULT, fmt::format("{}{}", at, json.at),
              std::move(detail) + "; the schema language is the subset described in core/plugin/schema.h");
}

// The value as a parameter of `type`, without bounds. Nothing when the JSON has another type.
std::optional<ParamValue> Read(const Json& json, std::uint32_t type) {
  ParamValue value;
  value.type = type;
  if (type == VNR_PARAM_STRING) {
    if (!json.is_string()) return std::nullopt;
    value.s = json.text;
    return value;
  }
  if (type == VNR_PARAM_BOOL) {
    if (json.type != Json::Type::kBool) return std::nullopt;
    value.i = json.boolean ? 1 : 0;
    return value;
  }
  const auto number = json.Number();
  if (!number) return std::nullopt;
  if (type == VNR_PARAM_NUMBER) {
    value.d = *number;
    return value;
  }
  if (*number != std::trunc(*number) || std::abs(*number) > kMaxExactInteger) return std::nullopt;
  value.i = static_cast<std::int64_t>(*number);
  return value;
}

bool SameValue(const ParamValue& a, const ParamValue& b) { return a.type == b.type && a.i == b.i && a.d == b.d && a.s == b.s; }

std::string TextOf(const ParamValue& value) {
  switch (value.type) {
    case VNR_PARAM_INT:
      return fmt::format("{}", value.i);
    case VNR_PARAM_NUMBER:
      return fmt::format("{}", value.d);
    case VNR_PARAM_STRING:
      return JsonQuote(value.s.substr(0, 64));
    default:
      return value.i != 0 ? "true" : "false";
  }
}

std::string Allowed(const ParamRule& rule) {
  if (!rule.choices.empty()) {
    std::string list;
    for (const ParamValue& choice : rule.choices) list += fmt::format("{}{}", list.empty() ? "" : ", ", TextOf(choice));
    return "one of " + list;
  }
  std::string text(kTypeNames[rule.type]);
  if (rule.minimum) text += fmt::format(" {} {}", rule.excludes_minimum ? ">" : ">=", *rule.minimum);
  if (rule.maximum) text += fmt::format(" {} {}", rule.excludes_maximum ? "<" : "<=", *rule.maximum);
  return text;
}

bool IsWithin(const ParamRule& rule, const ParamValue& value) {
  if (!rule.choices.empty()) return std::ranges::any_of(rule.choices, [&value](const ParamValue& c) { return SameValue(c, value); });
  if (value.type == VNR_PARAM_STRING) return value.s.size() <= rule.max_length;
  if (value.type == VNR_PARAM_BOOL) return value.i == 0 || value.i == 1;
  const double number = value.type == VNR_PARAM_INT ? static_cast<double>(value.i) : value.d;
  if (!std::isfinite(number)) return false;
  if (rule.minimum && (rule.excludes_minimum ? number <= *rule.minimum : number < *rule.minimum)) return false;
  return !rule.maximum || (rule.excludes_maximum ? number < *rule.maximum : number <= *rule.maximum);
}

// Type by "type", or by the elements of "enum" when "type" is absent.
Result<std::uint32_t> TypeOf(const Json& member, std::string_view at) {
  if (const Json* type = member.Find("type")) {
    const auto found = std::ranges::find(kTypeNames, type->is_string() ? std::string_view(type->text) : std::string_view());
    if (found == kTypeNames.end()) return Bad(*type, at, "type must be number, integer, string or boolean");
    return static_cast<std::uint32_t>(found - kTypeNames.begin());
  }
  const Json* choices = member.Find("enum");
  if (choices == nullptr || !choices->is_array() || choices->elements.empty()) return Bad(member, at, "neither type nor enum");
  constexpr std::array<std::uint32_t, 4> kOrder = {VNR_PARAM_STRING, VNR_PARAM_BOOL, VNR_PARAM_INT, VNR_PARAM_NUMBER};
  for (const std::uint32_t type : kOrder)
    if (std::ranges::all_of(choices->elements, [type](const Json& choice) { return Read(choice, type).has_value(); })) return type;
  return Bad(*choices, at, "enum mixes types");
}

Status ReadBound(const Json& member, std::string_view key, std::optional<double>& bound, bool* excludes, std::string_view at) {
  const Json* json = member.Find(key);
  if (json == nullptr) return {};
  const auto number = json->Number();
  if (!number) return Bad(*json, at, "a bound must be a number");
  if (bound) return Bad(*json, at, "two bounds on one side");
  bound = *number;
  if (excludes != nullptr) *excludes = true;
  return {};
}

Status ReadChoices(const Json& member, ParamRule& rule, std::string_view at) {
  const Json* choices = member.Find("enum");
  if (choices == nullptr) return {};
  if (!choices->is_array() || choices->elements.empty()) return Bad(*choices, at, "enum must be a list with elements");
  for (const Json& element : choices->elements) {
    auto choice = Read(element, rule.type);
    if (!choice) return Bad(element, at, "an element of enum has another type");
    rule.choices.push_back(std::move(*choice));
  }
  return {};
}

Result<ParamRule> ParseRule(const std::string& name, const Json& member, std::string_view at) {
  if (!member.is_object()) return Bad(member, at, "a property must be an object");
  for (const auto& [key, value] : member.members)
    if (std::ranges::find(kKeywords, key) == kKeywords.end()) return Bad(value, at, "keyword outside the subset");
  ParamRule rule;
  rule.path = "/" + name;
  VENEER_ASSIGN(rule.type, TypeOf(member, at));
  VENEER_TRY(ReadBound(member, "minimum", rule.minimum, nullptr, at));
  VENEER_TRY(ReadBound(member, "exclusiveMinimum", rule.minimum, &rule.excludes_minimum, at));
  VENEER_TRY(ReadBound(member, "maximum", rule.maximum, nullptr, at));
  VENEER_TRY(ReadBound(member, "exclusiveMaximum", rule.maximum, &rule.excludes_maximum, at));
  if ((rule.minimum || rule.maximum) && rule.type != VNR_PARAM_INT && rule.type != VNR_PARAM_NUMBER)
    return Bad(member, at, "bounds belong to numbers only");
  if (const Json* length = member.Find("maxLength")) {
    const auto value = length->U64();
    if (!value || rule.type != VNR_PARAM_STRING) return Bad(*length, at, "maxLength must be a whole number on a string");
    rule.max_length = std::min(*value, rule.max_length);
  }
  VENEER_TRY(ReadChoices(member, rule, at));
  if (const Json* fallback = member.Find("default")) {
    const auto value = Read(*fallback, rule.type);
    if (!value || !IsWithin(rule, *value)) return Bad(*fallback, at, "the default breaks the member's own rule");
  }
  return rule;
}

bool IsParamName(std::string_view name) {
  const auto is_allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_allowed);
}

Status ParseProperties(const Json& properties, std::vector<ParamRule>& rules, std::string_view at) {
  if (!properties.is_object()) return Bad(properties, at, "properties must be an object");
  if (properties.members.size() > kMaxParams)
    return Bad(properties, at, fmt::format("{} properties, allowed {}", properties.members.size(), kMaxParams));
  for (const auto& [name, member] : properties.members) {
    if (!IsParamName(name)) return Bad(member, at, "a property name consists of letters, digits and _");
    if ("/" + name == VNR_PARAM_STRENGTH) return Bad(member, at, "'strength' is reserved: the host adds it to every binding");
    VENEER_ASSIGN(ParamRule rule, ParseRule(name, member, at));
    rules.push_back(std::move(rule));
  }
  return {};
}

}  // namespace

Result<ParamSchema> ParamSchema::Parse(std::string_view text, std::string_view at) {
  auto parsed = ParseJson(text, {.bytes = 1 << 16});
  if (!parsed) return Fail(Code::PLUGIN_FAULT, std::string(at), "the schema is not JSON: " + parsed.error().detail);
  const Json& json = *parsed;
  const Json* const type = json.Find("type");
  if (type == nullptr || type->text != "object") return Bad(json, at, "the schema must have \"type\": \"object\"");
  const Json* const closed = json.Find("additionalProperties");
  if (closed == nullptr || closed->type != Json::Type::kBool || closed->boolean)
    return Bad(json, at, "the schema must have \"additionalProperties\": false");
  ParamSchema schema;
  for (const auto& [key, value] : json.members) {
    if (key == "properties") {
      VENEER_TRY(ParseProperties(value, schema.rules_, at));
    } else if (key != "type" && key != "additionalProperties" && key != "required" && key != "title" && key != "description") {
      return Bad(value, at, "keyword outside the subset");
    }
  }
  if (const Json* required = json.Find("required")) {
    if (!required->is_array()) return Bad(*required, at, "required must be a list of names");
    for (const Json& name : required->elements) {
      const auto rule = std::ranges::find(schema.rules_, "/" + name.text, &ParamRule::path);
      if (!name.is_string() || rule == schema.rules_.end()) return Bad(name, at, "required names a property that is not declared");
      rule->is_required = true;
    }
  }
  return schema;
}

const ParamRule* ParamSchema::Find(std::string_view path) const {
  const auto found = std::ranges::find(rules_, path, &ParamRule::path);
  return found == rules_.end() ? nullptr : &*found;
}

Status ParamSchema::Check(std::span<const ParamValue> params, std::string_view at) const {
  const auto fail = [at](std::string_view path, std::string detail) {
    return Fail(Code::VALUE_UNKNOWN, fmt::format("{}: parameter {}", at, path), std::move(detail));
  };
  for (std::size_t n = 0; n < params.size(); ++n) {
    const ParamValue& param = params[n];
    if (std::ranges::count(params.first(n), param.path, &ParamValue::path) != 0) return fail(param.path, "is given twice; give it once");
    if (param.path == VNR_PARAM_STRENGTH) {
      if (param.type != VNR_PARAM_NUMBER || !std::isfinite(param.d)) return fail(param.path, "must be a finite number");
      continue;
    }
    const ParamRule* const rule = Find(param.path);
    if (rule == nullptr) {
      std::string known;
      for (const ParamRule& other : rules_) known += fmt::format("{}{}", known.empty() ? "" : ", ", other.path);
      return fail(param.path, fmt::format("is not known to this kind; allowed: {}", known.empty() ? "none" : known));
    }
    if (param.type != rule->type) return fail(param.path, fmt::format("has another type; allowed: {}", Allowed(*rule)));
    if (!IsWithin(*rule, param)) return fail(param.path, fmt::format("is {}; allowed: {}", TextOf(param), Allowed(*rule)));
  }
  for (const ParamRule& rule : rules_)
    if (rule.is_required && std::ranges::count(params, rule.path, &ParamValue::path) == 0)
      return Fail(Code::FIELD_MISSING, std::string(at), fmt::format("parameter {} is missing; give {}", rule.path, Allowed(rule)));
  return {};
}

Result<ParamValue> ParamSchema::Typed(std::string_view path, const Json& value, std::string_view at) const {
  const std::string place = fmt::format("{}: parameter {}", at, path);
  const ParamRule* const rule = Find(path);
  if (rule == nullptr) return Fail(Code::VALUE_UNKNOWN, place, "is not known to this kind");
  auto typed = Read(value, rule->type);
  if (!typed || !IsWithin(*rule, *typed))
    return Fail(Code::VALUE_UNKNOWN, place, fmt::format("is {}; allowed: {}", value.Dump().substr(0, 80), Allowed(*rule)));
  typed->path = path;
  return *std::move(typed);
}

Status CheckParams(std::string_view schema, std::span<const ParamValue> params, std::string_view at) {
  VENEER_ASSIGN(const ParamSchema parsed, ParamSchema::Parse(schema, at));
  return parsed.Check(params, at);
}

}  // namespace veneer
