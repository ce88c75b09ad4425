#include "core/compose/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/adapter/site_facts.h"
#include "core/base/out_of_memory.h"

namespace veneer {
namespace {

OverlaySource WithStrength(const OverlaySource& source, double strength) {
  OverlaySource with = source;
  with.params.push_back(NumberParam(VNR_PARAM_STRENGTH, strength));
  return with;
}

void RunInOrder(std::uint32_t n, const std::function<void(std::uint32_t)>& body) {
  for (std::uint32_t i = 0; i < n; ++i) body(i);
}

}  // namespace

struct BoundComposition::Parts {
  std::shared_ptr<StagedComposition> staged;
  std::vector<std::vector<OverlayBinding*>> order;      // the bindings of each artifact, manifest order
  std::vector<std::shared_ptr<const Adapter>> sources;  // keeps tensor views alive while staging
  vnr_limits limits{};
  std::uint64_t budget = UINT64_MAX;
};

BoundComposition::BoundComposition() : parts_(std::make_unique<Parts>()) {}
BoundComposition::~BoundComposition() = default;
BoundComposition::BoundComposition(BoundComposition&&) noexcept = default;
BoundComposition& BoundComposition::operator=(BoundComposition&&) noexcept = default;

// The only maker of StagedComposition.
class Stager {
 public:
  static Result<BoundComposition> Bind(std::shared_ptr<const Base> base, const Composition& composition, std::vector<StageAdapter> adapters,
                                       const Catalog& catalog, const StageOptions& options);
  static Result<std::shared_ptr<const StagedComposition>> Stage(BoundComposition::Parts parts, const OverlayCost& cost);

