#include "core/plugin/kind_decl.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace veneer {
namespace {

std::string Text(const char* text) { return text == nullptr ? "" : text; }
std::optional<std::string> OptionalText(const char* text) { return text == nullptr ? std::optional<std::string>() : std::string(text); }

std::unexpected<Error> Broken(std::string_view kind, std::string detail) {
  return Fail(Code::PLUGIN_FAULT, fmt::format("kind {}", kind), std::move(detail) + "; the plugin breaks the ABI, ask its author for a corrected one");
}

Result<RoleDecl> DeclareRole(std::string_view kind, const vnr_role* role) {
  if (role == nullptr || !VNR_HAS(role, vnr_role, name) || Text(role->name).empty()) return Broken(kind, "a role without a name");
  if (role->rank > 4) return Broken(kind, fmt::format("role {} has rank {}, allowed 0..4", role->name, role->rank));
  if (role->dtype_mask == 0) return Broken(kind, fmt::format("role {} accepts no type", role->name));
  RoleDecl declared{role->name, role->flags, role->dtype_mask, {}};
  declared.dims.assign(role->dims, role->dims + role->rank);
  return declared;
}

ImportDecl DeclareImport(const vnr_import& import) {
  ImportDecl declared;
  declared.peft_type = Text(import.peft_type);
  declared.default_targets = Text(import.default_targets);
  declared.rank_symbol = Text(import.rank_symbol);
  if (const vnr_import_scale* scale = import.scale)
    declared.scale = {Text(scale->param),       Text(scale->numerator_key),       Text(scale->numerator_pattern),
                      Text(scale->denominator_key), Text(scale->denominator_pattern), Text(scale->sqrt_key),
                      scale->numerator_default, scale->denominator_default};
  for (std::uint32_t i = 0; i < import.n_rules; ++i) {
    const vnr_import_rule& rule = *import.rules[i];
    declared.rules.push_back({rule.action, Text(rule.key), OptionalText(rule.values), Text(rule.text)});
  }
  for (std::uint32_t i = 0; i < import.n_tensors; ++i) {
    const vnr_import_tensor& tensor = *import.tensors[i];
    declared.tensors.push_back(
        {tensor.flags, tensor.site_mask, Text(tensor.suffix), Text(tensor.role), Text(tensor.when_key), Text(tensor.when_default)});
  }
  for (std::uint32_t i = 0; i < import.n_params; ++i) {
    const vnr_import_param& param = *import.params[i];
    declared.params.push_back({param.type, Text(param.param), Text(param.key), OptionalText(param.default_json)});
  }
  return declared;
}

// ---- JSON. Numbers are decimal, masks are numbers: a card is read by programs; `plugin inspect` prints for people.

std::string Quote(const std::string& text) { return JsonQuote(text); }
std::string QuoteOr(const std::optional<std::string>& text) { return text ? JsonQuote(*text) : "null"; }

template <class T, class Print>
std::string List(const std::vector<T>& values, const Print& print) {
  std::string out = "[";
  for (const T& value : values) out += (out.size() > 1 ? "," : "") + print(value);
  return out + "]";
}

std::string ImportToJson(const ImportDecl& import) {
  std::string scale = "null";
  if (import.scale) {
    const ImportScale& s = *import.scale;
    scale = fmt::format(
        R"({{"param":{},"numerator_key":{},"numerator_pattern":{},"denominator_key":{},"denominator_pattern":{},"sqrt_key":{},"numerator_default":{},"denominator_default":{}}})",
        Quote(s.param), Quote(s.numerator_key), Quote(s.numerator_pattern), Quote(s.denominator_key), Quote(s.denominator_pattern),
        Quote(s.sqrt_key), s.numerator_default, s.denominator_default);
  }
  return fmt::format(
      R"({{"peft_type":{},"default_targets":{},"rank_symbol":{},"scale":{},"rules":{},"tensors":{},"params":{}}})", Quote(import.peft_type),
      Quote(import.default_targets), Quote(import.rank_symbol), scale,
      List(import.rules,
           [](const ImportRule& r) {
             return fmt::format(R"({{"action":{},"key":{},"values":{},"text":{}}})", r.action, Quote(r.key), QuoteOr(r.values), Quote(r.text));
           }),
      List(import.tensors,
           [](const ImportTensor& t) {
             return fmt::format(R"({{"flags":{},"site_mask":{},"suffix":{},"role":{},"when_key":{},"when_default":{}}})", t.flags, t.site_mask,
                                Quote(t.suffix), Quote(t.role), Quote(t.when_key), Quote(t.when_default));
           }),
      List(import.params, [](const ImportParam& p) {
        return fmt::format(R"({{"type":{},"param":{},"key":{},"default":{}}})", p.type, Quote(p.param), Quote(p.key), QuoteOr(p.default_json));
      }));
}

// Reads members of one object into fields; the first error stays.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(&object) {}
  Reader& Read(std::string_view name, std::string& out) {
    return With(name, [&](const Json& value) -> Status {
      VENEER_ASSIGN(out, value.String());
      return {};
    });
  }
  Reader& Read(std::string_view name, std::optional<std::string>& out) {
    return With(name, [&](const Json& value) -> Status {
      if (value.is_null()) return {};
      VENEER_ASSIGN(out, value.String());
      return {};
    });
  }
  Reader& Read(std::string_view name, std::uint32_t& out) {
    return With(name, [&](const Json& value) -> Status {
      VENEER_ASSIGN(const std::uint64_t number, value.U64());
      if (number > UINT32_MAX) return Fail(Code::NUMBER_FORM, value.at, "does not fit 32 bits");
      out = static_cast<std::uint32_t>(number);
      return {};
    });
  }
  Reader& Read(std::string_view name, double& out) {
    return With(name, [&](const Json& value) -> Status {
      VENEER_ASSIGN(out, value.Number());
      return {};
    });
  }
  // Each element of a list through `read`.
  template <class T, class ReadOne>
  Reader& ReadList(std::string_view name, std::vector<T>& out, const ReadOne& read) {
    return With(name, [&](const Json& value) -> Status {
      if (!value.is_array()) return Fail(Code::FIELD_TYPE, value.at, "write a list");
      for (const Json& element : value.elements) {
        VENEER_ASSIGN(out.emplace_back(), read(element));
      }
      return {};
    });
  }
  Status status() { return std::move(status_); }

