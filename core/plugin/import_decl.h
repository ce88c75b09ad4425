// What a kind declares about checkpoints, as values: mirrors of the structs in veneer/import.h, see there for the meaning of each
// field. Empty string = NULL.
#ifndef VENEER_CORE_PLUGIN_IMPORT_DECL_H_
#define VENEER_CORE_PLUGIN_IMPORT_DECL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/format/json.h"
#include "veneer/import.h"

namespace veneer {

struct KindDecl;
class ParamSchema;

struct ImportRule {
  std::uint32_t action = VNR_CFG_ACCEPT;
  std::string key;
  std::optional<std::string> values;  // JSON array text
  std::string text;
  bool operator==(const ImportRule&) const = default;
};
struct ImportTensor {
  std::uint32_t flags = 0, site_mask = 0;
  std::string suffix, role, when_key, when_default;
  bool operator==(const ImportTensor&) const = default;
};
struct ImportScale {
  std::string param, numerator_key, numerator_pattern, denominator_key, denominator_pattern, sqrt_key;
  double numerator_default = 0, denominator_default = 0;
  bool operator==(const ImportScale&) const = default;
};
struct ImportParam {
  std::uint32_t type = VNR_PARAM_NUMBER;
  std::string param, key;
  std::optional<std::string> default_json;
  bool operator==(const ImportParam&) const = default;
};
struct ImportDecl {
  std::string peft_type, default_targets, rank_symbol;
  std::optional<ImportScale> scale;
  std::vector<ImportRule> rules;
  std::vector<ImportTensor> tensors;
  std::vector<ImportParam> params;
  bool operator==(const ImportDecl&) const = default;
};

struct GgufImportTensor {
  std::uint32_t flags = 0, site_mask = 0;
  std::string suffix, role;
  bool operator==(const GgufImportTensor&) const = default;
};
struct GgufImportDecl {
  std::string adapter_type, rank_symbol, scale_param, numerator_key;
  std::vector<ImportRule> rules;
  std::vector<GgufImportTensor> tensors;
  bool operator==(const GgufImportDecl&) const = default;
};

// From the constant data of a plugin; `at` is the place of the declaration. E417: NULL or too small where something must be.
Result<ImportDecl> ReadImport(const vnr_import* import, const std::string& at);
Result<GgufImportDecl> ReadGgufImport(const vnr_import_gguf* import, const std::string& at);

// Against the kind's own roles and schema. E417.
Status CheckImport(const ImportDecl& import, const KindDecl& kind, const ParamSchema& schema, const std::string& at);
Status CheckGgufImport(const GgufImportDecl& import, const KindDecl& kind, const ParamSchema& schema, const std::string& at);

// To and from the card's JSON: syntax only, the checks follow when the kind is whole.
std::string ImportToJson(const ImportDecl& import);
Result<ImportDecl> ImportFromJson(const Json& json);
std::string GgufImportToJson(const GgufImportDecl& import);
Result<GgufImportDecl> GgufImportFromJson(const Json& json);

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_IMPORT_DECL_H_
