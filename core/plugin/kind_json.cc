// A kind's declaration in a card. Lists of names instead of bit masks, so that a person can read it; JSON texts as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "core/plugin/kind_decl.h"

namespace veneer {
namespace {

using Names = std::span<const std::string_view>;  // by bit number; an empty name has no meaning

constexpr std::array<std::string_view, 3> kSites = {"linear", "embedding", "vector"};
constexpr std::array<std::string_view, 13> kTypes = {"f32", "f16", "bf16", "f64", "i8",  "i16", "i32",
                                                     "i64", "u8",  "u16",  "u32", "u64", "bool"};
constexpr std::array<std::string_view, 7> kRoleFlags = {"optional",  "shared",       "forbid-broadcast", "entries",
                                                        "on-linear", "on-embedding", "on-vector"};
constexpr std::array<std::string_view, 3> kKindFlags = {"needs-base-rows", "borrows-tensors", "additive"};
constexpr std::array<std::string_view, 3> kTensorFlags = {"when-listed", "when-not-listed", "shared"};
constexpr std::array<std::string_view, 4> kActions = {"accept", "select", "refuse", "base-changed"};
constexpr std::array<std::string_view, 4> kParamTypes = {"integer", "number", "string", "boolean"};

std::string BitsToJson(std::uint32_t mask, Names names) {
  std::string out;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    if ((mask & (1u << bit)) == 0) continue;
    const bool is_named = bit < names.size() && !names[bit].empty();
    out += fmt::format("{}{}", out.empty() ? "" : ",", JsonQuote(is_named ? std::string(names[bit]) : fmt::format("bit{}", bit)));
  }
  return "[" + out + "]";
}

std::string DimToJson(std::uint32_t dim) {
  switch (dim) {
    case VNR_DIM_IN:
      return "\"in\"";
    case VNR_DIM_OUT:
      return "\"out\"";
    case VNR_DIM_IN_PLUS_1:
      return "\"in+1\"";
    case VNR_DIM_OUT_PLUS_1:
      return "\"out+1\"";
    default:
      return dim >= VNR_DIM_SYMBOL ? fmt::format("\"{}\"", static_cast<char>(dim & 0x7f)) : fmt::format("{}", dim);
  }
}

// ,"key":"text", or nothing for an empty text.
std::string Optional(std::string_view key, std::string_view text) {
  return text.empty() ? std::string() : fmt::format(",\"{}\":{}", key, JsonQuote(text));
}
std::string OptionalJson(std::string_view key, std::string_view json) {
  return json.empty() ? std::string() : fmt::format(",\"{}\":{}", key, json);
}

template <class T, class ToJson>
std::string ListToJson(const std::vector<T>& items, ToJson to_json) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ",") + to_json(item);
  return "[" + out + "]";
}

std::string RoleToJson(const RoleDecl& role) {
  return fmt::format(R"({{"name":{},"dims":{},"dtypes":{},"flags":{}}})", JsonQuote(role.name), ListToJson(role.dims, DimToJson),
                     BitsToJson(role.dtype_mask, kTypes), BitsToJson(role.flags, kRoleFlags));
}

std::string RuleToJson(const ImportRule& rule) {
  const std::string_view action = rule.action < kActions.size() ? kActions[rule.action] : "";
  return fmt::format(R"({{"key":{},"action":"{}"{}{}}})", JsonQuote(rule.key), action, OptionalJson("values", rule.values.value_or("")),
                     Optional("text", rule.text));
}

std::string TensorToJson(const ImportTensor& tensor) {
  return fmt::format(R"({{"suffix":{},"role":{},"sites":{},"flags":{}{}{}}})", JsonQuote(tensor.suffix), JsonQuote(tensor.role),
                     BitsToJson(tensor.site_mask, kSites), BitsToJson(tensor.flags, kTensorFlags), Optional("when_key", tensor.when_key),
                     OptionalJson("when_default", tensor.when_default));
}

std::string ParamToJson(const ImportParam& param) {
  const std::string_view type = param.type < kParamTypes.size() ? kParamTypes[param.type] : "";
  return fmt::format(R"({{"param":{},"key":{},"type":"{}"{}}})", JsonQuote(param.param), JsonQuote(param.key), type,
                     OptionalJson("default", param.default_json.value_or("")));
}

std::string ScaleToJson(const ImportScale& scale) {
  return fmt::format(R"({{"param":{},"numerator_key":{},"numerator_default":{}{},"denominator_key":{},"denominator_default":{}{}{}}})",
                     JsonQuote(scale.param), JsonQuote(scale.numerator_key), scale.numerator_default,
                     Optional("numerator_pattern", scale.numerator_pattern), JsonQuote(scale.denominator_key), scale.denominator_default,
                     Optional("denominator_pattern", scale.denominator_pattern), Optional("sqrt_key", scale.sqrt_key));
}

