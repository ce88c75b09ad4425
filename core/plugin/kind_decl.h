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
#include "core/plugin/import_decl.h"
#include "veneer/abi.h"

namespace veneer {

struct RoleDecl {
  std::string name;
  std::uint32_t flags = 0;
  std::uint32_t dtype_mask = 0;
  std::vector<std::uint32_t> dims;  // constants, VNR_DIM_*
  bool operator==(const RoleDecl&) const = default;
};

struct KindDecl {
  std::string id, version, summary;
  std::string config_schema;  // JSON text of the closed subset
  std::uint32_t flags = 0, site_mask = 0;
  std::vector<RoleDecl> roles;
  std::optional<ImportDecl> import;           // veneer.import/1
  std::optional<GgufImportDecl> import_gguf;  // veneer.import.gguf/1
  bool operator==(const KindDecl&) const = default;

  [[nodiscard]] const RoleDecl* FindRole(std::string_view name) const;
  // The symbol that counts stored entries (VNR_ROLE_ENTRIES); nothing for a kind that is not sparse.
  [[nodiscard]] std::optional<char> EntrySymbol() const;
};

// Every rule the ABI has for a declaration: identifiers, role shapes, masks, schema, import sections. E417.
Status CheckKind(const KindDecl& kind, std::string_view at);
// From a loaded (or statically linked) kind. Calls get_extension only. E417 for a declaration that breaks the ABI's rules.
Result<KindDecl> DeclareKind(const vnr_kind& kind);
// To and from the card's JSON.
std::string KindToJson(const KindDecl& kind);
Result<KindDecl> KindFromJson(const Json& json);

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_KIND_DECL_H_
