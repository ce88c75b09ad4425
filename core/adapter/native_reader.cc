#include "core/adapter/native_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/adapter/names.h"
#include "core/adapter/params.h"
#include "core/adapter/site_facts.h"

namespace veneer {
namespace {

constexpr std::string_view kFormatPrefix = "veneer.";
constexpr std::array<std::string_view, 7> kReserved{"format",           "format_version", "weight_layout", "arch",
                                                    "base_fingerprint", "modules",        "producer"};
// What a replacement file's names end with; a bias is `<module>.bias.weight`, like every other vector.
constexpr std::string_view kReplaceSuffix = ".weight";

const std::string* Find(const SafetensorsFile& file, std::string_view key) {
  const auto found = std::ranges::find(file.metadata, key, &std::pair<std::string, std::string>::first);
  return found == file.metadata.end() ? nullptr : &found->second;
}

// The role that a name ends with, if any.
const RoleDecl* RoleOf(const KindDecl& kind, std::string_view name) {
  for (const RoleDecl& role : kind.roles)
    if (name == role.name ? (role.flags & VNR_ROLE_SHARED) != 0 : name.ends_with("." + role.name)) return &role;
  return nullptr;
}

bool FitsRoles(const KindDecl& kind, const SafetensorsFile& file, std::string_view prefix) {
  return !file.tensors.empty() && std::ranges::all_of(file.tensors, [&](const TensorView& tensor) {
    return RoleOf(kind, PlainName(tensor.name, prefix)) != nullptr;
  });
}

// Whether one of the names is that of a checkpoint which some kind imports: then the file lacks its configuration.
bool IsCheckpoint(const Catalog& catalog, const SafetensorsFile& file, std::string_view prefix) {
  for (const KindDecl* kind : catalog.Importers())
    for (const TensorView& tensor : file.tensors)
      if (const std::string name = PlainName(tensor.name, prefix);
          std::ranges::any_of(kind->import->tensors, [&name](const ImportTensor& known) { return name.ends_with(known.suffix); }))
        return true;
  return false;
}

// Checks `modules` against what the file holds.
class ModuleTable {
 public:
  static Result<ModuleTable> Parse(const SafetensorsFile& file) {
    ModuleTable table;
    const std::string* text = Find(file, "modules");
    if (text == nullptr) return table;
    VENEER_ASSIGN(table.json_, ParseJson(*text));
    if (!table.json_.is_object()) return Fail(Code::FIELD_TYPE, "/__metadata__/modules", "must be an object module -> sizes");
    table.is_given_ = true;
    return table;
  }
  Status CheckSite(const Site& site, const KindDecl& kind, const OverlaySource& source) const {
    if (!is_given_) return {};
    const Json* sizes = json_.Find(site.id);
    if (sizes == nullptr)
      return Fail(Code::TENSOR_UNMATCHED, site.id, "the file has tensors for this module, but its table of modules does not list it");
    const std::optional<char> entries = kind.EntrySymbol();
    const std::pair<std::string_view, std::uint64_t> facts[] = {
        {"rows", site.out}, {"cols", site.in}, {"nnz", entries ? SymbolValue(kind, source, *entries) : 0}};
    for (const auto& [key, value] : facts) {
      const Json* claimed = sizes->Find(key);
      if (claimed == nullptr) continue;
      VENEER_ASSIGN(const std::uint64_t number, claimed->U64());
      if (number != value)
        return Fail(Code::SHAPE_MISMATCH, site.id, fmt::format("the table of modules says {} = {}, here it is {}", key, number, value));
    }
    return {};
  }
  Status CheckComplete(const std::map<std::string, OverlaySource>& sites) const {
    for (const auto& [module, sizes] : json_.members)
      if (!sites.contains(module))
        return Fail(Code::TENSOR_UNMATCHED, module, "the table of modules lists it, but the file has no tensor for it; it is incomplete");
    return {};
  }

