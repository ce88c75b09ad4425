#include "core/adapter/peft_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/adapter/names.h"
#include "core/adapter/peft_replacements.h"
#include "core/adapter/site_checks.h"
#include "core/adapter/site_facts.h"

namespace veneer {
namespace {

class Mapper {
 public:
  Mapper(const PeftConfig& config, const Base& base, PeftReplacements& replacements)
      : config_(config), base_(base), replacements_(replacements) {}

  Status Map(const SafetensorsFile& file) {
    const std::string_view prefix = PrefixOf(file);
    for (const TensorView& tensor : file.tensors) VENEER_TRY(MapOne(PlainName(tensor.name, prefix), tensor));
    return unplaced_.Check(
        "adapter_model.safetensors", file.tensors.size(), config_.kind().id, base_,
        fmt::format("'base_model.model.' or nothing, then a module of the base, then a suffix of kind {}", config_.kind().id));
  }

  std::map<std::string, OverlaySource> sites;  // by site id
  OverlaySource shared;

 private:
  Status MapOne(std::string_view name, const TensorView& tensor) {
    bool is_homeless = false;  // a suffix fits, but the base has no such module
    for (const ImportTensor& declared : config_.import().tensors) {
      if ((declared.flags & VNR_IMPORT_SHARED) != 0) {
        if (name != declared.suffix && tensor.name != declared.suffix) continue;
        shared.tensors.push_back({declared.role, tensor});
        return {};
      }
      if (!name.ends_with(declared.suffix)) continue;
      const std::string module(name.substr(0, name.size() - declared.suffix.size()));
      const Site* site = base_.sites().Find(module);
      if (site == nullptr) {
        is_homeless = true;
        continue;
      }
      if ((declared.site_mask & VNR_BIT(static_cast<std::uint32_t>(site->shape_class))) == 0) continue;
      if ((declared.flags & (VNR_IMPORT_WHEN_LISTED | VNR_IMPORT_WHEN_NOT_LISTED)) != 0) {
        VENEER_ASSIGN(const bool is_listed, config_.Lists(declared.when_key, declared.when_default, base_.config().arch, module));
        if (is_listed != ((declared.flags & VNR_IMPORT_WHEN_LISTED) != 0)) continue;
      }
      sites[module].tensors.push_back({declared.role, tensor});
      return {};
    }
    VENEER_ASSIGN(const bool is_replacement, replacements_.Take(name, tensor));
    if (is_replacement) return {};
    is_homeless ? unplaced_.AddHomeless(tensor.name) : unplaced_.AddStranger(tensor.name);
    return {};
  }

  const PeftConfig& config_;
  const Base& base_;
  PeftReplacements& replacements_;
  Unplaced unplaced_;
};

// What the configuration targets and what the file holds must be the same modules.
Status CheckCoverage(const std::vector<std::string>& targets, const std::map<std::string, OverlaySource>& sites) {
  for (const std::string& target : targets)
    if (!sites.contains(target))
      return Fail(Code::TARGET_UNKNOWN, "/target_modules",
                  fmt::format("targets {}, but the file has no tensor for it; the file is incomplete", target));
  for (const auto& [id, source] : sites)
    if (!std::ranges::binary_search(targets, id))
      return Fail(Code::TARGET_UNKNOWN, id,
                  "the file has tensors for this module, but the configuration does not target it; file and configuration belong to "
                  "different adapters");
  return {};
}

Result<AdapterSite> FinishSite(const PeftConfig& config, const Site& site, OverlaySource source, const OverlaySource& shared) {
  AdapterSite part;
  part.site = site.id;
  part.source = std::move(source);
  VENEER_ASSIGN(const auto rank, config.RankOf(site.id));
  VENEER_ASSIGN(part.source.params, config.Params());
  VENEER_ASSIGN(const auto scale, config.ScaleOf(site.id));
  if (scale) part.source.params.push_back(NumberParam(config.import().scale->param, *scale));
  VENEER_TRY(CheckSource(config.kind(), FactsOf(site), part.source, shared, site.id));
  if (!config.import().rank_symbol.empty()) part.rank = SymbolValue(config.kind(), part.source, config.import().rank_symbol.front());
  if (rank && *rank != part.rank)
    return Fail(Code::RANK_MISMATCH, site.id,
                fmt::format("the configuration says rank {}, the tensors have {}; file and configuration belong to different adapters",
                            *rank, part.rank));
  VENEER_TRY(CheckRank(site, part.rank));
  return part;
}

}  // namespace

Status ReadPeftTensors(const SafetensorsFile& file, const PeftConfig& config, const Base& base, Adapter& adapter) {
  adapter.kind = config.kind().id;
  adapter.notes = config.notes();
  VENEER_ASSIGN(PeftReplacements replacements, PeftReplacements::Parse(config, base));
  Mapper mapper(config, base, replacements);
  VENEER_TRY(mapper.Map(file));
  if (mapper.sites.empty())
    return Fail(Code::NOTHING_MATCHED, "adapter_model.safetensors",
                "no tensor of the file edits a module; it is incomplete");
  VENEER_ASSIGN(const std::vector<std::string> targets, config.Targets(base));
  adapter.shared = std::move(mapper.shared);
  bool has_effect = (config.kind().flags & VNR_KIND_ADDITIVE) == 0;
  // Shapes first: for an adapter of another base they say more than a missing layer does.
  for (auto& [id, source] : mapper.sites) {
    has_effect = has_effect || HasEffect(source);
    VENEER_ASSIGN(AdapterSite part, FinishSite(config, *base.sites().Find(id), source, adapter.shared));
    adapter.rank = std::max(adapter.rank, part.rank);
    adapter.sites.push_back(std::move(part));
  }
  VENEER_TRY(CheckCoverage(targets, mapper.sites));
  VENEER_ASSIGN(const std::vector<std::string> unmatched, config.UnmatchedPatterns(targets));
  adapter.notes.insert(adapter.notes.end(), unmatched.begin(), unmatched.end());
  VENEER_ASSIGN(adapter.replacements, std::move(replacements).Finish(adapter.ignored, adapter.notes));
  if (!has_effect && adapter.replacements.empty()) adapter.notes.emplace_back(kNoEffect);
  return {};
}

}  // namespace veneer