std::string ImportToJson(const ImportDecl& import) {
  return fmt::format(R"({{"peft_type":{}{}{}{},"rules":{},"tensors":{},"params":{}}})", JsonQuote(import.peft_type),
                     OptionalJson("default_targets", import.default_targets), Optional("rank_symbol", import.rank_symbol),
                     import.scale ? ",\"scale\":" + ScaleToJson(*import.scale) : "", ListToJson(import.rules, RuleToJson),
                     ListToJson(import.tensors, TensorToJson), ListToJson(import.params, ParamToJson));
}

// ---- back ----

// Members of one object, each taken once; what is left over is an error.
class Members {
 public:
  static Result<Members> Of(const Json& json) {
    if (!json.is_object()) return Fail(Code::FIELD_TYPE, json.at, "must be an object");
    return Members(json);
  }
  Result<std::string> String(std::string_view key) {
    VENEER_ASSIGN(const Json* json, Take(key));
    return json->String();
  }
  Result<double> Number(std::string_view key) {
    VENEER_ASSIGN(const Json* json, Take(key));
    return json->Number();
  }
  Result<std::string> OptionalString(std::string_view key) { return json_->Find(key) == nullptr ? std::string() : String(key); }
  std::optional<std::string> OptionalDump(std::string_view key) {
    const Json* json = json_->Find(key);
    if (json == nullptr) return std::nullopt;
    ++taken_;
    return json->Dump();
  }
  Result<std::span<const Json>> List(std::string_view key) {
    VENEER_ASSIGN(const Json* json, Take(key));
    if (!json->is_array()) return Fail(Code::FIELD_TYPE, json->at, "must be a list");
    return std::span<const Json>(json->elements);
  }
  Result<std::uint32_t> Bits(std::string_view key, Names names);
  Result<std::uint32_t> Choice(std::string_view key, Names names);
  Result<const Json*> Take(std::string_view key) {
    VENEER_ASSIGN(const Json* json, json_->Get(key));
    ++taken_;
    return json;
  }
  const Json* TakeOptional(std::string_view key) {
    const Json* json = json_->Find(key);
    if (json != nullptr) ++taken_;
    return json;
  }
  Status Done() const {
    if (taken_ == json_->members.size()) return {};
    return Fail(Code::FIELD_UNKNOWN, json_->at, "has a member that this version does not know; generate the card again");
  }

 private:
  explicit Members(const Json& json) : json_(&json) {}
  const Json* json_;
  std::size_t taken_ = 0;
};

Result<std::uint32_t> Members::Bits(std::string_view key, Names names) {
  VENEER_ASSIGN(const std::span<const Json> list, List(key));
  std::uint32_t mask = 0;
  for (const Json& element : list) {
    VENEER_ASSIGN(const std::string name, element.String());
    std::uint32_t bit = 0;
    while (bit < 32 && name != (bit < names.size() && !names[bit].empty() ? std::string(names[bit]) : fmt::format("bit{}", bit))) ++bit;
    if (bit == 32) return Fail(Code::VALUE_UNKNOWN, element.at, fmt::format("'{}' is not known here", name));
    mask |= 1u << bit;
  }
  return mask;
}

Result<std::uint32_t> Members::Choice(std::string_view key, Names names) {
  VENEER_ASSIGN(const Json* json, Take(key));
  VENEER_ASSIGN(const std::string name, json->String());
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return Fail(Code::VALUE_UNKNOWN, json->at, fmt::format("'{}' is not known here", name));
  return static_cast<std::uint32_t>(found - names.begin());
}

Result<std::uint32_t> DimFromJson(const Json& json) {
  if (json.is_number()) {
    VENEER_ASSIGN(const std::uint64_t value, json.U64());
    if (value >= VNR_DIM_SYMBOL) return Fail(Code::LIMIT, json.at, fmt::format("{} is too large for a dimension", value));
    return static_cast<std::uint32_t>(value);
  }
  VENEER_ASSIGN(const std::string name, json.String());
  for (const std::uint32_t dim : {VNR_DIM_IN, VNR_DIM_OUT, VNR_DIM_IN_PLUS_1, VNR_DIM_OUT_PLUS_1})
    if (DimToJson(dim) == '"' + name + '"') return dim;
  if (name.size() != 1) return Fail(Code::VALUE_UNKNOWN, json.at, fmt::format("'{}' is no dimension", name));
  return VNR_DIM(static_cast<unsigned char>(name[0]));
}

Result<RoleDecl> RoleFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  RoleDecl role;
  VENEER_ASSIGN(role.name, members.String("name"));
  VENEER_ASSIGN(role.dtype_mask, members.Bits("dtypes", kTypes));
  VENEER_ASSIGN(role.flags, members.Bits("flags", kRoleFlags));
  VENEER_ASSIGN(const std::span<const Json> dims, members.List("dims"));
  for (const Json& element : dims) {
    VENEER_ASSIGN(const std::uint32_t dim, DimFromJson(element));
    role.dims.push_back(dim);
  }
  VENEER_TRY(members.Done());
  return role;
}