 private:
  Json json_;
  bool is_given_ = false;
};

Status CheckMetadata(const SafetensorsFile& file, const Base& base, std::vector<std::string>& notes) {
  if (const std::string* version = Find(file, "format_version"); version != nullptr && *version != "1")
    return Fail(Code::FORMAT_UNSUPPORTED, "/__metadata__/format_version", fmt::format("'{}', this version reads '1'", *version));
  const std::string* layout = Find(file, "weight_layout");
  if (layout != nullptr && *layout != "hf" && *layout != "gguf")
    return Fail(Code::FORMAT_UNSUPPORTED, "/__metadata__/weight_layout", fmt::format("'{}', known are 'hf' and 'gguf'", *layout));
  if (const std::string* arch = Find(file, "arch"); arch != nullptr && *arch != base.config().arch)
    notes.push_back(fmt::format("says that it is for architecture {}, the base is {} (shapes are checked)", *arch, base.config().arch));
  if (const std::string* print = Find(file, "base_fingerprint"); print != nullptr)
    notes.push_back(fmt::format("names base fingerprint '{}' (not checked; shapes are)", print->substr(0, 80)));
  return {};
}

// `name`: the module as the file spells it.
Status CheckLayout(const SafetensorsFile& file, const Site& site, std::string_view name) {
  const std::string* layout = Find(file, "weight_layout");
  if (site.row_order.is_identity() || (layout != nullptr && *layout == "hf")) return {};
  if (layout == nullptr && name == site.id) return {};
  if (layout == nullptr)
    return Fail(
        Code::FIELD_MISSING, "/__metadata__/weight_layout",
        fmt::format("{} is the GGUF name of {}, whose rows GGUF orders otherwise than Hugging Face; say which order they have here, "
                    "'hf' or 'gguf'",
                    name, site.id));
  return Fail(Code::FORMAT_UNSUPPORTED, site.id,
              "the file's rows are in GGUF order, which differs from Hugging Face order on this module; write it with weight_layout 'hf'");
}

// Metadata of a file in veneer's own layout are all accounted for; those of any other file are free.
Result<std::vector<ParamValue>> MetadataParams(const SafetensorsFile& file, const KindDecl& kind) {
  std::vector<ParamValue> params;
  if (!DescribesItself(file)) return params;
  for (const auto& [key, value] : file.metadata) {
    if (std::ranges::find(kReserved, key) != kReserved.end()) continue;
    VENEER_ASSIGN(params.emplace_back(), ParseParam(kind, key, value, fmt::format("/__metadata__/{}", key)));
  }
  return params;
}

Status ReadReplace(const SafetensorsFile& file, std::string_view name_of_file, const Base& base, Adapter& adapter) {
  const std::string_view prefix = PrefixOf(file);
  Unplaced unplaced;
  for (const TensorView& tensor : file.tensors) {
    std::string name = PlainName(tensor.name, prefix);
    const Site* site = nullptr;
    if (name.ends_with(kReplaceSuffix)) name.resize(name.size() - kReplaceSuffix.size());
    if (const auto id = base.sites().Canonical(name)) site = base.sites().Find(*id);
    if (site == nullptr) {
      unplaced.AddHomeless(tensor.name);
      continue;
    }
    VENEER_TRY(CheckLayout(file, *site, name));
    Replacement& replacement = adapter.replacements.emplace_back(Replacement{site->id, tensor, {}});
    VENEER_TRY(CheckReplacement(*site, replacement));
  }
  VENEER_TRY(unplaced.Check(name_of_file, file.tensors.size(), kReplaceKind, base, "a site of the base, then '.weight'"));
  if (file.tensors.empty()) return Fail(Code::NOTHING_MATCHED, std::string(name_of_file), "the file holds no tensor; it is incomplete");
  return SortReplacements(adapter.replacements);
}

}  // namespace

bool DescribesItself(const SafetensorsFile& file) {
  const std::string* format = Find(file, "format");
  return format != nullptr && format->starts_with(kFormatPrefix);
}

Result<std::string> IdentifyNative(const SafetensorsFile& file, const Catalog& catalog, std::string_view wanted) {
  if (DescribesItself(file)) {
    const std::string kind = Find(file, "format")->substr(kFormatPrefix.size());
    if (!wanted.empty() && wanted != kind)
      return Fail(Code::KIND_UNKNOWN, "/__metadata__/format", fmt::format("the file is of kind {}, asked for is {}", kind, wanted));
    if (kind != kReplaceKind) VENEER_TRY(catalog.FindKind(kind));
    return kind;
  }
  if (!wanted.empty()) {
    if (wanted != kReplaceKind) VENEER_TRY(catalog.FindKind(wanted));
    return std::string(wanted);
  }
  const Error lacks_configuration{
      Code::BLOB_MISSING, "adapter_config.json",
      "this adapter needs it and it is not there: scale and targets are in it (only a file whose metadata has a format 'veneer.KIND', "
      "or whose names are those of one kind, goes without)"};
  const std::string_view prefix = PrefixOf(file);
  if (IsCheckpoint(catalog, file, prefix)) return Fail(lacks_configuration);
  std::string fitting;
  for (const KindDecl* kind : catalog.Kinds()) {
    if (!FitsRoles(*kind, file, prefix) || kind->id == fitting) continue;
    if (!fitting.empty())
      return Fail(Code::PLUGIN_REFUSED, "", fmt::format("its names fit both {} and {}; choose with --kind", fitting, kind->id));
    fitting = kind->id;
  }
  if (fitting.empty()) return Fail(lacks_configuration);
  // Without the prefix of a checkpoint such names are those of any file of weights, and these may be meant to replace the base's.
  const auto ends_like_weights = [](const TensorView& tensor) { return tensor.name.ends_with(kReplaceSuffix); };
  if (prefix.empty() && std::ranges::all_of(file.tensors, ends_like_weights))
    return Fail(Code::PLUGIN_REFUSED, "",
                fmt::format("these may be weights to add or weights to put in the place of the base's; choose with --kind {} or --kind {}",
                            fitting, kReplaceKind));
  return fitting;
}

Status ReadNative(const SafetensorsFile& file, std::string_view name_of_file, const Base& base, const Catalog& catalog,
                  std::string_view wanted, Adapter& adapter) {
  VENEER_ASSIGN(adapter.kind, IdentifyNative(file, catalog, wanted));
  VENEER_TRY(CheckMetadata(file, base, adapter.notes));
  if (adapter.kind == kReplaceKind) return ReadReplace(file, name_of_file, base, adapter);
  const KindDecl& kind = *catalog.FindDeclaration(adapter.kind);
  VENEER_ASSIGN(const std::vector<ParamValue> params, MetadataParams(file, kind));
  VENEER_ASSIGN(const ModuleTable modules, ModuleTable::Parse(file));
  const std::string_view prefix = PrefixOf(file);
  std::map<std::string, OverlaySource> sites;
  Unplaced unplaced;
  for (const TensorView& tensor : file.tensors) {
    const std::string name = PlainName(tensor.name, prefix);
    const RoleDecl* role = RoleOf(kind, name);
    if (role == nullptr) {
      unplaced.AddStranger(tensor.name);
    } else if ((role->flags & VNR_ROLE_SHARED) != 0) {
      adapter.shared.tensors.push_back({role->name, tensor});
    } else if (const std::string module = name.substr(0, name.size() - role->name.size() - 1);
               const auto id = base.sites().Canonical(module)) {
      VENEER_TRY(CheckLayout(file, *base.sites().Find(*id), module));
      sites[*id].tensors.push_back({role->name, tensor});
    } else {
      unplaced.AddHomeless(tensor.name);
    }
  }
  VENEER_TRY(unplaced.Check(name_of_file, file.tensors.size(), kind.id, base,
                            fmt::format("a module of the base, then a role of kind {}", kind.id)));
  if (sites.empty()) return Fail(Code::NOTHING_MATCHED, std::string(name_of_file), "the file edits no module; it is incomplete");
  VENEER_TRY(modules.CheckComplete(sites));
  for (auto& [id, source] : sites) {
    const Site& site = *base.sites().Find(id);
    source.params = params;
    VENEER_TRY(CheckSource(kind, FactsOf(site), source, adapter.shared, id));
    VENEER_TRY(modules.CheckSite(site, kind, source));
    AdapterSite& part = adapter.sites.emplace_back();
    part.site = id;
    part.source = std::move(source);
  }
  return {};
}

}  // namespace veneer
