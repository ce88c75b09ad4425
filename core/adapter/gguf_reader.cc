#include "core/adapter/gguf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/adapter/names.h"
#include "core/adapter/role_tensor.h"
#include "core/adapter/site_checks.h"
#include "core/adapter/site_facts.h"

namespace veneer {
namespace {

constexpr std::string_view kTypeKey = "general.type", kArchKey = "general.architecture", kAdapterTypeKey = "adapter.type";
constexpr std::string_view kAdapter = "adapter", kAdapterKeys = "adapter.", kWeight = ".weight";

Status CheckIsAdapter(const GgufFile& file) {
  if (IsGgufAdapter(file)) return {};
  std::string found = "is missing";
  if (file.Find(kTypeKey) != nullptr) {
    VENEER_ASSIGN(const std::string type, file.String(kTypeKey));
    found = fmt::format("is '{}'", type);
  }
  return Fail(Code::FORMAT_UNSUPPORTED, std::string(kTypeKey),
              fmt::format("{}, an adapter says 'adapter'; a model is a base: name it as such, and give an adapter here", found));
}

Result<const KindDecl*> SelectKind(const GgufFile& file, const Catalog& catalog, std::string_view wanted) {
  VENEER_ASSIGN(const std::string type, file.String(kAdapterTypeKey));
  const KindDecl* selected = nullptr;
  std::string importers;
  for (const KindDecl* kind : catalog.GgufImporters()) {
    importers += fmt::format("{}{} ({})", importers.empty() ? "" : ", ", kind->id, kind->import_gguf->adapter_type);
    if (kind->import_gguf->adapter_type != type || (!wanted.empty() && kind->id != wanted)) continue;
    if (selected != nullptr && selected->id != kind->id)
      return Fail(Code::PLUGIN_REFUSED, std::string(kAdapterTypeKey),
                  fmt::format("both {} and {} read '{}'; choose with --kind", selected->id, kind->id, type));
    selected = kind;
  }
  if (selected != nullptr) return selected;
  return Fail(Code::KIND_UNKNOWN, std::string(kAdapterTypeKey),
              fmt::format("no installed plugin{} reads a GGUF adapter of type '{}'; there are: {}",
                          wanted.empty() ? "" : fmt::format(" of kind {}", wanted), type, importers.empty() ? "none" : importers));
}

// An empty list or text, or false: asks for nothing.
bool IsInert(const GgufFile& file, const GgufValue& value) {
  if (value.type == GgufType::kArray) return value.count == 0;
  if (value.type == GgufType::kString) return value.payload.size() == sizeof(std::uint64_t);
  return value.type == GgufType::kBool && !file.Bool(value.key).value_or(true);
}

Status CheckKeys(const GgufFile& file, const KindDecl& kind) {
  const GgufImportDecl& import = *kind.import_gguf;
  for (const GgufValue& value : file.values()) {
    if (value.key == kAdapterTypeKey || value.key == import.numerator_key || IsInert(file, value)) continue;
    const auto rule = std::ranges::find(import.rules, value.key, &ImportRule::key);
    if (rule == import.rules.end()) {
      if (value.key.starts_with(kAdapterKeys))
        return Fail(Code::FORMAT_UNSUPPORTED, value.key,
                    fmt::format("is nothing that kind {} knows, and it may change what the adapter does; use a newer plugin", kind.id));
      continue;
    }
    if (rule->action == VNR_CFG_REFUSE) return Fail(Code::FORMAT_UNSUPPORTED, value.key, rule->text);
    if (rule->action == VNR_CFG_BASE_CHANGED) return Fail(Code::BASE_CHANGED_BY_INIT, value.key, rule->text);
  }
  return {};
}

// What the metadata say, checked as far as that goes without a base.
struct Header {
  const KindDecl* kind = nullptr;
  std::string arch;
  double numerator = 0;  // of the scale; 0: no rule, the scale is 1
};

Result<Header> ReadHeader(const GgufFile& file, const Catalog& catalog, std::string_view wanted) {
  Header header;
  VENEER_TRY(CheckIsAdapter(file));
  VENEER_ASSIGN(header.arch, file.String(kArchKey));
  VENEER_ASSIGN(header.kind, SelectKind(file, catalog, wanted));
  VENEER_TRY(CheckKeys(file, *header.kind));
  if (const std::string& key = header.kind->import_gguf->numerator_key; !key.empty() && file.Find(key) != nullptr) {
    VENEER_ASSIGN(header.numerator, file.F64(key));
  }
  return header;
}

// The site that a tensor of a GGUF base belongs to. Names in Hugging Face form do not occur in such a file, and would leave open in which
// order the rows are.
const Site* FindSite(const SiteTable& sites, std::string_view tensor_name) {
  if (!tensor_name.ends_with(kWeight)) return nullptr;
  const auto id = sites.Canonical(tensor_name);
  return id && !tensor_name.starts_with(*id) ? sites.Find(*id) : nullptr;
}

struct Part {
  const GgufImportTensor* declared;
  const TensorView* stored;
};
using Parts = std::map<std::string, std::vector<Part>>;  // by site id

Result<Parts> MapTensors(const GgufFile& file, const KindDecl& kind, const Base& base, const std::string& file_name) {
  Parts parts;
  Unplaced unplaced;
  for (const TensorView& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    bool is_placed = false, is_homeless = false;  // homeless: a suffix fits, but the base has no such tensor
    for (const GgufImportTensor& declared : kind.import_gguf->tensors) {
      if (!name.ends_with(declared.suffix)) continue;
      const Site* site = FindSite(base.sites(), name.substr(0, name.size() - declared.suffix.size()));
      is_homeless = is_homeless || site == nullptr;
      if (site == nullptr || (declared.site_mask & VNR_BIT(static_cast<std::uint32_t>(site->shape_class))) == 0) continue;
      parts[site->id].push_back({&declared, &tensor});
      is_placed = true;
      break;
    }
    if (is_placed) continue;
    if (FindSite(base.sites(), name) != nullptr)
      return Fail(Code::TENSOR_UNMATCHED, tensor.name,
                  "is a whole tensor of the base, which llama.cpp ignores without a word, and so leaves out what was trained; convert an "
                  "adapter that does not train it");
    is_homeless ? unplaced.AddHomeless(tensor.name) : unplaced.AddStranger(tensor.name);
  }
  VENEER_TRY(unplaced.Check(file_name, file.tensors().size(), kind.id, base,
                            fmt::format("that of a tensor in a GGUF base of this architecture, then a suffix of kind {}", kind.id)));
  if (parts.empty()) return Fail(Code::NOTHING_MATCHED, file_name, "the file has no tensors; it is incomplete");
  return parts;
}

// A refused shape that would fit with the two dimensions of one tensor exchanged.
std::string ExchangeHint(const KindDecl& kind, const SiteFacts& site, const OverlaySource& source) {
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    OverlaySource exchanged = source;
    std::ranges::reverse(exchanged.tensors[i].tensor.shape);
    if (CheckSource(kind, site, exchanged, {}, "").has_value())
      return fmt::format("; {} looks transposed, as llama.cpp's former 'finetune' example stored it: convert the PEFT adapter instead",
                         source.tensors[i].tensor.name);
  }
  return {};
}

class SiteReader {
 public:
  SiteReader(const Header& header, const Base& base, Adapter& adapter) : header_(header), base_(base), adapter_(adapter) {}

