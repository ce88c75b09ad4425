#include "core/cli/inspect_json.h"

#include <variant>

namespace veneer::cli {
namespace {

std::string_view ClassName(SiteClass shape_class) {
  switch (shape_class) {
    case SiteClass::kLinear:
      return "linear";
    case SiteClass::kEmbedding:
      return "embedding";
    case SiteClass::kVector:
      return "vector";
  }
  return "";
}

}  // namespace

OutJson TensorFacts(const TensorView& tensor) {
  return {{"tensor", tensor.name}, {"dtype", InfoOf(tensor.dtype).name}, {"shape", tensor.shape}, {"bytes", tensor.bytes.size()}};
}

OutJson SiteFactsJson(const Site& site) {
  OutJson shape = OutJson::array({site.out});
  if (site.shape_class != SiteClass::kVector) shape.push_back(site.in);
  return {{"site", site.id}, {"class", ClassName(site.shape_class)}, {"shape", shape}, {"dtype", InfoOf(site.weight.dtype).name}};
}

OutJson ToOutJson(const Json& json) {
  switch (json.type) {
    case Json::Type::kNull:
      return nullptr;
    case Json::Type::kBool:
      return json.boolean;
    case Json::Type::kNumber:
      if (const auto whole = json.U64()) return *whole;
      if (const auto number = json.Number()) return *number;
      return json.text;
    case Json::Type::kString:
      return json.text;
    case Json::Type::kArray: {
      OutJson array = OutJson::array();
      for (const Json& element : json.elements) array.push_back(ToOutJson(element));
      return array;
    }
    case Json::Type::kObject: {
      OutJson object = OutJson::object();
      for (const auto& [name, value] : json.members) object[name] = ToOutJson(value);
      return object;
    }
  }
  return nullptr;
}

OutJson ParamsJson(std::span<const ManifestParam> params) {
  OutJson object = OutJson::object();
  for (const auto& [name, value] : params) std::visit([&, &key = name](const auto& one) { object[key] = one; }, value);
  return object;
}

}  // namespace veneer::cli
