// What a kind declares about itself, as values: read from a plugin's card without running its code, or copied from the loaded
// entry. Both must agree.
#ifndef VENEER_CORE_PLUGIN_KIND_DECL_H_
#define VENEER_CORE_PLUGIN_KIND_DECL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/json.h"
#include "veneer/import.h"

namespace veneer {

struct RoleDecl {
  std::string name;
  std::uint32_t flags = 0;
  std::uint32_t dtype_mask = 0;
  std::vector<std::uint32_t> dims;  // constants, VNR_DIM_*
  bool operator==(const RoleDecl&) const = default;
};

// Mirrors of the structs in veneer/import.h; see there for the meaning of each field. Empty string = NULL.
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

struct KindDecl {
  std::string id, version, summary;
  std::string config_schema;  // JSON text of the closed subset
  std::uint32_t flags = 0, site_mask = 0;
  std::vector<RoleDecl> roles;
  std::optional<ImportDecl> import;
  bool operator==(const KindDecl&) const = default;

  [[nodiscard]] const RoleDecl* FindRole(std::string_view name) const;
};

// Every rule the ABI has for a declaration: identifiers, role shapes, masks, schema, import section. E417.
Status CheckKind(const KindDecl& kind, std::string_view at);
// From a loaded (or statically linked) kind. Calls get_extension only. E417 for a declaration that breaks the ABI's rules.
Result<KindDecl> DeclareKind(const vnr_kind& kind);
// To and from the card's JSON.
std::string KindToJson(const KindDecl& kind);
Result<KindDecl> KindFromJson(const Json& json);

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_KIND_DECL_H_
