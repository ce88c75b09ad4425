#include "core/compose/consolidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "core/adapter/names.h"
#include "core/base/bytes.h"
#include "core/compose/replace_conflicts.h"
#include "core/format/safetensors_writer.h"

namespace veneer {
namespace {

constexpr std::string_view kDenseRole = "weight";
constexpr std::uint64_t kRowsAtOnce = 64;

bool IsAdditive(const Catalog& catalog, std::string_view kind) {
  const KindDecl* decl = catalog.FindDeclaration(kind);
  return decl != nullptr && (decl->flags & VNR_KIND_ADDITIVE) != 0;
}

// The kind that holds a whole matrix per site and adds it: the one that a residual is of.
const KindDecl* DenseKind(const Catalog& catalog) {
  for (const KindDecl* kind : catalog.Kinds()) {
    const RoleDecl* role = kind->FindRole(kDenseRole);
    const bool is_dense =
        role != nullptr && role->dims == std::vector<std::uint32_t>{VNR_DIM_OUT, VNR_DIM_IN} && (role->dtype_mask & VNR_BIT(VNR_BF16)) != 0;
    if (is_dense && (kind->flags & VNR_KIND_ADDITIVE) != 0) return kind;
  }
  return nullptr;
}

std::unexpected<Error> Refuse(const std::string& entry, std::string detail) {
  return Fail(Code::FORMAT_UNSUPPORTED, entry, "cannot be consolidated: " + std::move(detail));
}

// Round half to even; `value` is finite.
std::uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

// "residual-2" is the residual after another fold.
std::string WithoutNumber(const std::string& name) {
  const auto last = name.find_last_not_of("0123456789");
  return last != std::string::npos && last > 0 && last + 1 < name.size() && name[last] == '-' ? name.substr(0, last) : name;
}

class Consolidator {
 public:
  Consolidator(const ValidatedComposition& active, const std::set<std::string>& taken, const Catalog& catalog)
      : active_(active), stack_(active.adapters()), taken_(taken), catalog_(catalog), dense_(DenseKind(catalog)) {}

  Status Select(const std::vector<std::string>& names);
  [[nodiscard]] bool is_empty() const { return consumed_.empty(); }
  Result<Consolidation> Run();

 private:
  [[nodiscard]] bool IsLowRank(const StageAdapter& entry) const {
    return entry.adapter->rank > 0 && IsAdditive(catalog_, entry.adapter->kind);
  }
  [[nodiscard]] bool IsDense(const StageAdapter& entry) const { return dense_ != nullptr && entry.adapter->kind == dense_->id; }
  Status FindResidual();
  Status CheckOrder() const;
  Status CheckMove(std::size_t from, std::size_t to, const std::vector<std::string>& sites) const;
  Result<std::shared_ptr<const StagedComposition>> Stage(const std::vector<std::size_t>& positions) const;
  Status Fold(const Site& site, const StagedComposition& residual, const StagedComposition& deltas);
  [[nodiscard]] const TensorView* StoredBf16(const Site& site) const;
  [[nodiscard]] std::string NameOf(const Site& site) const;
  [[nodiscard]] bool IsUnchanged() const;
  Result<Consolidation> Finish();

