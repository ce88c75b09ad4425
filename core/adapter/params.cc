#include "core/adapter/params.h"

#include <fmt/format.h>

#include <algorithm>

namespace veneer {

Result<ParamValue> ParseParam(const KindDecl& kind, std::string_view name, const std::string& text, std::string_view at) {
  VENEER_ASSIGN(const ParamSchema schema, ParamSchema::Parse(kind.config_schema, "kind " + kind.id));
  const std::string path = fmt::format("/{}", name);
  const ParamRule* rule = schema.Find(path);
  Json json;
  json.type = Json::Type::kString;
  json.text = text;
  if (rule != nullptr && rule->type != VNR_PARAM_STRING) {
    auto parsed = ParseJson(text);
    if (!parsed)
      return Fail(Code::VALUE_UNKNOWN, std::string(at), fmt::format("'{}' is not of the type that kind {} wants", text, kind.id));
    json = *std::move(parsed);
  }
  return schema.Typed(path, json, at);
}

namespace {

// The parameter that the kind's declaration computes as the scale of a module for files of this format; without such a rule the
// one that kinds call so.
std::string ScalePath(const KindDecl& kind, std::string_view format) {
  if (format == "gguf" && kind.import_gguf && !kind.import_gguf->scale_param.empty()) return kind.import_gguf->scale_param;
  if (format != "gguf" && kind.import && kind.import->scale) return kind.import->scale->param;
  return "/scale";
}

}  // namespace

Result<std::vector<ParamValue>> ParseGivenParams(const Catalog& catalog, const std::string& kind,
                                                 const std::vector<std::pair<std::string, std::string>>& params) {
  std::vector<ParamValue> values;
  if (params.empty()) return values;
  const KindDecl* declaration = catalog.FindDeclaration(kind);
  if (declaration == nullptr)
    return Fail(Code::VALUE_UNKNOWN, "/params/" + params.front().first, fmt::format("kind {} has no parameters", kind));
  for (auto one = params.begin(); one != params.end(); ++one) {
    const std::string at = fmt::format("/params/{}", one->first);
    if (std::any_of(params.begin(), one, [&one](const auto& earlier) { return earlier.first == one->first; }))
      return Fail(Code::DUPLICATE_KEY, at, "is given twice; give it once");
    VENEER_ASSIGN(values.emplace_back(), ParseParam(*declaration, one->first, one->second, at));
  }
  return values;
}

Status OverrideParams(const Catalog& catalog, const std::vector<std::pair<std::string, std::string>>& params, Adapter& adapter) {
  VENEER_ASSIGN(const std::vector<ParamValue> values, ParseGivenParams(catalog, adapter.kind, params));
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (AdapterSite& part : adapter.sites) {
      std::erase_if(part.source.params, [&](const ParamValue& old) { return old.path == values[i].path; });
      part.source.params.push_back(values[i]);
    }
    adapter.notes.push_back(fmt::format("parameter {} is {} for all modules, whatever its files say", params[i].first, params[i].second));
  }
  return {};
}

void ReportScales(const Catalog& catalog, Adapter& adapter) {
  const KindDecl* kind = catalog.FindDeclaration(adapter.kind);
  const std::string path = kind == nullptr ? "" : ScalePath(*kind, adapter.format);
  for (AdapterSite& part : adapter.sites)
    for (const ParamValue& param : part.source.params)
      if (param.path == path && param.type == VNR_PARAM_NUMBER) part.scale = param.d;
}

}  // namespace veneer
