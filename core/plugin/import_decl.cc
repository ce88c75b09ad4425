#include "core/plugin/import_decl.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/format/json.h"
#include "core/plugin/decl_rules.h"
#include "core/plugin/kind_decl.h"
#include "core/plugin/schema.h"

namespace veneer {
namespace {

using decl_rules::Broken;
using decl_rules::IsPlainText;
using decl_rules::IsWhole;
using decl_rules::kSiteClasses;
using decl_rules::Normalised;
using decl_rules::Text;

constexpr std::uint32_t kMaxItems = 256;

Result<std::vector<ImportRule>> ReadRules(const vnr_import_rule* const* rules, std::uint32_t n_rules, const std::string& at) {
  std::vector<ImportRule> read;
  for (std::uint32_t n = 0; n < n_rules; ++n) {
    const vnr_import_rule* rule = rules[n];
    if (!IsWhole(rule)) return Broken(at, fmt::format("rule {}: NULL or too small", n));
    ImportRule& out = read.emplace_back(ImportRule{rule->action, Text(rule->key), std::nullopt, Text(rule->text)});
    if (rule->values != nullptr) {
      VENEER_ASSIGN(out.values, Normalised(rule->values, at));
    }
  }
  return read;
}

Status CheckRule(const ImportRule& rule, const std::string& at) {
  if (rule.key.empty() || rule.action > VNR_CFG_BASE_CHANGED)
    return Broken(at, fmt::format("rule for '{}': no key or action {}", rule.key, rule.action));
  if (rule.action >= VNR_CFG_REFUSE && rule.text.empty())
    return Broken(at, fmt::format("rule for '{}' refuses without a reason", rule.key));
  return {};
}

Status CheckRankSymbol(const std::string& symbol, const KindDecl& kind, const std::string& at) {
  if (symbol.empty()) return {};
  const std::uint32_t dim = symbol.size() == 1 ? VNR_DIM(static_cast<unsigned char>(symbol[0])) : 0;
  const auto has = [dim](const RoleDecl& role) { return std::ranges::find(role.dims, dim) != role.dims.end(); };
  if (!decl_rules::IsDim(dim) || std::ranges::none_of(kind.roles, has))
    return Broken(at, fmt::format("rank_symbol '{}' is in no role", symbol));
  return {};
}

Status CheckScaleParam(const std::string& param, const ParamSchema& schema, const std::string& at) {
  const ParamRule* rule = schema.Find(param);
  if (rule == nullptr || rule->type != VNR_PARAM_NUMBER) return Broken(at, fmt::format("'{}' is no number of the schema", param));
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

// An element must stay the same value when rows move, dimensions are exchanged or a block type becomes f32.
Status CheckGgufTensor(const GgufImportTensor& tensor, const KindDecl& kind, const std::string& at) {
  const RoleDecl* role = kind.FindRole(tensor.role);
  if (tensor.suffix.empty() || !IsPlainText(tensor.suffix, 64) || role == nullptr)
    return Broken(at, fmt::format("suffix '{}' maps to no declared role", tensor.suffix));
  if ((role->flags & VNR_ROLE_SHARED) != 0)
    return Broken(at, fmt::format("role '{}' is SHARED, and a GGUF tensor belongs to a site", tensor.role));
  if (role->dims.empty() || role->dims.size() > 2)
    return Broken(at, fmt::format("role '{}' has {} dimensions, a GGUF tensor's role 1 or 2", tensor.role, role->dims.size()));
  if (std::ranges::any_of(role->dims, [](std::uint32_t dim) { return dim == VNR_DIM_IN_PLUS_1 || dim == VNR_DIM_OUT_PLUS_1; }))
    return Broken(at, fmt::format("role '{}' has a dimension PLUS_1, which belongs to indices", tensor.role));
  if ((role->dtype_mask & (VNR_BIT(VNR_F32) | VNR_BIT(VNR_F16) | VNR_BIT(VNR_BF16))) == 0)
    return Broken(at, fmt::format("role '{}' takes no floating-point type", tensor.role));
  if ((tensor.flags & ~std::uint32_t{VNR_IMPORT_GGUF_TRANSPOSED}) != 0)
    return Broken(at, fmt::format("'{}': flags {:#x}", tensor.suffix, tensor.flags));
  if ((tensor.flags & VNR_IMPORT_GGUF_TRANSPOSED) != 0 && role->dims.size() != 2)
    return Broken(at, fmt::format("'{}': TRANSPOSED needs two dimensions", tensor.suffix));
  if (tensor.site_mask == 0 || (tensor.site_mask & ~kSiteClasses) != 0)
    return Broken(at, fmt::format("'{}': site_mask {:#x}", tensor.suffix, tensor.site_mask));
  return {};
}

}  // namespace

Result<ImportDecl> ReadImport(const vnr_import* import, const std::string& at) {
  if (!IsWhole(import)) return Broken(at, "struct_size is too small");
  if (std::max({import->n_rules, import->n_tensors, import->n_params}) > kMaxItems)
    return Broken(at, fmt::format("more than {} rules, tensors or parameters", kMaxItems));
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
  VENEER_ASSIGN(decl.rules, ReadRules(import->rules, import->n_rules, at));
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

Result<GgufImportDecl> ReadGgufImport(const vnr_import_gguf* import, const std::string& at) {
  if (!IsWhole(import)) return Broken(at, "struct_size is too small");
  if (std::max(import->n_rules, import->n_tensors) > kMaxItems) return Broken(at, fmt::format("more than {} rules or tensors", kMaxItems));
  if ((import->n_rules > 0 && import->rules == nullptr) || (import->n_tensors > 0 && import->tensors == nullptr))
    return Broken(at, "a list is NULL");
  GgufImportDecl decl{
      Text(import->adapter_type), Text(import->rank_symbol), Text(import->scale_param), Text(import->numerator_key), {}, {}};
  VENEER_ASSIGN(decl.rules, ReadRules(import->rules, import->n_rules, at));
  for (std::uint32_t n = 0; n < import->n_tensors; ++n) {
    const vnr_import_gguf_tensor* tensor = import->tensors[n];
    if (!IsWhole(tensor)) return Broken(at, fmt::format("tensor {}: NULL or too small", n));
    decl.tensors.push_back({tensor->flags, tensor->site_mask, Text(tensor->suffix), Text(tensor->role)});
  }
  return decl;
}

Status CheckImport(const ImportDecl& import, const KindDecl& kind, const ParamSchema& schema, const std::string& at) {
  if (import.peft_type.empty() || !IsPlainText(import.peft_type, 64)) return Broken(at, "peft_type must be printable");
  if (!IsTargetTable(import.default_targets)) return Broken(at, "default_targets must be an object of lists of names");
  VENEER_TRY(CheckRankSymbol(import.rank_symbol, kind, at));
  if (import.scale) {
    const ImportScale& scale = *import.scale;
    VENEER_TRY(CheckScaleParam(scale.param, schema, at));
    if (scale.numerator_key.empty() || scale.denominator_key.empty() || !std::isfinite(scale.numerator_default) ||
        !std::isfinite(scale.denominator_default) || scale.denominator_default == 0)
      return Broken(at, "the scale needs keys and finite defaults, the denominator not 0");
  }
  for (const ImportRule& rule : import.rules) {
    VENEER_TRY(CheckRule(rule, at));
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

Status CheckGgufImport(const GgufImportDecl& import, const KindDecl& kind, const ParamSchema& schema, const std::string& at) {
  if (import.adapter_type.empty() || !IsPlainText(import.adapter_type, 64)) return Broken(at, "adapter_type must be printable");
  VENEER_TRY(CheckRankSymbol(import.rank_symbol, kind, at));
  if (import.scale_param.empty() != import.numerator_key.empty()) return Broken(at, "scale_param and numerator_key must be given together");
  if (!import.scale_param.empty()) {
    VENEER_TRY(CheckScaleParam(import.scale_param, schema, at));
    if (import.rank_symbol.empty()) return Broken(at, "the scale is divided by the rank, and there is no rank_symbol");
  }
  for (const ImportRule& rule : import.rules) {
    VENEER_TRY(CheckRule(rule, at));
    if (rule.action == VNR_CFG_SELECT || rule.values)
      return Broken(at, fmt::format("rule for '{}': SELECT and values are not for GGUF", rule.key));
    if (rule.key == import.numerator_key || std::ranges::count(import.rules, rule.key, &ImportRule::key) > 1)
      return Broken(at, fmt::format("'{}' is decided twice", rule.key));
  }
  if (import.tensors.empty()) return Broken(at, "no tensor, so no file can match");
  for (const GgufImportTensor& tensor : import.tensors) {
    VENEER_TRY(CheckGgufTensor(tensor, kind, at));
    const auto overlaps = [&tensor](const GgufImportTensor& other) {
      return &other != &tensor && other.suffix == tensor.suffix && (other.site_mask & tensor.site_mask) != 0;
    };
    if (std::ranges::any_of(import.tensors, overlaps))
      return Broken(at, fmt::format("suffix '{}' has two roles on one site", tensor.suffix));
  }
  return {};
}

}  // namespace veneer