 private:
  static Status BindAdapter(BoundComposition::Parts& parts, const StageAdapter& entry, const Catalog& catalog);
  static Status Replace(StagedComposition& staged, const std::shared_ptr<const Adapter>& adapter);
  static Result<OverlayCost> CostOf(const BoundComposition::Parts& parts);
  static RowReader Predecessor(const StagedComposition& staged, const Site& site, std::size_t count);
  static Status ComposeBias(StagedComposition& staged, const Site& site);
  static Status ComposeVector(StagedComposition& staged, const Site& site);
};

Result<BoundComposition> Stager::Bind(std::shared_ptr<const Base> base, const Composition& composition, std::vector<StageAdapter> adapters,
                                      const Catalog& catalog, const StageOptions& options) {
  BoundComposition bound;
  BoundComposition::Parts& parts = *bound.parts_;
  parts.staged = std::shared_ptr<StagedComposition>(new StagedComposition());
  StagedComposition& staged = *parts.staged;
  staged.base_ = std::move(base);
  staged.composition_ = composition;
  staged.id_ = composition.Id();
  staged.mode_ = options.mode;
  staged.budget_ = std::make_unique<MemoryBudget>(options.overlay_budget);
  for (const Site& site : staged.base_->sites().sites()) staged.sites_.emplace_back().weight = site.stored();
  parts.budget = options.overlay_budget;
  parts.limits.struct_size = sizeof(vnr_limits);
  parts.limits.max_threads = options.threads;
  parts.limits.max_token_block = kTokenBlock;
  parts.limits.min_det = options.mode == ComputeMode::kExact ? 2 : 1;
  parts.limits.budget_bytes = options.overlay_budget;
  for (const StageAdapter& entry : adapters) {
    if (entry.strength == 0) continue;
    VENEER_TRY(Replace(staged, entry.adapter));
    if (!entry.adapter->sites.empty()) VENEER_TRY(BindAdapter(parts, entry, catalog));
    parts.sources.push_back(entry.adapter);
  }
  VENEER_ASSIGN(bound.cost_, CostOf(parts));
  return bound;
}

// A replacement is in force in full at any strength but zero.
Status Stager::Replace(StagedComposition& staged, const std::shared_ptr<const Adapter>& adapter) {
  for (const Replacement& one : adapter->replacements) {
    const Site* site = staged.base_->sites().Find(one.site);
    if (site == nullptr) return Fail(Code::TARGET_UNKNOWN, one.site, "the base has no such site");
    StagedSite& out = staged.sites_[site->index];
    const std::byte* data = one.tensor.bytes.data();
    if (one.rows.empty()) out.weight = {data, one.tensor.dtype, RowOrder::Identity()};
    const std::uint64_t row_bytes = site->in * InfoOf(one.tensor.dtype).block_bytes;
    for (const Replacement::Row& row : one.rows) out.rows.push_back({row.lane, data + row.index * row_bytes, one.tensor.dtype});
    std::ranges::sort(out.rows, {}, &StoredRow::lane);
  }
  if (!adapter->replacements.empty()) staged.replacers_.push_back(adapter);
  return {};
}

Status Stager::BindAdapter(BoundComposition::Parts& parts, const StageAdapter& entry, const Catalog& catalog) {
  StagedComposition& staged = *parts.staged;
  const Adapter& adapter = *entry.adapter;
  VENEER_ASSIGN(const CatalogEntry* plugin, catalog.FindKind(adapter.kind, entry.demand));
  VENEER_ASSIGN(const vnr_kind* kind, catalog.Load(*plugin, adapter.kind));
  const auto declaration = std::ranges::find(plugin->card.kinds, adapter.kind, &KindDecl::id);
  if (declaration == plugin->card.kinds.end())
    return Fail(Code::KIND_UNKNOWN, entry.name, fmt::format("the card of {} does not list kind {}", plugin->card.name, adapter.kind));
  VENEER_ASSIGN(auto opened, OverlayArtifact::Open(*kind, *declaration, fmt::format("adapter {} ({})", entry.name, adapter.kind),
                                                   adapter.shared, *staged.budget_, RunInOrder));
  // Owned first: bindings must never outlive their artifact, whatever fails below.
  OverlayArtifact& artifact = *staged.artifacts_.emplace_back(std::move(opened));
  auto& bindings = parts.order.emplace_back();
  for (const AdapterSite& part : adapter.sites) {
    const Site* site = staged.base_->sites().Find(part.site);
    if (site == nullptr) return Fail(Code::TARGET_UNKNOWN, part.site, "the base has no such site");
    VENEER_ASSIGN(auto binding, artifact.Bind(FactsOf(*site), WithStrength(part.source, entry.strength)));
    bindings.push_back(binding.get());
    staged.sites_[site->index].overlays.push_back(binding.get());
    staged.bindings_.push_back(std::move(binding));
  }
  return {};
}

Result<OverlayCost> Stager::CostOf(const BoundComposition::Parts& parts) {
  OverlayCost cost;
  std::uint64_t transient = 0;
  for (const auto& replacer : parts.staged->replacers_) cost.resident_bytes += replacer->weights.bytes().size();
  for (const auto& bindings : parts.order) {
    std::uint64_t shared = 0;  // once per artifact
    for (const OverlayBinding* binding : bindings) {
      VENEER_ASSIGN(const vnr_cost one, binding->Estimate(parts.limits));
      shared = std::max(shared, one.shared_bytes);
      cost.resident_bytes += one.resident_bytes + one.opaque_bytes;
      transient = std::max(transient, one.stage_peak_bytes > one.resident_bytes ? one.stage_peak_bytes - one.resident_bytes : 0);
    }
    cost.resident_bytes += shared;
  }
  cost.peak_bytes = cost.resident_bytes + transient;
  return cost;
}

RowReader Stager::Predecessor(const StagedComposition& staged, const Site& site, std::size_t count) {
  return [&staged, &site, count](std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) -> Status {
    staged.ReadBaseRows(site, row, n, dst, ld);
    for (std::size_t j = 0; j < count; ++j) VENEER_TRY(staged.sites_[site.index].overlays[j]->WeightRows(row, n, dst, ld));
    return {};
  };
}

Status Stager::ComposeBias(StagedComposition& staged, const Site& site) {
  StagedSite& out = staged.sites_[site.index];
  const bool is_edited =
      std::ranges::any_of(out.overlays, [](const OverlayBinding* overlay) { return (overlay->program().flags & VNR_EDITS_BIAS) != 0; });
  if (!site.bias && !is_edited) return {};
  out.bias.assign(site.out, 0.0F);
  if (site.bias) {
    const Site* vector = staged.base_->sites().Find(site.id + ".bias");
    if (vector == nullptr) return Fail(Code::INTERNAL, site.id, "a bias without its vector site");
    out.bias = staged.sites_[vector->index].vector;
  }
  for (const OverlayBinding* overlay : out.overlays)
    if ((overlay->program().flags & VNR_EDITS_BIAS) != 0) VENEER_TRY(overlay->Bias(out.bias.data(), site.out));
  return {};
}

Status Stager::ComposeVector(StagedComposition& staged, const Site& site) {
  StagedSite& out = staged.sites_[site.index];
  out.vector.assign(site.out, 0.0F);
  staged.ReadBaseRows(site, 0, 1, out.vector.data(), site.out);
  for (const OverlayBinding* overlay : out.overlays) VENEER_TRY(overlay->WeightRows(0, 1, out.vector.data(), site.out));
  return {};
}

Result<std::shared_ptr<const StagedComposition>> Stager::Stage(BoundComposition::Parts parts, const OverlayCost& cost) {
  StagedComposition& staged = *parts.staged;
  if (cost.peak_bytes > parts.budget)
    return Fail(Code::MEMORY_BUDGET, "overlays",
                fmt::format("staging the overlays needs {} bytes, {} are left of the budget; raise --memory-budget or use fewer adapters",
                            cost.peak_bytes, parts.budget));
  const auto& sites = staged.base_->sites().sites();
  std::vector<std::size_t> staged_on_site(sites.size(), 0);
  for (const auto& bindings : parts.order) {
    for (OverlayBinding* binding : bindings) {
      const Site& site = sites[binding->site().index];
      VENEER_TRY(binding->Stage(parts.limits, Predecessor(staged, site, staged_on_site[site.index])));
      ++staged_on_site[site.index];
    }
  }
  for (const Site& site : sites)
    if (site.shape_class == SiteClass::kVector) VENEER_TRY(ComposeVector(staged, site));
  for (const Site& site : sites)
    if (site.shape_class == SiteClass::kLinear) VENEER_TRY(ComposeBias(staged, site));
  return std::shared_ptr<const StagedComposition>(std::move(parts.staged));
}

Result<BoundComposition> BoundComposition::Bind(std::shared_ptr<const Base> base, const Composition& composition,
                                                std::vector<StageAdapter> adapters, const Catalog& catalog, const StageOptions& options) {
  return OrOutOfMemory([&] { return Stager::Bind(std::move(base), composition, std::move(adapters), catalog, options); },
                       "binding the overlays");
}

Result<std::shared_ptr<const StagedComposition>> BoundComposition::Stage() && {
  return OrOutOfMemory([&] { return Stager::Stage(std::move(*parts_), cost_); }, "staging the overlays");
}

Result<std::shared_ptr<const StagedComposition>> StageComposition(std::shared_ptr<const Base> base, std::vector<StageAdapter> adapters,
                                                                  const Composition& composition, const Catalog& catalog,
                                                                  const StageOptions& options) {
  VENEER_ASSIGN(BoundComposition bound, BoundComposition::Bind(std::move(base), composition, std::move(adapters), catalog, options));
  return std::move(bound).Stage();
}

}  // namespace veneer