  const ValidatedComposition& active_;
  const std::vector<StageAdapter>& stack_;
  const std::set<std::string>& taken_;
  const Catalog& catalog_;
  const KindDecl* dense_;
  std::vector<std::size_t> consumed_;  // positions in the stack, ascending
  std::optional<std::size_t> residual_;
  std::deque<std::vector<std::uint16_t>> values_;  // bf16 of tensors_, which point here
  std::vector<TensorView> tensors_;
};

Status Consolidator::Select(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto entry = std::ranges::find(stack_, name, &StageAdapter::name);
    if (entry == stack_.end()) return Fail(Code::TARGET_UNKNOWN, name, "is not in the active composition; `veneer status` lists what is");
    if (!IsLowRank(*entry)) return Refuse(name, fmt::format("kind {} is no additive edit of low rank", entry->adapter->kind));
    if (!entry->adapter->replacements.empty()) return Refuse(name, "it replaces tensors of the base, and a residual only adds");
  }
  for (std::size_t i = 0; i < stack_.size(); ++i) {
    const bool is_named = std::ranges::find(names, stack_[i].name) != names.end();
    const bool is_meant = names.empty() && IsLowRank(stack_[i]) && stack_[i].adapter->replacements.empty() && stack_[i].strength != 0;
    if (is_named || is_meant) consumed_.push_back(i);
  }
  // Without strength there is nothing to fold, and without a residual nothing to fold it into.
  const bool is_idle = std::ranges::all_of(consumed_, [this](std::size_t i) { return stack_[i].strength == 0; });
  if (is_idle && std::ranges::none_of(stack_, [this](const StageAdapter& entry) { return IsDense(entry); })) consumed_.clear();
  return {};
}

Status Consolidator::FindResidual() {
  if (dense_ == nullptr) return Fail(Code::KIND_UNKNOWN, "consolidate", "no installed kind adds a dense matrix; install one");
  for (std::size_t i = 0; i < stack_.size(); ++i) {
    if (!IsDense(stack_[i])) continue;
    if (residual_) return Refuse(stack_[i].name, fmt::format("{} is a residual too; deactivate one of them", stack_[*residual_].name));
    residual_ = i;
  }
  if (residual_ && stack_[*residual_].strength != 1)
    return Refuse(stack_[*residual_].name,
                  fmt::format("the stored residual has strength {}, and what is folded into it would get the same; give it strength 1",
                              stack_[*residual_].strength));
  return {};
}

// Between two positions of the stack nothing may lie that edits one of the sites and does not merely add.
Status Consolidator::CheckMove(std::size_t from, std::size_t to, const std::vector<std::string>& sites) const {
  for (std::size_t i = std::min(from, to) + 1; i < std::max(from, to); ++i) {
    const StageAdapter& between = stack_[i];
    if (between.strength == 0) continue;
    const bool is_additive = between.adapter->sites.empty() || IsAdditive(catalog_, between.adapter->kind);
    for (const std::string& site : is_additive ? std::vector<std::string>() : EditedSites(*between.adapter))
      if (std::ranges::binary_search(sites, site))
        return Refuse(stack_[from].name, fmt::format("{} scales or transforms {} in between; move it behind", between.name, site));
    for (const Replacement& one : between.adapter->replacements)
      if (std::ranges::binary_search(sites, one.site))
        return Refuse(stack_[from].name, fmt::format("{} replaces {} in between; move it to the front", between.name, one.site));
  }
  return {};
}

Status Consolidator::CheckOrder() const {
  for (const std::size_t position : consumed_) {
    const std::vector<std::string> sites = EditedSites(*stack_[position].adapter);
    for (std::size_t i = 0; i < position; ++i) {
      const StageAdapter& earlier = stack_[i];
      if (earlier.strength == 0) continue;
      const bool is_additive = earlier.adapter->replacements.empty() && IsAdditive(catalog_, earlier.adapter->kind);
      if (is_additive) continue;
      for (const std::string& site : EditedSites(*earlier.adapter))
        if (std::ranges::binary_search(sites, site))
          return Refuse(
              stack_[position].name,
              fmt::format("{} comes before it on {} and is not merely added; folding would change the order", earlier.name, site));
    }
  }
  return residual_ ? CheckMove(*residual_, consumed_.front(), EditedSites(*stack_[*residual_].adapter)) : Status();
}

// The entries alone, over the base.
Result<std::shared_ptr<const StagedComposition>> Consolidator::Stage(const std::vector<std::size_t>& positions) const {
  Composition part = active_.composition();
  part.adapters.clear();
  std::vector<StageAdapter> adapters;
  for (const std::size_t position : positions) {
    part.adapters.push_back(active_.composition().adapters[position]);
    adapters.push_back(stack_[position]);
  }
  return StageComposition(active_.base(), std::move(adapters), part, catalog_, {.mode = ComputeMode::kExact});
}

// The site's tensor in the stored residual when it is bf16 already.
const TensorView* Consolidator::StoredBf16(const Site& site) const {
  if (!residual_) return nullptr;
  for (const AdapterSite& part : stack_[*residual_].adapter->sites)
    if (part.site == site.id)
      for (const RoleTensor& one : part.source.tensors)
        if (one.role == kDenseRole && one.tensor.dtype == VNR_BF16) return &one.tensor;
  return nullptr;
}

// A tensor keeps its name, so that a fold of nothing gives the same fingerprint.
std::string Consolidator::NameOf(const Site& site) const {
  if (const TensorView* stored = StoredBf16(site)) return stored->name;
  bool is_prefixed = true;
  if (residual_)
    for (const AdapterSite& part : stack_[*residual_].adapter->sites)
      for (const RoleTensor& one : part.source.tensors) is_prefixed = is_prefixed && one.tensor.name.starts_with(kPeftPrefix);
  return fmt::format("{}{}.{}", is_prefixed ? kPeftPrefix : "", site.id, kDenseRole);
}

Status AddEdits(const StagedComposition& staged, const Site& site, std::uint64_t row, std::uint64_t n, std::vector<float>& rows) {
  for (const OverlayBinding* overlay : staged.at(site).overlays) VENEER_TRY(overlay->WeightRows(row, n, rows.data(), site.in));
  return {};
}

Status Consolidator::Fold(const Site& site, const StagedComposition& residual, const StagedComposition& deltas) {
  std::vector<std::uint16_t>& values = values_.emplace_back(site.out * site.in);
  const TensorView* stored = StoredBf16(site);
  if (stored != nullptr) std::memcpy(values.data(), stored->bytes.data(), stored->bytes.size());
  std::vector<float> old(kRowsAtOnce * site.in), delta(kRowsAtOnce * site.in);
  for (std::uint64_t row = 0; row < site.out; row += kRowsAtOnce) {
    const std::uint64_t n = std::min(kRowsAtOnce, site.out - row);
    std::ranges::fill(old, 0.0F);
    std::ranges::fill(delta, 0.0F);
    VENEER_TRY(AddEdits(residual, site, row, n, old));
    VENEER_TRY(AddEdits(deltas, site, row, n, delta));
    for (std::uint64_t i = 0; i < n * site.in; ++i) {
      if (delta[i] == 0 && stored != nullptr) continue;
      const std::uint16_t folded = ToBf16(old[i] + delta[i]);
      if ((folded & 0x7F80) == 0x7F80)
        return Fail(Code::NOT_FINITE, site.id,
                    fmt::format("the sum at row {} is not finite in bf16; use a smaller strength", row + i / site.in));
      values[row * site.in + i] = folded;
    }
  }
  tensors_.push_back({NameOf(site), VNR_BF16, {site.out, site.in}, std::as_bytes(std::span(values))});
  return {};
}

Result<Consolidation> Consolidator::Run() {
  VENEER_TRY(FindResidual());
  VENEER_TRY(CheckOrder());
  VENEER_ASSIGN(const auto deltas, Stage(consumed_));
  VENEER_ASSIGN(const auto residual, Stage(residual_ ? std::vector{*residual_} : std::vector<std::size_t>()));
  for (const Site& site : active_.base()->sites().sites()) {
    for (const OverlayBinding* overlay : deltas->at(site).overlays) {
      if ((overlay->program().flags & VNR_EDITS_BIAS) != 0)
        return Refuse(site.id, "an adapter edits its bias, and a residual has no bias; leave that adapter out");
      if ((dense_->site_mask & VNR_BIT(static_cast<std::uint32_t>(site.shape_class))) == 0)
        return Refuse(site.id, fmt::format("kind {} does not serve this class of site", dense_->id));
    }
    if (!deltas->at(site).overlays.empty() || !residual->at(site).overlays.empty()) VENEER_TRY(Fold(site, *residual, *deltas));
  }
  return Finish();
}

// Whether the residual has the very tensors that the stored one has.
bool Consolidator::IsUnchanged() const {
  if (!residual_ || tensors_.size() != stack_[*residual_].adapter->sites.size()) return false;
  return std::ranges::all_of(tensors_, [this](const TensorView& tensor) {
    for (const AdapterSite& part : stack_[*residual_].adapter->sites)
      for (const RoleTensor& one : part.source.tensors)
        if (one.tensor.name == tensor.name) return one.tensor.dtype == tensor.dtype && std::ranges::equal(one.tensor.bytes, tensor.bytes);
    return false;
  });
}

Result<Consolidation> Consolidator::Finish() {
  Consolidation done;
  std::ranges::sort(tensors_, {}, &TensorView::name);
  VENEER_ASSIGN(done.weights, WriteSafetensors(tensors_));
  // A fold of nothing leaves the file as it is, whoever wrote it.
  const bool is_unchanged = IsUnchanged();
  if (is_unchanged) done.weights = AsText(stack_[*residual_].adapter->weights.bytes());
  const Digest hash = Sha256::Of(done.weights);
  const std::string stem = residual_ ? WithoutNumber(stack_[*residual_].name) : dense_->id;
  const auto is_another = [&](const std::string& name) {
    const auto entry = std::ranges::find(stack_, name, &StageAdapter::name);
    return entry != stack_.end() && static_cast<std::size_t>(entry - stack_.begin()) != residual_;
  };
  done.name = stem;
  for (int n = 2; taken_.contains(done.name) || is_another(done.name); ++n) done.name = fmt::format("{}-{}", stem, n);
  if (is_unchanged) done.name = stack_[*residual_].name;
  done.manifest = ManifestOf(active_.composition());
  std::vector<AuthoredAdapter> kept;
  for (std::size_t i = 0; i < stack_.size(); ++i) {
    if (i == consumed_.front()) {
      AuthoredAdapter& entry = kept.emplace_back();
      entry.name = done.name;
      entry.file_hash = hash;
      entry.kind = dense_->id;
      VENEER_ASSIGN(entry.merge_weight, Decimal::FromAuthored("1", done.name));
    }
    const bool is_consumed = std::ranges::binary_search(consumed_, i);
    if (is_consumed) done.consumed.push_back(stack_[i].name);
    if (!is_consumed && i != residual_) kept.push_back(done.manifest.adapters[i]);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i].load_order = i;
    kept[i].at = fmt::format("/adapters/{}", i);
  }
  done.manifest.adapters = std::move(kept);
  return done;
}

}  // namespace

Result<std::optional<Consolidation>> Consolidate(const ValidatedComposition& active, const std::vector<std::string>& names,
                                                 const std::set<std::string>& taken, const Catalog& catalog) {
  Consolidator consolidator(active, taken, catalog);
  VENEER_TRY(consolidator.Select(names));
  if (consolidator.is_empty()) return std::optional<Consolidation>();
  VENEER_ASSIGN(Consolidation done, consolidator.Run());
  return std::optional(std::move(done));
}

}  // namespace veneer
