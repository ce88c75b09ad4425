#include "core/adapter/peft_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace veneer {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::size_t kMaxListed = 10;

SiteFacts FactsOf(const Site& site) {
  SiteFacts facts;
  facts.id = site.id;
  facts.index = site.index;
  facts.shape_class = static_cast<std::uint32_t>(site.shape_class);
  facts.out = site.out;
  facts.in = site.in;
  return facts;
}

// Tensors that belong to PEFT itself, not to a kind: refused with what they are instead of as strangers.
std::string_view KnownStranger(std::string_view name, const SiteTable& sites) {
  constexpr std::string_view kBaseLayer = ".base_layer", kWeight = ".weight", kBias = ".bias";
  if (name.find(".modules_to_save") != std::string_view::npos) return "a replaced module (modules_to_save)";
  if (name.find(".token_adapter.") != std::string_view::npos) return "replaced rows of an embedding (trainable tokens)";
  const bool is_weight = name.ends_with(kWeight), is_bias = name.ends_with(kBias);
  if (!is_weight && !is_bias) return {};
  std::string_view module = name.substr(0, name.size() - (is_weight ? kWeight : kBias).size());
  const bool is_copy = module.ends_with(kBaseLayer);
  if (is_copy) module.remove_suffix(kBaseLayer.size());
  if (sites.Find(module) == nullptr) return {};
  if (is_bias) return "a trained bias of the base";
  return is_copy ? "a saved copy of a base tensor" : "a replacement of a whole tensor of the base";
}

std::string FirstOf(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(kMaxListed, names.size()));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "), names.size() > kMaxListed ? ", …" : "");
}

bool IsAllZero(const TensorView& tensor) {
  return std::ranges::all_of(tensor.bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

class Mapper {
 public:
  Mapper(const PeftConfig& config, const Base& base) : config_(config), base_(base) {}

  Status Map(const SafetensorsFile& file) {
    // One prefix rule per file, then every name must resolve.
    const bool is_prefixed = std::ranges::all_of(file.tensors, [](const TensorView& t) { return t.name.starts_with(kPrefix); });
    for (const TensorView& tensor : file.tensors) {
      const std::string_view name = is_prefixed ? std::string_view(tensor.name).substr(kPrefix.size()) : std::string_view(tensor.name);
      VENEER_TRY(MapOne(name, tensor));
    }
    const std::size_t total = file.tensors.size(), lost = strangers_.size() + homeless_.size();
    if (lost == total) {
      strangers_.insert(strangers_.end(), homeless_.begin(), homeless_.end());
      return Fail(
          Code::NOTHING_MATCHED, "adapter_model.safetensors",
          fmt::format("0 of {} tensors edit anything in this base ({}, {} layers); a name must be '{}' or nothing, then a module of the "
                      "base, then a suffix of kind {}. The file has: {}",
                      total, base_.config().arch, base_.config().n_layers, kPrefix, config_.kind().id, FirstOf(strangers_)));
    }
    if (!strangers_.empty())
      return Fail(Code::TENSOR_UNMATCHED, strangers_.front(),
                  fmt::format("{} of {} tensors are nothing that kind {} knows: {}; ignoring them would change what the adapter does",
                              strangers_.size(), total, config_.kind().id, FirstOf(strangers_)));
    if (!homeless_.empty())
      return Fail(
          Code::TARGET_UNKNOWN, homeless_.front(),
          fmt::format("{} of {} tensors belong to modules that the base ({}, {} layers) does not have: {}; use the base that the adapter "
                      "was trained on",
                      homeless_.size(), total, base_.config().arch, base_.config().n_layers, FirstOf(homeless_)));
    return {};
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
    if (const std::string_view what = KnownStranger(name, base_.sites()); !what.empty())
      return Fail(Code::FORMAT_UNSUPPORTED, tensor.name,
                  fmt::format("is {}, and replacement tensors come later; save the adapter without it", what));
    (is_homeless ? homeless_ : strangers_).push_back(tensor.name);
    return {};
  }

  const PeftConfig& config_;
  const Base& base_;
  std::vector<std::string> strangers_, homeless_;
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
  VENEER_ASSIGN(part.scale, config.ScaleOf(site.id));
  if (part.scale) {
    ParamValue scale;
    scale.path = config.import().scale->param;
    scale.type = VNR_PARAM_NUMBER;
    scale.d = *part.scale;
    part.source.params.push_back(std::move(scale));
  }
  VENEER_TRY(CheckSource(config.kind(), FactsOf(site), part.source, shared, site.id));
  if (!config.import().rank_symbol.empty()) part.rank = SymbolValue(config.kind(), part.source, config.import().rank_symbol.front());
  if (rank && *rank != part.rank)
    return Fail(Code::RANK_MISMATCH, site.id,
                fmt::format("the configuration says rank {}, the tensors have {}; file and configuration belong to different adapters",
                            *rank, part.rank));
  if (part.rank > std::min(site.in, site.out))
    return Fail(Code::RANK_MISMATCH, site.id,
                fmt::format("rank {} is above the smaller dimension {} of the site; the adapter was made for another base", part.rank,
                            std::min(site.in, site.out)));
  return part;
}

}  // namespace

Status ReadPeftTensors(const SafetensorsFile& file, const PeftConfig& config, const Base& base, Adapter& adapter) {
  adapter.kind = config.kind().id;
  adapter.notes = config.notes();
  Mapper mapper(config, base);
  VENEER_TRY(mapper.Map(file));
  if (mapper.sites.empty())
    return Fail(Code::NOTHING_MATCHED, "adapter_model.safetensors",
                "the file has shared tensors only and edits no module; it is incomplete");
  VENEER_ASSIGN(const std::vector<std::string> targets, config.Targets(base));
  adapter.shared = std::move(mapper.shared);
  bool has_effect = (config.kind().flags & VNR_KIND_ADDITIVE) == 0;
  // Shapes first: for an adapter of another base they say more than a missing layer does.
  for (auto& [id, source] : mapper.sites) {
    has_effect = has_effect || std::ranges::none_of(source.tensors, [](const RoleTensor& t) { return IsAllZero(t.tensor); });
    VENEER_ASSIGN(AdapterSite part, FinishSite(config, *base.sites().Find(id), source, adapter.shared));
    adapter.rank = std::max(adapter.rank, part.rank);
    adapter.sites.push_back(std::move(part));
  }
  VENEER_TRY(CheckCoverage(targets, mapper.sites));
  if (!has_effect) adapter.notes.emplace_back("all its edits are zero: it was saved before any training");
  return {};
}

}  // namespace veneer
