#include "core/cli/inspect_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "core/adapter/peft_config.h"
#include "core/base/bytes.h"
#include "core/cli/inspect_json.h"
#include "core/format/gguf.h"
#include "core/format/safetensors.h"

namespace veneer::cli {
namespace {

constexpr JsonLimits kConfigLimits{.bytes = 1 << 20, .depth = 8, .items = 50'000};

bool IsGguf(const FileBytes& weights) { return AsText(weights.bytes()).starts_with("GGUF"); }

// Keys that the kind takes and computes nothing from: those that its rules accept and that no number or tensor of it comes from.
OutJson IgnoredKeys(const OutJson& document, const KindDecl* kind, bool is_gguf) {
  OutJson ignored = OutJson::object();
  std::set<std::string> used;
  const std::vector<ImportRule>* rules = nullptr;
  if (kind != nullptr && !is_gguf && kind->import) {
    rules = &kind->import->rules;
    if (const auto& scale = kind->import->scale)
      used = {scale->numerator_key, scale->numerator_pattern, scale->denominator_key, scale->denominator_pattern, scale->sqrt_key};
    for (const ImportParam& param : kind->import->params) used.insert(param.key);
    for (const ImportTensor& tensor : kind->import->tensors) used.insert(tensor.when_key);
  }
  if (kind != nullptr && is_gguf && kind->import_gguf) {
    rules = &kind->import_gguf->rules;
    used = {kind->import_gguf->numerator_key};
  }
  if (rules == nullptr) return ignored;
  for (const auto& [key, value] : document.items()) {
    const bool is_inert = value.is_null() || value == false || (!value.is_primitive() && value.empty()) || value == "";
    if (is_inert || used.contains(key)) continue;
    if (std::ranges::any_of(*rules, [&name = key](const ImportRule& rule) { return rule.action == VNR_CFG_ACCEPT && rule.key == name; }))
      ignored[key] = value;
  }
  return ignored;
}

// A value of a GGUF's metadata; an array as its size.
OutJson ValueJson(const GgufFile& file, const GgufValue& value) {
  switch (value.type) {
    case GgufType::kArray:
      return fmt::format("{} x {}", value.count, NameOf(value.element_type));
    case GgufType::kString:
      return file.String(value.key).value_or("");
    case GgufType::kBool:
      return file.Bool(value.key).value_or(false);
    case GgufType::kF32:
    case GgufType::kF64:
      if (const auto number = file.F64(value.key)) return *number;
      return nullptr;
    default:
      if (const auto number = file.U64(value.key)) return *number;
      return std::string(NameOf(value.type));
  }
}

struct Contents {
  std::vector<TensorView> tensors;
  OutJson metadata = OutJson::object();
};

Result<Contents> ReadContents(const FileBytes& weights) {
  Contents contents;
  if (IsGguf(weights)) {
    auto file = GgufFile::Parse(weights.bytes());
    if (!file) return Fail(std::move(file).error().Within(weights.name()));
    contents.tensors = file->tensors();
    for (const GgufValue& value : file->values()) contents.metadata[value.key] = ValueJson(*file, value);
  } else {
    auto file = SafetensorsFile::Parse(weights.bytes());
    if (!file) return Fail(std::move(file).error().Within(weights.name()));
    contents.tensors = std::move(file->tensors);
    for (const auto& [key, value] : file->metadata) contents.metadata[key] = value;
  }
  return contents;
}

// Kind, or the reason for which nothing here reads the adapter; what of the configuration has no effect.
void AddKind(OutJson& facts, const AdapterFiles& files, const Catalog& catalog, std::string_view wanted) {
  const auto kind = IdentifyAdapter(files, catalog, wanted);
  facts["kind"] = kind ? OutJson(*kind) : OutJson();
  if (!kind) {
    facts["refused"] = kind.error().Text();
    return;
  }
  const KindDecl* declaration = catalog.FindDeclaration(*kind);
  const bool is_gguf = FormatOf(files) == "gguf";
  if (is_gguf || files.config) facts["ignored_keys"] = IgnoredKeys(facts[is_gguf ? "metadata" : "configuration"], declaration, is_gguf);
  if (!files.config) return;
  if (const auto config = PeftConfig::Parse(AsText(files.config->bytes()), catalog, wanted)) facts["notes"] = config->notes();
}

// As stored; a type that staging changes is a copy: "held_as".
OutJson PlacedTensor(const TensorView& placed, std::span<const TensorView> stored) {
  const auto found = std::ranges::lower_bound(stored, placed.name, {}, &TensorView::name);
  if (found == stored.end() || found->name != placed.name) return TensorFacts(placed);
  OutJson facts = TensorFacts(*found);
  if (found->dtype != placed.dtype) facts["held_as"] = {{"dtype", InfoOf(placed.dtype).name}, {"bytes", placed.bytes.size()}};
  return facts;
}

OutJson TensorsOf(const OverlaySource& source, std::span<const TensorView> stored) {
  OutJson tensors = OutJson::array();
  for (const RoleTensor& one : source.tensors) {
    OutJson facts{{"role", one.role}};
    facts.update(PlacedTensor(one.tensor, stored));
    tensors.push_back(std::move(facts));
  }
  return tensors;
}

OutJson ParamsOf(const OverlaySource& source) {
  OutJson params = OutJson::object();
  for (const ParamValue& param : source.params) {
    OutJson& value = params[param.path.substr(1)];
    if (param.type == VNR_PARAM_STRING) {
      value = param.s;
    } else if (param.type == VNR_PARAM_NUMBER) {
      value = param.d;
    } else {
      value = param.i;
    }
  }
  return params;
}

}  // namespace

Result<std::vector<TensorView>> StoredTensors(const FileBytes& weights) {
  VENEER_ASSIGN(Contents contents, ReadContents(weights));
  std::ranges::sort(contents.tensors, {}, &TensorView::name);
  return std::move(contents.tensors);
}

OutJson EditJson(const AdapterSite& part, std::span<const TensorView> stored) {
  OutJson facts{{"rank", part.rank}, {"scale", part.scale ? OutJson(*part.scale) : OutJson()}, {"params", ParamsOf(part.source)}};
  facts["tensors"] = TensorsOf(part.source, stored);
  std::uint64_t bytes = 0;
  for (const OutJson& tensor : facts["tensors"]) bytes += tensor.at("bytes").get<std::uint64_t>();
  facts["bytes"] = bytes;
  return facts;
}

OutJson ReplacementJson(const Replacement& replacement, const Site& site) {
  const bool is_whole = replacement.rows.empty();
  OutJson facts{{"whole", is_whole}, {"rows", is_whole ? site.out : replacement.rows.size()}};
  facts.update(TensorFacts(replacement.tensor));
  return facts;
}

Result<OutJson> AdapterFileFacts(const AdapterBlobs& blobs, const Catalog& catalog, std::string_view kind) {
  const AdapterFiles& files = blobs.files;
  VENEER_ASSIGN(Contents contents, ReadContents(files.weights));
  OutJson facts{{"what", "adapter"},
                {"kind", nullptr},
                {"format", FormatOf(files)},
                {"file_hash", blobs.file_hash.Text()},
                {"file_size", blobs.file_size}};
  if (files.config) {
    auto config = ParseJson(AsText(files.config->bytes()), kConfigLimits);
    if (!config) return Fail(std::move(config).error().Within(files.config->name()));
    facts["config_hash"] = blobs.config_hash->Text();
    facts["config_size"] = blobs.config_size;
    facts["configuration"] = ToOutJson(*config);
  }
  facts["metadata"] = std::move(contents.metadata);
  facts["ignored_keys"] = OutJson::object();
  facts["notes"] = OutJson::array();
  AddKind(facts, files, catalog, kind);
  std::uint64_t elements = 0, bytes = 0;
  OutJson tensors = OutJson::array();
  for (const TensorView& tensor : contents.tensors) {
    elements += tensor.elements();
    bytes += tensor.bytes.size();
    tensors.push_back(TensorFacts(tensor));
  }
  facts["elements"] = elements;
  facts["tensor_bytes"] = bytes;
  facts["tensors"] = std::move(tensors);
  return facts;
}

Status PlaceAdapter(OutJson& facts, const Adapter& adapter, const Base& base) {
  VENEER_ASSIGN(const std::vector<TensorView> stored, StoredTensors(adapter.weights));
  std::set<std::string_view> used;
  for (const RoleTensor& one : adapter.shared.tensors) used.insert(one.tensor.name);
  facts.erase("tensors");
  facts["kind"] = adapter.kind;
  facts["rank"] = adapter.rank;
  facts["sites"] = OutJson::array();
  for (const AdapterSite& part : adapter.sites) {
    facts["sites"].emplace_back(SiteFactsJson(*base.sites().Find(part.site))).update(EditJson(part, stored));
    for (const RoleTensor& one : part.source.tensors) used.insert(one.tensor.name);
  }
  facts["replacements"] = OutJson::array();
  for (const Replacement& one : adapter.replacements) {
    const Site& site = *base.sites().Find(one.site);
    facts["replacements"].emplace_back(SiteFactsJson(site))["by"] = ReplacementJson(one, site);
    used.insert(one.tensor.name);
  }
  facts["shared"] = TensorsOf(adapter.shared, stored);
  facts["ignored"] = OutJson::array();
  for (const TensorView& tensor : stored) {
    if (used.contains(tensor.name)) continue;
    const auto reason = std::ranges::find(adapter.ignored, tensor.name, &IgnoredTensor::tensor);
    facts["ignored"].emplace_back(TensorFacts(tensor))["why"] = reason == adapter.ignored.end() ? "" : reason->why;
  }
  facts["notes"] = adapter.notes;
  return {};
}

}  // namespace veneer::cli