 private:
  template <class Use>
  Reader& With(std::string_view name, const Use& use) {
    if (!status_) return *this;
    auto value = object_->Get(name);
    status_ = value ? use(**value) : Status(Fail(std::move(value).error()));
    return *this;
  }
  const Json* object_;
  Status status_;
};

Result<ImportDecl> ImportFromJson(const Json& json) {
  ImportDecl import;
  Reader reader(json);
  reader.Read("peft_type", import.peft_type).Read("default_targets", import.default_targets).Read("rank_symbol", import.rank_symbol);
  reader.ReadList("rules", import.rules, [](const Json& value) -> Result<ImportRule> {
    ImportRule rule;
    VENEER_TRY(Reader(value).Read("action", rule.action).Read("key", rule.key).Read("values", rule.values).Read("text", rule.text).status());
    return rule;
  });
  reader.ReadList("tensors", import.tensors, [](const Json& value) -> Result<ImportTensor> {
    ImportTensor tensor;
    VENEER_TRY(Reader(value)
                   .Read("flags", tensor.flags)
                   .Read("site_mask", tensor.site_mask)
                   .Read("suffix", tensor.suffix)
                   .Read("role", tensor.role)
                   .Read("when_key", tensor.when_key)
                   .Read("when_default", tensor.when_default)
                   .status());
    return tensor;
  });
  reader.ReadList("params", import.params, [](const Json& value) -> Result<ImportParam> {
    ImportParam param;
    VENEER_TRY(Reader(value).Read("type", param.type).Read("param", param.param).Read("key", param.key).Read("default", param.default_json).status());
    return param;
  });
  VENEER_TRY(reader.status());
  VENEER_ASSIGN(const Json* scale, json.Get("scale"));
  if (!scale->is_null()) {
    ImportScale s;
    VENEER_TRY(Reader(*scale)
                   .Read("param", s.param)
                   .Read("numerator_key", s.numerator_key)
                   .Read("numerator_pattern", s.numerator_pattern)
                   .Read("denominator_key", s.denominator_key)
                   .Read("denominator_pattern", s.denominator_pattern)
                   .Read("sqrt_key", s.sqrt_key)
                   .Read("numerator_default", s.numerator_default)
                   .Read("denominator_default", s.denominator_default)
                   .status());
    import.scale = s;
  }
  return import;
}

}  // namespace

const RoleDecl* KindDecl::FindRole(std::string_view name) const {
  const auto found = std::ranges::find(roles, name, &RoleDecl::name);
  return found == roles.end() ? nullptr : &*found;
}

