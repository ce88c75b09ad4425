// A kind's declaration in a card; JSON texts as JSON.
#include <fmt/format.h>

#include <array>
#include <span>

#include "core/plugin/decl_json.h"
#include "core/plugin/kind_decl.h"

namespace veneer {
namespace {

using decl_json::BitsToJson;
using decl_json::kSites;
using decl_json::ListFromJson;
using decl_json::ListToJson;
using decl_json::Members;

constexpr std::array<std::string_view, 13> kTypes = {"f32", "f16", "bf16", "f64", "i8",  "i16", "i32",
                                                     "i64", "u8",  "u16",  "u32", "u64", "bool"};
constexpr std::array<std::string_view, 7> kRoleFlags = {"optional",  "shared",       "forbid-broadcast", "entries",
                                                        "on-linear", "on-embedding", "on-vector"};
constexpr std::array<std::string_view, 3> kKindFlags = {"needs-base-rows", "borrows-tensors", "additive"};

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

std::string RoleToJson(const RoleDecl& role) {
  return fmt::format(R"({{"name":{},"dims":{},"dtypes":{},"flags":{}}})", JsonQuote(role.name), ListToJson(role.dims, DimToJson),
                     BitsToJson(role.dtype_mask, kTypes), BitsToJson(role.flags, kRoleFlags));
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

}  // namespace

std::string KindToJson(const KindDecl& kind) {
  return fmt::format(R"({{"id":{},"version":{},"summary":{},"sites":{},"flags":{},"roles":{},"config_schema":{}{}{}}})", JsonQuote(kind.id),
                     JsonQuote(kind.version), JsonQuote(kind.summary), BitsToJson(kind.site_mask, kSites),
                     BitsToJson(kind.flags, kKindFlags), ListToJson(kind.roles, RoleToJson), kind.config_schema,
                     kind.import ? ",\"import\":" + ImportToJson(*kind.import) : "",
                     kind.import_gguf ? ",\"import_gguf\":" + GgufImportToJson(*kind.import_gguf) : "");
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
  if (const Json* import = members.TakeOptional("import_gguf")) {
    VENEER_ASSIGN(kind.import_gguf, GgufImportFromJson(*import));
  }
  VENEER_TRY(members.Done());
  VENEER_TRY(CheckKind(kind, json.at));
  return kind;
}

}  // namespace veneer