  Status Read(const std::string& id, const std::vector<Part>& parts) {
    const KindDecl& kind = *header_.kind;
    const GgufImportDecl& import = *kind.import_gguf;
    const Site& site = *base_.sites().Find(id);
    AdapterSite& read = adapter_.sites.emplace_back();
    read.site = id;
    for (const Part& part : parts) {
      const bool is_transposed = (part.declared->flags & VNR_IMPORT_GGUF_TRANSPOSED) != 0;
      VENEER_ASSIGN(TensorView tensor, ToRole(*part.stored, *kind.FindRole(part.declared->role), is_transposed, site, adapter_.converted));
      read.source.tensors.push_back({part.declared->role, std::move(tensor)});
    }
    if (!import.rank_symbol.empty()) read.rank = SymbolValue(kind, read.source, import.rank_symbol.front());
    if (!import.scale_param.empty()) {
      const double scale = header_.numerator == 0 || read.rank == 0 ? 1 : header_.numerator / static_cast<double>(read.rank);
      read.source.params.push_back(NumberParam(import.scale_param, scale));
    }
    auto status = CheckSource(kind, FactsOf(site), read.source, {}, id);
    if (!status) {
      if (status.error().code == Code::SHAPE_MISMATCH) status.error().detail += ExchangeHint(kind, FactsOf(site), read.source);
      return status;
    }
    VENEER_TRY(CheckRank(site, read.rank));
    adapter_.rank = std::max(adapter_.rank, read.rank);
    has_effect_ = has_effect_ || HasEffect(read.source);
    if (site.is_tied && site.shape_class == SiteClass::kEmbedding)
      adapter_.notes.push_back(
          fmt::format("{}: edits the embedding only; llama.cpp would also apply it to the head, which shares its tensor in this base", id));
    return {};
  }
  [[nodiscard]] bool has_effect() const { return has_effect_; }