Result<KindDecl> DeclareKind(const vnr_kind& kind) {
  if (!VNR_HAS(&kind, vnr_kind, get_extension)) return Broken("?", fmt::format("its structure has {} bytes, ABI 1.0 has {}", kind.struct_size, sizeof(vnr_kind)));
  KindDecl declared;
  declared.id = Text(kind.id);
  if (declared.id.empty()) return Broken("?", "a kind without an id");
  for (const void* function : {reinterpret_cast<const void*>(kind.open), reinterpret_cast<const void*>(kind.close),
                               reinterpret_cast<const void*>(kind.bind), reinterpret_cast<const void*>(kind.unbind),
                               reinterpret_cast<const void*>(kind.estimate), reinterpret_cast<const void*>(kind.stage),
                               reinterpret_cast<const void*>(kind.weight_rows), reinterpret_cast<const void*>(kind.bias),
                               reinterpret_cast<const void*>(kind.describe), reinterpret_cast<const void*>(kind.transform),
                               reinterpret_cast<const void*>(kind.prepare), reinterpret_cast<const void*>(kind.apply),
                               reinterpret_cast<const void*>(kind.get_extension)})
    if (function == nullptr) return Broken(declared.id, "a function of its table is missing");
  declared.version = Text(kind.version);
  declared.summary = Text(kind.summary);
  declared.config_schema = Text(kind.config_schema);
  declared.flags = kind.flags;
  declared.site_mask = kind.site_mask;
  if (declared.site_mask == 0 || declared.site_mask > 7) return Broken(declared.id, fmt::format("site mask {}", declared.site_mask));
  if (kind.n_roles > 64) return Broken(declared.id, fmt::format("{} roles, allowed 64", kind.n_roles));
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < kind.n_roles; ++i) {
    VENEER_ASSIGN(RoleDecl role, DeclareRole(declared.id, kind.roles[i]));
    if (!names.insert(role.name).second) return Broken(declared.id, fmt::format("role {} is declared twice", role.name));
    declared.roles.push_back(std::move(role));
  }
  if (const auto* import = static_cast<const vnr_import*>(kind.get_extension(&kind, VNR_IMPORT_ID))) {
    if (!VNR_HAS(import, vnr_import, params)) return Broken(declared.id, "its import declaration is too short");
    declared.import = DeclareImport(*import);
  }
  return declared;
}

std::string KindToJson(const KindDecl& kind) {
  return fmt::format(
      R"({{"id":{},"version":{},"summary":{},"flags":{},"site_mask":{},"config_schema":{},"roles":{},"import":{}}})", Quote(kind.id),
      Quote(kind.version), Quote(kind.summary), kind.flags, kind.site_mask, Quote(kind.config_schema),
      List(kind.roles,
           [](const RoleDecl& role) {
             return fmt::format(R"({{"name":{},"flags":{},"dtype_mask":{},"dims":{}}})", Quote(role.name), role.flags, role.dtype_mask,
                                List(role.dims, [](std::uint32_t dim) { return fmt::format("{}", dim); }));
           }),
      kind.import ? ImportToJson(*kind.import) : "null");
}

Result<KindDecl> KindFromJson(const Json& json) {
  KindDecl kind;
  Reader reader(json);
  reader.Read("id", kind.id).Read("version", kind.version).Read("summary", kind.summary).Read("flags", kind.flags);
  reader.Read("site_mask", kind.site_mask).Read("config_schema", kind.config_schema);
  reader.ReadList("roles", kind.roles, [](const Json& value) -> Result<RoleDecl> {
    RoleDecl role;
    Reader one(value);
    one.Read("name", role.name).Read("flags", role.flags).Read("dtype_mask", role.dtype_mask);
    one.ReadList("dims", role.dims, [](const Json& dim) -> Result<std::uint32_t> {
      VENEER_ASSIGN(const std::uint64_t number, dim.U64());
      if (number > UINT32_MAX) return Fail(Code::NUMBER_FORM, dim.at, "does not fit 32 bits");
      return static_cast<std::uint32_t>(number);
    });
    VENEER_TRY(one.status());
    return role;
  });
  VENEER_TRY(reader.status());
  VENEER_ASSIGN(const Json* import, json.Get("import"));
  if (!import->is_null()) {
    VENEER_ASSIGN(kind.import, ImportFromJson(*import));
  }
  return kind;
}

}  // namespace veneer
