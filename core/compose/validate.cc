#include "core/compose/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/compose/replace_conflicts.h"

namespace veneer {
namespace {

// The fraction of the edited elements that a sparse kind leaves alone: one that declares a symbol that counts stored entries.
Decimal SparsityOf(const Adapter& adapter, const KindDecl* kind, const SiteTable& sites) {
  if (kind == nullptr) return {};
  const std::optional<char> symbol = kind->EntrySymbol();
  if (!symbol) return {};
  std::uint64_t entries = 0, elements = 0;  // both below the sum of the base's elements
  for (const AdapterSite& part : adapter.sites) {
    const Site* site = sites.Find(part.site);
    if (site != nullptr) elements += site->out * site->in;
    entries += SymbolValue(*kind, part.source, *symbol);
  }
  return elements == 0 ? Decimal() : Decimal::FromFraction(elements - entries, elements);
}

AdapterFacts FactsOf(const Adapter& adapter, const KindDecl* kind, const AdapterBlobs& blobs, const SiteTable& sites) {
  AdapterFacts facts;
  facts.kind = adapter.kind;
  facts.format = adapter.format;
  facts.file_hash = blobs.file_hash;
  facts.file_size = blobs.file_size;
  facts.config_hash = blobs.config_hash;
  facts.config_size = blobs.config_size;
  facts.rank = adapter.rank;
  facts.sparsity = SparsityOf(adapter, kind, sites);
  facts.target_layers = EditedSites(adapter);
  for (const std::string& target : facts.target_layers)
    if (const Site* site = sites.Find(target); site != nullptr && site->is_tied) facts.tied_targets.push_back(target);
  return facts;
}

// The claimed target names in Hugging Face form, sorted; GGUF names are accepted when authoring.
Result<std::vector<std::string>> CanonicalTargets(const AuthoredAdapter& entry, const SiteTable& sites) {
  std::vector<std::string> targets;
  if (!entry.target_layers) return targets;
  for (std::size_t i = 0; i < entry.target_layers->size(); ++i) {
    const std::string& name = (*entry.target_layers)[i];
    auto canonical = sites.Canonical(name);
    if (!canonical)
      return Fail(Code::TARGET_UNKNOWN, fmt::format("{}/target_layers/{}", entry.at, i),
                  fmt::format("the base has no site '{}'; `veneer inspect` lists them", name));
    targets.push_back(std::move(*canonical));
  }
  std::ranges::sort(targets);
  return targets;
}

AdapterRequest RequestOf(const AuthoredAdapter& entry) {
  AdapterRequest request{.kind = entry.kind.value_or("")};
  for (const auto& [name, value] : entry.params) {
    const auto* text = std::get_if<std::string>(&value);
    request.params.emplace_back(name, text != nullptr ? *text : fmt::format("{}", std::get<std::uint64_t>(value)));
  }
  return request;
}

PluginDemand DemandOf(const AuthoredAdapter& entry) {
  if (!entry.plugin) return {};
  return {entry.plugin->name, entry.plugin->version, entry.plugin->sha256};
}

}  // namespace

BaseFacts FactsOf(const Base& base, const Digest& hash) {
  BaseFacts facts;
  facts.hash = hash;
  facts.size = base.bytes().size();
  facts.format = base.format();
  facts.tokenizer_id = base.tokenizer().id;
  facts.tokenizer_hash = Sha256::Of(base.tokenizer().bytes);
  facts.tokenizer_size = base.tokenizer().bytes.size();
  facts.quantization = {base.quantization().dtype, base.quantization().scheme, base.quantization().block_size};
  return facts;
}

class CompositionValidator {
 public:
  static Result<ValidatedComposition> Run(const Manifest& manifest, ArtifactSource& source, const Catalog& catalog);
};

Result<ValidatedComposition> SealAndValidate(const Manifest& manifest, ArtifactSource& source, const Catalog& catalog) {
  return OrOutOfMemory([&] { return CompositionValidator::Run(manifest, source, catalog); }, "validation");
}

Result<ValidatedComposition> CompositionValidator::Run(const Manifest& manifest, ArtifactSource& source, const Catalog& catalog) {
  ValidatedComposition validated;
  validated.notes_ = Warnings(manifest);
  validated.base_ = source.HeldBase(manifest.base_model_hash);
  if (validated.base_ == nullptr) {
    VENEER_ASSIGN(BaseFiles files, source.OpenBase(manifest.base_model_hash, manifest.tokenizer_hash));
    VENEER_ASSIGN(validated.base_, Base::Open(std::move(files)));
  }
  const Base& base = *validated.base_;
  std::vector<AdapterFacts> facts;
  for (const AuthoredAdapter& entry : manifest.adapters) {
    VENEER_ASSIGN(AdapterBlobs blobs, source.OpenAdapter(entry));
    const PluginDemand demand = DemandOf(entry);
    auto read = ReadAdapter(std::move(blobs.files), base, catalog, RequestOf(entry));
    if (!read) return Fail(std::move(read).error().Within(entry.name));
    auto adapter = std::make_shared<const Adapter>(std::move(*read));
    if (!adapter->sites.empty()) VENEER_TRY(catalog.FindKind(adapter->kind, demand));
    AdapterFacts& known = facts.emplace_back(FactsOf(*adapter, catalog.FindDeclaration(adapter->kind), blobs, base.sites()));
    VENEER_ASSIGN(known.claimed_targets, CanonicalTargets(entry, base.sites()));
    for (const IgnoredTensor& one : adapter->ignored) validated.notes_.push_back(fmt::format("{}: {} {}", entry.name, one.tensor, one.why));
    for (const std::string& note : adapter->notes) validated.notes_.push_back(fmt::format("{}: {}", entry.name, note));
    validated.adapters_.push_back({entry.name, std::move(adapter), entry.merge_weight.value(), demand});
  }
  VENEER_TRY(CheckReplacements(validated.adapters_));
  VENEER_ASSIGN(validated.composition_, SealManifest(manifest, FactsOf(base, manifest.base_model_hash), facts));
  VENEER_TRY(base.CheckUnchanged(manifest.base_model_hash));  // all that was read above was read from the verified file
  return validated;
}

Manifest ManifestOf(const Composition& composition) {
  Manifest manifest;
  manifest.base_model_hash = composition.base_model_hash;
  manifest.base_model_size = composition.base_model_size;
  manifest.base_format = composition.base_format;
  manifest.tokenizer_id = composition.tokenizer_id;
  manifest.tokenizer_hash = composition.tokenizer_hash;
  manifest.tokenizer_size = composition.tokenizer_size;
  manifest.quantization = composition.quantization;
  manifest.runtime = {composition.runtime_name, composition.runtime_version};
  manifest.tied_weights = composition.tied_weights;
  for (const AdapterEntry& sealed : composition.adapters) {
    AuthoredAdapter entry;
    entry.at = fmt::format("/adapters/{}", manifest.adapters.size());
    entry.name = sealed.name;
    entry.file_hash = sealed.file_hash;
    entry.load_order = manifest.adapters.size();
    entry.merge_weight = sealed.merge_weight;
    entry.kind = sealed.kind;
    entry.format = sealed.format;
    entry.file_size = sealed.file_size;
    entry.config_hash = sealed.config_hash;
    if (sealed.config_hash) entry.config_size = sealed.config_size;
    entry.rank = sealed.rank;
    entry.sparsity = sealed.sparsity;
    entry.target_layers = sealed.target_layers;
    entry.params = sealed.params;
    entry.plugin = sealed.plugin;
    manifest.adapters.push_back(std::move(entry));
  }
  return manifest;
}

Result<ValidatedComposition> ValidateComposition(const Composition& composition, ArtifactSource& source, const Catalog& catalog) {
  return OrOutOfMemory(
      [&]() -> Result<ValidatedComposition> {
        VENEER_ASSIGN(ValidatedComposition validated, CompositionValidator::Run(ManifestOf(composition), source, catalog));
        if (validated.composition().Id() != composition.Id())
          return Fail(
              Code::IDENTITY_MISMATCH, composition.Id().Text(),
              fmt::format("its files seal to {}; the stored composition does not describe them", validated.composition().Id().Text()));
        return validated;
      },
      "validation");
}

Result<BoundComposition> Bind(const ValidatedComposition& validated, const Catalog& catalog, const StageOptions& options) {
  // The copies that are made for the call are made inside, too.
  return OrOutOfMemory(
      [&] { return BoundComposition::Bind(validated.base(), validated.composition(), validated.adapters(), catalog, options); },
      "binding the overlays");
}

}  // namespace veneer