 private:
  const Header& header_;
  const Base& base_;
  Adapter& adapter_;
  bool has_effect_ = false;
};

Status ReadInto(const GgufFile& file, const Header& header, const Base& base, const std::string& file_name, Adapter& adapter) {
  const KindDecl& kind = *header.kind;
  if (header.arch != base.config().arch)
    return Fail(Code::BASE_MISMATCH, std::string(kArchKey),
                fmt::format("the adapter is for '{}', the base is '{}'; use the base that the adapter was trained on", header.arch,
                            base.config().arch));
  adapter.kind = kind.id;
  adapter.format = "gguf";
  VENEER_ASSIGN(const Parts parts, MapTensors(file, kind, base, file_name));
  SiteReader reader(header, base, adapter);
  for (const auto& [id, tensors] : parts) VENEER_TRY(reader.Read(id, tensors));
  if (!kind.import_gguf->scale_param.empty() && header.numerator == 0)
    adapter.notes.push_back(fmt::format("{} is {}, so the scale is 1 whatever the rank", kind.import_gguf->numerator_key,
                                        file.Find(kind.import_gguf->numerator_key) == nullptr ? "missing" : "0"));
  if (!reader.has_effect() && (kind.flags & VNR_KIND_ADDITIVE) != 0) adapter.notes.emplace_back(kNoEffect);
  return {};
}

}  // namespace

bool IsGgufAdapter(const GgufFile& file) { return file.Find(kTypeKey) != nullptr && file.String(kTypeKey).value_or("") == kAdapter; }

Result<std::string> IdentifyGgufAdapter(const FileBytes& file, const Catalog& catalog, std::string_view kind) {
  auto parsed = GgufFile::Parse(file.bytes());
  if (!parsed) return Fail(std::move(parsed).error().Within(file.name()));
  auto header = ReadHeader(*parsed, catalog, kind);
  if (!header) return Fail(std::move(header).error().Within(file.name()));
  return header->kind->id;
}

Result<Adapter> ReadGgufAdapter(AdapterFiles files, const Base& base, const Catalog& catalog, std::string_view kind) {
  const std::string& name = files.weights.name();
  auto parsed = GgufFile::Parse(files.weights.bytes());
  if (!parsed) return Fail(std::move(parsed).error().Within(name));
  auto header = ReadHeader(*parsed, catalog, kind);
  if (!header) return Fail(std::move(header).error().Within(name));
  Adapter adapter;
  VENEER_TRY(ReadInto(*parsed, *header, base, name, adapter));
  adapter.weights = std::move(files.weights);  // the views point into the mapping, which does not move
  return adapter;
}

}  // namespace veneer
