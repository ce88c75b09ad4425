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
std::string_view KnownStranger(std::string_view name) {
  if (name.ends_with(".base_layer.weight") || name.ends_with(".base_layer.bias")) return "a saved copy of a base tensor";
  if (name.find(".modules_to_save") != std::string_view::npos) return "a replaced module";
  if (name.find(".token_adapter.") != std::string_view::npos) return "replaced embedding rows";
  if (name.ends_with("embed_tokens.weight") || name.ends_with("lm_head.weight")) return "a saved copy of the embedding or head";
  if (name.ends_with(".bias") && name.find(".lora_") == std::string_view::npos) return "a trained bias of the base";
  return {};
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
    if (!strangers_.empty())
      return Fail(Code::TENSOR_UNMATCHED, strangers_.front(),
                  fmt::format("{} tensor(s) resolve to nothing this kind knows: {}", strangers_.size(),
                              fmt::join(strangers_.begin(), strangers_.begin() + static_cast<std::ptrdiff_t>(std::min(kMaxListed, strangers_.size())), ", ")));
    return {};
  }

  std::map<std::string, OverlaySource> sites;  // by site id
  OverlaySource shared;

 private:
  Status MapOne(std::string_view name, const TensorView& tensor) {
    const ImportTensor* any = nullptr;  // a declaration whose suffix fits, whatever its conditions
    for (const ImportTensor& declared : config_.import().tensors) {
      if ((declared.flags & VNR_IMPORT_SHARED) != 0) {
        if (name != declared.suffix && tensor.name != declared.suffix) continue;
        shared.tensors.push_back({declared.role, tensor});
        return {};
      }
      if (!name.ends_with(declared.suffix)) continue;
      any = &declared;
      const std::string module(name.substr(0, name.size() - declared.suffix.size()));
      const Site* site = base_.sites().Find(module);
      if (site == nullptr) {
        return Fail(Code::TARGET_UNKNOWN, std::string(tensor.name),
                    fmt::format("the base has no module '{}' (architecture {}, {} layers)", module, base_.config().arch, base_.config().n_layers));
      }
      if ((declared.site_mask & VNR_BIT(static_cast<std::uint32_t>(site->shape_class))) == 0) continue;
      if ((declared.flags & (VNR_IMPORT_WHEN_LISTED | VNR_IMPORT_WHEN_NOT_LISTED)) != 0) {
        VENEER_ASSIGN(const bool is_listed, config_.Lists(declared.when_key, declared.when_default, base_.config().arch, module));
        if (is_listed != ((declared.flags & VNR_IMPORT_WHEN_LISTED) != 0)) continue;
      }
      sites[module].tensors.push_back({declared.role, tensor});
      return {};
    }
    if (any == nullptr)
      if (const std::string_view what = KnownStranger(name); !what.empty())
        return Fail(Code::FORMAT_UNSUPPORTED, std::string(tensor.name),
                    fmt::format("is {}; replacement tensors are not supported yet: save the adapter without it", what));
    strangers_.emplace_back(tensor.name);
    return {};
  }

  const PeftConfig& config_;
  const Base& base_;
  std::vector<std::string> strangers_;
};

// What the configuration targets and what the file holds must be the same modules.
Status CheckCoverage(const std::vector<std::string>& targets, const std::map<std::string, OverlaySource>& sites) {
  for (const std::string& target : targets)
    if (!sites.contains(target))
      return Fail(Code::TARGET_UNKNOWN, "/target_modules", fmt::format("targets {}, but the file has no tensor for it", target));
  for (const auto& [id, source] : sites)
    if (!std::ranges::binary_search(targets, id))
      return Fail(Code::TARGET_UNKNOWN, id, "the file has tensors for this module, but the configuration does not target it");
  return {};
}

Result<AdapterSite> FinishSite(const PeftConfig& config, const Site& site, OverlaySource source, const OverlaySource& shared) {
  AdapterSite part;
  part.site = site.id;
  part.source = std::move(source);
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
  VENEER_ASSIGN(const auto rank, config.RankOf(site.id));
  if (rank && *rank != part.rank)
    return Fail(Code::RANK_MISMATCH, site.id, fmt::format("the configuration says rank {}, the tensors have {}", *rank, part.rank));
  if (part.rank > std::min(site.in, site.out))
    return Fail(Code::RANK_MISMATCH, site.id, fmt::format("rank {} is above the smaller dimension {}", part.rank, std::min(site.in, site.out)));
  return part;
}

}  // namespace

Status ReadPeftTensors(const SafetensorsFile& file, const PeftConfig& config, const Base& base, Adapter& adapter) {
  adapter.kind = config.kind().id;
  adapter.notes = config.notes();
  Mapper mapper(config, base);
  VENEER_TRY(mapper.Map(file));
  if (mapper.sites.empty()) return Fail(Code::NOTHING_MATCHED, "adapter_model.safetensors", "no tensor of the file edits anything in this base");
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
