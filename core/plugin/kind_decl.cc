#include "core/plugin/kind_decl.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/plugin/schema.h"

namespace veneer {
namespace {

// Minor version 0 of the ABI ends here; a smaller struct_size is a stale or foreign object.
constexpr std::uint32_t kKindSize = offsetof(vnr_kind, get_extension) + sizeof(vnr_kind::get_extension);
constexpr std::uint32_t kRoleSize = offsetof(vnr_role, name) + sizeof(vnr_role::name);
constexpr std::uint32_t kMaxRoles = 64, kMaxRank = 4, kMaxImportItems = 256;
constexpr std::uint32_t kSiteClasses = VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING) | VNR_BIT(VNR_SITE_VECTOR);
constexpr std::uint32_t kRoleTypes = VNR_BIT(VNR_BOOL + 1) - 1;  // block types never reach a plugin
constexpr std::size_t kMaxText = 1 << 16;

std::unexpected<Error> Broken(std::string_view at, std::string detail) {
  return Fail(Code::PLUGIN_FAULT, std::string(at), std::move(detail) + "; the plugin breaks the ABI's rules, ask its author");
}

std::string Text(const char* text) { return text == nullptr ? std::string() : std::string(text); }

// The compact form of a JSON text, so that a card and an entry compare equal whatever the white space.
Result<std::string> Normalised(const char* text, std::string_view at) {
  if (text == nullptr) return std::string();
  auto json = ParseJson(text, {.bytes = kMaxText});
  if (!json) return Broken(at, "not JSON: " + json.error().detail);
  return json->Dump();
}

Result<RoleDecl> ReadRole(const vnr_role* role, const std::string& at) {
  if (role == nullptr || role->struct_size < kRoleSize) return Broken(at, "a role is NULL or its struct_size is too small");
  if (role->rank > kMaxRank) return Broken(at, fmt::format("rank {}, allowed 0 to {}", role->rank, kMaxRank));
  RoleDecl decl{Text(role->name), role->flags, role->dtype_mask, {}};
  decl.dims.assign(role->dims, role->dims + role->rank);
  return decl;
}

template <class T>
bool IsWhole(const T* item) {
  return item != nullptr && item->struct_size >= sizeof(T);
}

Result<ImportDecl> ReadImport(const vnr_import* import, const std::string& at) {
  if (!IsWhole(import)) return Broken(at, "struct_size is too small");
  if (std::max({import->n_rules, import->n_tensors, import->n_params}) > kMaxImportItems)
    return Broken(at, fmt::format("more than {} rules, tensors or parameters", kMaxImportItems));
  if ((import->n_rules > 0 && import->rules == nullptr) || (import->n_tensors > 0 && import->tensors == nullptr) ||
      (import->n_params > 0 && import->params == nullptr))
    return Broken(at, "a list is NULL");
  ImportDecl decl;
  decl.peft_type = Text(import->peft_type);
  VENEER_ASSIGN(decl.default_targets, Normalised(import->default_targets, at));
  decl.rank_symbol = Text(import->rank_symbol);
  if (const vnr_import_scale* scale = import->scale; scale != nullptr) {
    if (!IsWhole(scale)) return Broken(at, "struct_size of the scale is too small");
    decl.scale = ImportScale{Text(scale->param),           Text(scale->numerator_key),       Text(scale->numerator_pattern),
                             Text(scale->denominator_key), Text(scale->denominator_pattern), Text(scale->sqrt_key),
                             scale->numerator_default,     scale->denominator_default};
  }
  for (std::uint32_t n = 0; n < import->n_rules; ++n) {
    const vnr_import_rule* rule = import->rules[n];
    if (!IsWhole(rule)) return Broken(at, fmt::format("rule {}: NULL or too small", n));
    ImportRule& out = decl.rules.emplace_back(ImportRule{rule->action, Text(rule->key), std::nullopt, Text(rule->text)});
    if (rule->values != nullptr) {
      VENEER_ASSIGN(out.values, Normalised(rule->values, at));
    }
  }
  for (std::uint32_t n = 0; n < import->n_tensors; ++n) {
    const vnr_import_tensor* tensor = import->tensors[n];
    if (!IsWhole(tensor)) return Broken(at, fmt::format("tensor {}: NULL or too small", n));
    ImportTensor& out = decl.tensors.emplace_back(
        ImportTensor{tensor->flags, tensor->site_mask, Text(tensor->suffix), Text(tensor->role), Text(tensor->when_key), {}});
    VENEER_ASSIGN(out.when_default, Normalised(tensor->when_default, at));
  }
  for (std::uint32_t n = 0; n < import->n_params; ++n) {
    const vnr_import_param* param = import->params[n];
    if (!IsWhole(param)) return Broken(at, fmt::format("parameter {}: NULL or too small", n));
    ImportParam& out = decl.params.emplace_back(ImportParam{param->type, Text(param->param), Text(param->key), std::nullopt});
    if (param->default_json != nullptr) {
      VENEER_ASSIGN(out.default_json, Normalised(param->default_json, at));
    }
  }
  return decl;
}

bool IsPlainText(std::string_view text, std::size_t limit) {
  return text.size() <= limit && std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

bool IsIdentifier(std::string_view text) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= 64 && is_word(text.front()) &&
         std::ranges::all_of(text, [is_word](char c) { return is_word(c) || c == '.' || c == '_' || c == '-'; });
}

bool IsDim(std::uint32_t dim) {
  if (dim < VNR_DIM_SYMBOL) return dim > 0;
  if (dim >= VNR_DIM_IN) return dim <= VNR_DIM_OUT_PLUS_1;
  const std::uint32_t letter = dim & ~VNR_DIM_SYMBOL;
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
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

// `text` is a JSON object architecture -> list of names, or empty.
bool IsTargetTable(const std::string& text) {
  if (text.empty()) return true;
  const auto json = ParseJson(text);
  return json && json->is_object() && std::ranges::all_of(json->members, [](const Json::Member& member) {
           return member.second.is_array() && std::ranges::all_of(member.second.elements, &Json::is_string);
         });
}

Status CheckImportTensor(const ImportTensor& tensor, const KindDecl& kind, const std::string& at) {
  const RoleDecl* role = kind.FindRole(tensor.role);
  if (tensor.suffix.empty() || role == nullptr) return Broken(at, fmt::format("suffix '{}' maps to no declared role", tensor.suffix));
  const bool is_shared = (tensor.flags & VNR_IMPORT_SHARED) != 0;
  if (is_shared != ((role->flags & VNR_ROLE_SHARED) != 0))
    return Broken(at, fmt::format("role '{}': tensor and role disagree on SHARED", tensor.role));
  const std::uint32_t when = tensor.flags & (VNR_IMPORT_WHEN_LISTED | VNR_IMPORT_WHEN_NOT_LISTED);
  if (std::popcount(when) > 1 || (when != 0) == tensor.when_key.empty())
    return Broken(at, "WHEN_* and when_key must be given together, once");
  if (!IsTargetTable(tensor.when_default)) return Broken(at, "when_default must be an object of lists of names");
  if ((tensor.site_mask & ~kSiteClasses) != 0) return Broken(at, fmt::format("site_mask {:#x}", tensor.site_mask));
  return {};
}

Status CheckImport(const ImportDecl& import, const KindDecl& kind, const ParamSchema& schema, const std::string& at) {
  if (import.peft_type.empty() || !IsPlainText(import.peft_type, 64)) return Broken(at, "peft_type must be printable");
  if (!IsTargetTable(import.default_targets)) return Broken(at, "default_targets must be an object of lists of names");
  if (!import.rank_symbol.empty()) {
    const std::uint32_t dim = import.rank_symbol.size() == 1 ? VNR_DIM(import.rank_symbol[0]) : 0;
    const auto has = [dim](const RoleDecl& role) { return std::ranges::find(role.dims, dim) != role.dims.end(); };
    if (!IsDim(dim) || std::ranges::none_of(kind.roles, has))
      return Broken(at, fmt::format("rank_symbol '{}' is in no role", import.rank_symbol));
  }
  if (import.scale) {
    const ImportScale& scale = *import.scale;
    const ParamRule* rule = schema.Find(scale.param);
    if (rule == nullptr || rule->type != VNR_PARAM_NUMBER) return Broken(at, fmt::format("'{}' is no number of the schema", scale.param));
    if (scale.numerator_key.empty() || scale.denominator_key.empty() || !std::isfinite(scale.numerator_default) ||
        !std::isfinite(scale.denominator_default) || scale.denominator_default == 0)
      return Broken(at, "the scale needs keys and finite defaults, the denominator not 0");
  }
  for (const ImportRule& rule : import.rules) {
    if (rule.key.empty() || rule.action > VNR_CFG_BASE_CHANGED)
      return Broken(at, fmt::format("rule for '{}': no key or action {}", rule.key, rule.action));
    if (rule.action >= VNR_CFG_REFUSE && rule.text.empty())
      return Broken(at, fmt::format("rule for '{}' refuses without a reason", rule.key));
    if (!rule.values) continue;
    const auto values = ParseJson(*rule.values);
    if (!values || !values->is_array()) return Broken(at, fmt::format("rule for '{}': values must be a JSON list", rule.key));
  }
  for (const ImportTensor& tensor : import.tensors) VENEER_TRY(CheckImportTensor(tensor, kind, at));
  for (const ImportParam& param : import.params) {
    const ParamRule* rule = schema.Find(param.param);
    if (rule == nullptr || rule->type != param.type || param.key.empty())
      return Broken(at, fmt::format("parameter '{}' is not in the schema with that type, or has no key", param.param));
    if (!param.default_json) continue;
    const auto json = ParseJson(*param.default_json);
    if (!json || !schema.Typed(param.param, *json, at))
      return Broken(at, fmt::format("the default of '{}' breaks the schema", param.param));
  }
  return {};
}

}  // namespace

const RoleDecl* KindDecl::FindRole(std::string_view name) const {
  const auto found = std::ranges::find(roles, name, &RoleDecl::name);
  return found == roles.end() ? nullptr : &*found;
}

Status CheckKind(const KindDecl& kind, std::string_view at) {
  const std::string place = fmt::format("{}kind {}", at.empty() ? std::string() : fmt::format("{}: ", at), kind.id);
  if (!IsIdentifier(kind.id)) return Broken(place, "an id has 1 to 64 of a-z, 0-9, '.', '_', '-' and starts with a letter or digit");
  if (kind.version.empty() || !IsPlainText(kind.version, 64)) return Broken(place, "version is empty or not printable");
  if (!IsPlainText(kind.summary, 1024)) return Broken(place, "summary is not printable");
  if (kind.site_mask == 0 || (kind.site_mask & ~kSiteClasses) != 0)
    return Broken(place, fmt::format("site_mask {:#x} names no site class or an unknown one", kind.site_mask));
  if (kind.roles.size() > kMaxRoles) return Broken(place, fmt::format("{} roles, allowed {}", kind.roles.size(), kMaxRoles));
  for (const RoleDecl& role : kind.roles) {
    const std::string role_at = fmt::format("{}: role {}", place, role.name);
    VENEER_TRY(CheckRole(role, role_at));
    if (kind.FindRole(role.name) != &role) return Broken(role_at, "declared twice");
  }
  VENEER_ASSIGN(const ParamSchema schema, ParamSchema::Parse(kind.config_schema, place + ": config_schema"));
  if (kind.import) VENEER_TRY(CheckImport(*kind.import, kind, schema, place + ": import"));
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
  }
  VENEER_TRY(CheckKind(decl, ""));
  return decl;
}

}  // namespace veneer