Result<ImportScale> ScaleFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportScale scale;
  VENEER_ASSIGN(scale.param, members.String("param"));
  VENEER_ASSIGN(scale.numerator_key, members.String("numerator_key"));
  VENEER_ASSIGN(scale.numerator_default, members.Number("numerator_default"));
  VENEER_ASSIGN(scale.numerator_pattern, members.OptionalString("numerator_pattern"));
  VENEER_ASSIGN(scale.denominator_key, members.String("denominator_key"));
  VENEER_ASSIGN(scale.denominator_default, members.Number("denominator_default"));
  VENEER_ASSIGN(scale.denominator_pattern, members.OptionalString("denominator_pattern"));
  VENEER_ASSIGN(scale.sqrt_key, members.OptionalString("sqrt_key"));
  VENEER_TRY(members.Done());
  return scale;
}

Result<ImportRule> RuleFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportRule rule;
  VENEER_ASSIGN(rule.key, members.String("key"));
  VENEER_ASSIGN(rule.action, members.Choice("action", kActions));
  rule.values = members.OptionalDump("values");
  VENEER_ASSIGN(rule.text, members.OptionalString("text"));
  VENEER_TRY(members.Done());
  return rule;
}

Result<ImportTensor> TensorFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportTensor tensor;
  VENEER_ASSIGN(tensor.suffix, members.String("suffix"));
  VENEER_ASSIGN(tensor.role, members.String("role"));
  VENEER_ASSIGN(tensor.site_mask, members.Bits("sites", kSites));
  VENEER_ASSIGN(tensor.flags, members.Bits("flags", kTensorFlags));
  VENEER_ASSIGN(tensor.when_key, members.OptionalString("when_key"));
  tensor.when_default = members.OptionalDump("when_default").value_or("");
  VENEER_TRY(members.Done());
  return tensor;
}

Result<ImportParam> ParamFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportParam param;
  VENEER_ASSIGN(param.param, members.String("param"));
  VENEER_ASSIGN(param.key, members.String("key"));
  VENEER_ASSIGN(param.type, members.Choice("type", kParamTypes));
  param.default_json = members.OptionalDump("default");
  VENEER_TRY(members.Done());
  return param;
}

template <class T, class FromJson>
Status ListFromJson(Members& members, std::string_view key, std::vector<T>& out, FromJson from_json) {
  VENEER_ASSIGN(const std::span<const Json> list, members.List(key));
  for (const Json& element : list) {
    VENEER_ASSIGN(T item, from_json(element));
    out.push_back(std::move(item));
  }
  return {};
}

Result<ImportDecl> ImportFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  ImportDecl import;
  VENEER_ASSIGN(import.peft_type, members.String("peft_type"));
  import.default_targets = members.OptionalDump("default_targets").value_or("");
  VENEER_ASSIGN(import.rank_symbol, members.OptionalString("rank_symbol"));
  if (const Json* scale = members.TakeOptional("scale")) {
    VENEER_ASSIGN(import.scale, ScaleFromJson(*scale));
  }
  VENEER_TRY(ListFromJson(members, "rules", import.rules, RuleFromJson));
  VENEER_TRY(ListFromJson(members, "tensors", import.tensors, TensorFromJson));
  VENEER_TRY(ListFromJson(members, "params", import.params, ParamFromJson));
  VENEER_TRY(members.Done());
  return import;
}

}  // namespace

std::string KindToJson(const KindDecl& kind) {
  return fmt::format(R"({{"id":{},"version":{},"summary":{},"sites":{},"flags":{},"roles":{},"config_schema":{}{}}})", JsonQuote(kind.id),
                     JsonQuote(kind.version), JsonQuote(kind.summary), BitsToJson(kind.site_mask, kSites),
                     BitsToJson(kind.flags, kKindFlags), ListToJson(kind.roles, RoleToJson), kind.config_schema,
                     kind.import ? ",\"import\":" + ImportToJson(*kind.import) : "");
}

Result<KindDecl> KindFromJson(const Json& json) {
  VENEER_ASSIGN(Members members, Members::Of(json));
  KindDecl kind;
  VENEER_ASSIGN(kind.id, members.String("id"));
  VENEER_ASSIGN(kind.version, members.String("version"));
  VENEER_ASSIGN(kind.summary, members.String("summary"));
  VENEER_ASSIGN(kind.site_mask, members.Bits("sites", kSites));
  VENEER_ASSIGN(kind.flags, members.Bits("flags", kKindFlags));
  VENEER_TRY(ListFromJson(members, "roles", kind.roles, RoleFromJson));
  VENEER_ASSIGN(const Json* schema, members.Take("config_schema"));
  kind.config_schema = schema->Dump();
  if (const Json* import = members.TakeOptional("import")) {
    VENEER_ASSIGN(kind.import, ImportFromJson(*import));
  }
  VENEER_TRY(members.Done());
  VENEER_TRY(CheckKind(kind, json.at));
  return kind;
}

}  // namespace veneer
