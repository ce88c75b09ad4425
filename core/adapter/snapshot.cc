#include "core/adapter/snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/adapter/names.h"
#include "core/base/digest.h"
#include "core/format/json.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxManifest = 1 << 20;

// The module that a tensor of the active adapter belongs to, if its name ends with a suffix of the declaration.
std::optional<std::string> ModuleOf(const ImportDecl& import, const std::string& name) {
  for (const ImportTensor& tensor : import.tensors)
    if (name.ends_with(tensor.suffix)) return name.substr(0, name.size() - tensor.suffix.size());
  return std::nullopt;
}

// All modules of the file; nothing when a tensor has another suffix.
std::optional<std::set<std::string>> ModulesOf(const ImportDecl& import, const SafetensorsFile& file) {
  std::set<std::string> modules;
  const std::string_view prefix = PrefixOf(file);
  for (const TensorView& tensor : file.tensors) {
    const auto module = ModuleOf(import, PlainName(tensor.name, prefix));
    if (!module) return std::nullopt;
    modules.insert(*module);
  }
  return modules;
}

// The snapshot has no adapter_config.json: rank and scale are in its manifest, under the names that the trainer gives them.
Result<std::string> ConfigFor(const SafetensorsFile& file, const Json& manifest, const Catalog& catalog) {
  VENEER_ASSIGN(const Json* rank, manifest.Get("lora_rank"));
  VENEER_ASSIGN(const std::uint64_t rank_value, rank->U64());
  VENEER_ASSIGN(const Json* alpha, manifest.Get("lora_alpha"));
  VENEER_ASSIGN([[maybe_unused]] const double alpha_value, alpha->Number());
  for (const KindDecl* kind : catalog.Importers()) {
    const ImportDecl& import = *kind->import;
    if (!import.scale || import.rank_symbol.empty()) continue;
    const auto modules = ModulesOf(import, file);
    if (!modules) continue;
    std::vector<std::string> targets;
    for (const std::string& module : *modules) targets.push_back(JsonQuote(module));
    return fmt::format(R"({{"peft_type":{},{}:{},{}:{},"target_modules":[{}]}})", JsonQuote(import.peft_type),
                       JsonQuote(import.scale->denominator_key), rank_value, JsonQuote(import.scale->numerator_key), alpha->text,
                       fmt::join(targets, ","));
  }
  return Fail(Code::KIND_UNKNOWN, file.tensors.empty() ? "" : file.tensors.front().name,
              "no installed kind of low rank reads these tensors; install its plugin");
}

Result<AdapterFiles> OpenResidual(const fs::path& path, const Json& manifest) {
  AdapterFiles files;
  VENEER_ASSIGN(files.weights, FileBytes::Copy(path, kMaxAdapterBytes));
  auto parsed = SafetensorsFile::Parse(files.weights.bytes());
  if (!parsed) return Fail(std::move(parsed).error().Within(path.string()));
  VENEER_ASSIGN(const Json* claimed, manifest.Get("residual_fingerprint"));
  VENEER_ASSIGN(const std::string expected, claimed->String());
  if (const std::string found = ResidualFingerprint(*parsed); found != expected)
    return Fail(
        Code::HASH_MISMATCH, path.string(),
        fmt::format("its tensors have fingerprint {}, the manifest says {}; the snapshot is damaged or of two moments, take it again",
                    found, expected));
  return files;
}

Result<AdapterFiles> OpenActive(const fs::path& path, const Json& manifest, const Catalog& catalog) {
  AdapterFiles files;
  VENEER_ASSIGN(files.weights, FileBytes::Copy(path, kMaxAdapterBytes));
  auto parsed = SafetensorsFile::Parse(files.weights.bytes());
  if (!parsed) return Fail(std::move(parsed).error().Within(path.string()));
  VENEER_ASSIGN(const std::string config, ConfigFor(*parsed, manifest, catalog));
  VENEER_ASSIGN(files.config, FileBytes::Of(std::as_bytes(std::span(config)), (path.parent_path() / "adapter_config.json").string()));
  return files;
}

}  // namespace

std::string ResidualFingerprint(const SafetensorsFile& file) {
  Sha256 hash;
  for (const TensorView& tensor : file.tensors) {  // sorted by name
    hash.Update(tensor.name);
    hash.Update(tensor.bytes);
  }
  return hash.Finish().Hex();
}

Result<Snapshot> OpenSnapshot(const fs::path& directory, const Catalog& catalog) {
  const fs::path manifest_path = directory / "manifest.json", residual = directory / "merged_deltas.safetensors",
                 active = directory / "active_adapter.safetensors";
  VENEER_ASSIGN(const std::string text, ReadText(manifest_path, kMaxManifest));
  auto manifest = ParseJson(text);
  if (!manifest) return Fail(std::move(manifest).error().Within(manifest_path.string()));
  if (!manifest->is_object()) return Fail(Code::FIELD_TYPE, manifest_path.string(), "must hold an object");
  Snapshot snapshot;
  std::error_code ignored;
  const Json* fingerprint = manifest->Find("residual_fingerprint");
  if (fs::exists(residual, ignored)) {
    auto opened = OpenResidual(residual, *manifest);
    if (!opened) return Fail(std::move(opened).error());
    snapshot.residual = *std::move(opened);
  } else if (fingerprint != nullptr && !fingerprint->is_inert()) {
    return Fail(Code::BLOB_MISSING, residual.string(),
                "the manifest has a residual_fingerprint, but the file is not there; the snapshot is incomplete");
  }
  if (fs::exists(active, ignored)) {
    auto opened = OpenActive(active, *manifest, catalog);
    if (!opened) return Fail(std::move(opened).error());
    snapshot.active = *std::move(opened);
  }
  if (!snapshot.residual && !snapshot.active)
    return Fail(Code::BLOB_MISSING, directory.string(), "has neither merged_deltas.safetensors nor active_adapter.safetensors");
  return snapshot;
}

}  // namespace veneer
