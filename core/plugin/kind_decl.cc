#include "core/plugin/kind_decl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/plugin/decl_rules.h"
#include "core/plugin/schema.h"

namespace veneer {
namespace {

using decl_rules::Broken;
using decl_rules::IsDim;
using decl_rules::IsPlainText;
using decl_rules::Normalised;
using decl_rules::Text;

// Minor version 0 of the ABI ends here; a smaller struct_size is a stale or foreign object.
constexpr std::uint32_t kKindSize = offsetof(vnr_kind, get_extension) + sizeof(vnr_kind::get_extension);
constexpr std::uint32_t kRoleSize = offsetof(vnr_role, name) + sizeof(vnr_role::name);
constexpr std::uint32_t kMaxRoles = 64, kMaxRank = 4;
constexpr std::uint32_t kRoleTypes = VNR_BIT(VNR_BOOL + 1) - 1;  // block types never reach a plugin

Result<RoleDecl> ReadRole(const vnr_role* role, const std::string& at) {
  if (role == nullptr || role->struct_size < kRoleSize) return Broken(at, "a role is NULL or its struct_size is too small");
  if (role->rank > kMaxRank) return Broken(at, fmt::format("rank {}, allowed 0 to {}", role->rank, kMaxRank));
  RoleDecl decl{Text(role->name), role->flags, role->dtype_mask, {}};
  decl.dims.assign(role->dims, role->dims + role->rank);
  return decl;
}

bool IsIdentifier(std::string_view text) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= 64 && is_word(text.front()) &&
         std::ranges::all_of(text, [is_word](char c) { return is_word(c) || c == '.' || c == '_' || c == '-'; });
}

Status CheckRole(const RoleDecl& role, const std::string& at) {
  if (role.name.empty() || !IsPlainText(role.name, 64)) return Broken(at, "a role needs a name of 1 to 64 printable characters");
  if (role.dtype_mask == 0 || (role.dtype_mask & ~kRoleTypes) != 0)
    return Broken(at, fmt::format("dtype_mask {:#x} names no type or a block type", role.dtype_mask));
  if (role.dims.size() > kMaxRank) return Broken(at, fmt::format("rank {}, allowed 0 to {}", role.dims.size(), kMaxRank));
  for (const std::uint32_t dim : role.dims)
    if (!IsDim(dim)) return Broken(at, fmt::format("dimension {:#x} is neither a constant, IN, OUT nor a letter", dim));
  return {};
}

}  // namespace

std::optional<char> KindDecl::EntrySymbol() const {
  for (const RoleDecl& role : roles)
    for (const std::uint32_t dim : role.dims)
      if ((role.flags & VNR_ROLE_ENTRIES) != 0 && dim >= VNR_DIM_SYMBOL && dim < VNR_DIM_IN) return static_cast<char>(dim & 0xFF);
  return std::nullopt;
}

const RoleDecl* KindDecl::FindRole(std::string_view name) const {
  const auto found = std::ranges::find(roles, name, &RoleDecl::name);
  return found == roles.end() ? nullptr : &*found;
}

Status CheckKind(const KindDecl& kind, std::string_view at) {
  const std::string place = fmt::format("{}kind {}", at.empty() ? std::string() : fmt::format("{}: ", at), kind.id);
  if (!IsIdentifier(kind.id)) return Broken(place, "an id has 1 to 64 of a-z, 0-9, '.', '_', '-' and starts with a letter or digit");
  if (kind.version.empty() || !IsPlainText(kind.version, 64)) return Broken(place, "version is empty or not printable");
  if (!IsPlainText(kind.summary, 1024)) return Broken(place, "summary is not printable");
  if (kind.site_mask == 0 || (kind.site_mask & ~decl_rules::kSiteClasses) != 0)
    return Broken(place, fmt::format("site_mask {:#x} names no site class or an unknown one", kind.site_mask));
  if (kind.roles.size() > kMaxRoles) return Broken(place, fmt::format("{} roles, allowed {}", kind.roles.size(), kMaxRoles));
  for (const RoleDecl& role : kind.roles) {
    const std::string role_at = fmt::format("{}: role {}", place, role.name);
    VENEER_TRY(CheckRole(role, role_at));
    if (kind.FindRole(role.name) != &role) return Broken(role_at, "declared twice");
  }
  VENEER_ASSIGN(const ParamSchema schema, ParamSchema::Parse(kind.config_schema, place + ": config_schema"));
  if (kind.import) VENEER_TRY(CheckImport(*kind.import, kind, schema, place + ": import"));
  if (kind.import_gguf) VENEER_TRY(CheckGgufImport(*kind.import_gguf, kind, schema, place + ": import_gguf"));
  return {};
}

Result<KindDecl> DeclareKind(const vnr_kind& kind) {
  if (kind.struct_size < kKindSize)
    return Broken("kind", fmt::format("struct_size {}, ABI {} needs at least {}", kind.struct_size, VNR_ABI_MAJOR, kKindSize));
  const std::string at = fmt::format("kind {}", Text(kind.id));
  if (kind.open == nullptr || kind.close == nullptr || kind.bind == nullptr || kind.unbind == nullptr || kind.estimate == nullptr ||
      kind.stage == nullptr || kind.weight_rows == nullptr || kind.bias == nullptr || kind.describe == nullptr ||
      kind.transform == nullptr || kind.prepare == nullptr || kind.apply == nullptr)
    return Broken(at, "a function pointer is NULL; only get_extension may be");
  if (kind.n_roles > kMaxRoles || (kind.n_roles > 0 && kind.roles == nullptr))
    return Broken(at, fmt::format("{} roles or NULL", kind.n_roles));
  KindDecl decl;
  decl.id = Text(kind.id);
  decl.version = Text(kind.version);
  decl.summary = Text(kind.summary);
  decl.flags = kind.flags;
  decl.site_mask = kind.site_mask;
  VENEER_ASSIGN(decl.config_schema, Normalised(kind.config_schema, at + ": config_schema"));
  for (std::uint32_t n = 0; n < kind.n_roles; ++n) {
    VENEER_ASSIGN(RoleDecl role, ReadRole(kind.roles[n], at));
    decl.roles.push_back(std::move(role));
  }
  if (kind.get_extension != nullptr) {
    if (const void* import = kind.get_extension(&kind, VNR_IMPORT_ID); import != nullptr) {
      VENEER_ASSIGN(decl.import, ReadImport(static_cast<const vnr_import*>(import), at + ": import"));
    }
    if (const void* import = kind.get_extension(&kind, VNR_IMPORT_GGUF_ID); import != nullptr) {
      VENEER_ASSIGN(decl.import_gguf, ReadGgufImport(static_cast<const vnr_import_gguf*>(import), at + ": import_gguf"));
    }
  }
  VENEER_TRY(CheckKind(decl, ""));
  return decl;
}

}  // namespace veneer
