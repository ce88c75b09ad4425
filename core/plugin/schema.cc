#include "core/plugin/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/format/json.h"

namespace veneer {
namespace {

std::string_view TypeName(const ParamValue& param) {
  switch (param.type) {
    case VNR_PARAM_INT:
      return "integer";
    case VNR_PARAM_NUMBER:
      return "number";
    case VNR_PARAM_STRING:
      return "string";
    default:
      return "boolean";
  }
}

Status CheckBounds(const Json& property, double value, const std::string& place) {
  for (const auto& [key, is_low] : {std::pair("minimum", true), std::pair("maximum", false)}) {
    const Json* bound = property.Find(key);
    if (bound == nullptr) continue;
    VENEER_ASSIGN(const double limit, bound->Number());
    if (is_low ? value < limit : value > limit) return Fail(Code::VALUE_UNKNOWN, place, fmt::format("{}, the {} is {}", value, key, limit));
  }
  return {};
}

Status CheckOne(const Json& property, const ParamValue& param, const std::string& place) {
  VENEER_ASSIGN(const Json* type, property.Get("type"));
  const std::string_view given = TypeName(param);
  const bool fits = type->text == given || (type->text == "number" && given == "integer");
  if (!fits) return Fail(Code::VALUE_UNKNOWN, place, fmt::format("is a {}, the kind wants a {}", given, type->text));
  if (param.type == VNR_PARAM_NUMBER && !std::isfinite(param.d)) return Fail(Code::NOT_FINITE, place, "is not finite");
  if (param.type == VNR_PARAM_INT) return CheckBounds(property, static_cast<double>(param.i), place);
  if (param.type == VNR_PARAM_NUMBER) return CheckBounds(property, param.d, place);
  if (const Json* allowed = property.Find("enum"); param.type == VNR_PARAM_STRING && allowed != nullptr)
    if (std::ranges::find(allowed->elements, param.s, &Json::text) == allowed->elements.end())
      return Fail(Code::VALUE_UNKNOWN, place, fmt::format("'{}', allowed: {}", param.s, allowed->Dump()));
  return {};
}

}  // namespace

Status CheckParams(std::string_view schema, std::span<const ParamValue> params, std::string_view at) {
  auto parsed = ParseJson(schema, {.bytes = 64 << 10, .depth = 6, .items = 2000});
  const Json* properties = parsed ? parsed->Find("properties") : nullptr;
  if (properties == nullptr || !properties->is_object())
    return Fail(Code::PLUGIN_FAULT, std::string(at), "the kind's parameter schema is not an object schema with properties");
  for (const ParamValue& param : params) {
    if (param.path == VNR_PARAM_STRENGTH) continue;
    const std::string place = fmt::format("{}: parameter {}", at, param.path);
    const Json* property = param.path.starts_with('/') ? properties->Find(std::string_view(param.path).substr(1)) : nullptr;
    if (property == nullptr) return Fail(Code::VALUE_UNKNOWN, place, "the kind has no such parameter");
    VENEER_TRY(CheckOne(*property, param, place));
  }
  if (const Json* required = parsed->Find("required"))
    for (const Json& name : required->elements)
      if (std::ranges::find(params, "/" + name.text, &ParamValue::path) == params.end())
        return Fail(Code::FIELD_MISSING, std::string(at), fmt::format("parameter /{} is missing", name.text));
  return {};
}

}  // namespace veneer
