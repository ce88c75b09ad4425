// The host's side of one overlay: generic checks before plugin code runs, then artifact and bindings with their lifetimes.
#ifndef VENEER_CORE_PLUGIN_OVERLAY_H_
#define VENEER_CORE_PLUGIN_OVERLAY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"
#include "core/plugin/kind_decl.h"
#include "core/plugin/schema.h"

namespace veneer {

struct RoleTensor {
  std::string role;
  TensorView tensor;
};
struct OverlaySource {  // what open() or bind() gets
  std::vector<RoleTensor> tensors;
  std::vector<ParamValue> params;
};

// The site as the plugin sees it (plain values, so this folder does not include the model).
struct SiteFacts {
  std::string id;
  std::uint32_t index = 0, shape_class = VNR_SITE_LINEAR, flags = 0;
  std::uint64_t out = 0, in = 0;
  std::uint32_t layer = UINT32_MAX, storage_group = 0, base_dtype = VNR_F32;
};

// Everything the host can know without the plugin: class served (E404), roles known, present and not doubled (E419), dtype in the mask
// (E401), shapes against IN/OUT/symbols (E404, both shapes named), byte counts, finite values (E411), parameters against the schema
// (E213). `shared` are the artifact-scoped tensors. `at` starts the place in messages.
Status CheckSource(const KindDecl& kind, const SiteFacts& site, const OverlaySource& source, const OverlaySource& shared,
                   std::string_view at);

// The same for the artifact-scoped tensors alone, before they are opened: no site, so IN and OUT are not compared.
Status CheckShared(const KindDecl& kind, const OverlaySource& shared, std::string_view at);

// Value of a symbolic dimension ('r') in a checked source; 0 when no role has it.
std::uint64_t SymbolValue(const KindDecl& kind, const OverlaySource& source, char symbol);

// Counts bytes handed to plugins against a limit; one per composition, shared by its artifacts.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t limit) : limit_(limit) {}
  [[nodiscard]] bool Take(std::uint64_t bytes);
  void Give(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
};

// Runs body(0) … body(n - 1), possibly in parallel; returns when all are done.
using ParallelFor = std::function<void(std::uint32_t n, const std::function<void(std::uint32_t)>& body)>;

class OverlayBinding;
class RawSource;

class OverlayArtifact {
 public:
  // `label` ("adapter bard (KIND)") starts every message. `kind` and `budget` outlive the artifact.
  static Result<std::unique_ptr<OverlayArtifact>> Open(const vnr_kind& kind, const KindDecl& declaration, std::string label,
                                                       const OverlaySource& shared, MemoryBudget& budget, ParallelFor parallel_for);
  ~OverlayArtifact();
  OverlayArtifact(const OverlayArtifact&) = delete;
  OverlayArtifact& operator=(const OverlayArtifact&) = delete;

  // Checks the source, then binds. The binding must be destroyed before the artifact.
  Result<std::unique_ptr<OverlayBinding>> Bind(const SiteFacts& site, const OverlaySource& source);

 private:
  friend class OverlayBinding;
  struct State;
  explicit OverlayArtifact(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads rows [row, row + n) of the predecessor W_{j-1} into dst with row stride ld. An error fails the staging that asked, whatever the
// plugin makes of it.
using RowReader = std::function<Status(std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld)>;

// The calls of a staged binding that decoding makes for every token, by value: between two uses the whole model has passed through the
// caches, so every object on the way to the plugin's own is a wait for memory. A non-zero code marks the binding as faulted (E417 from
// then on). Valid as long as the binding.
class HotCalls {
 public:
  HotCalls(const vnr_kind& kind, const vnr_binding* binding, std::atomic<bool>& faulted)
      : transform_(kind.transform), prepare_(kind.prepare), apply_(kind.apply), binding_(binding), faulted_(&faulted) {}

  void Transform(const vnr_io& io, std::uint32_t unit0, std::uint32_t unit1) const { Note(transform_(binding_, &io, unit0, unit1)); }
  void Prepare(const vnr_io& io, std::uint32_t unit0, std::uint32_t unit1) const { Note(prepare_(binding_, &io, unit0, unit1)); }
  void Apply(const vnr_io& io, std::uint64_t lane0, std::uint64_t lane1) const { Note(apply_(binding_, &io, lane0, lane1)); }

 private:
  void Note(std::int32_t code) const {
    if (code != VNR_OK) faulted_->store(true, std::memory_order_relaxed);
  }

  decltype(vnr_kind::transform) transform_;
  decltype(vnr_kind::prepare) prepare_;
  decltype(vnr_kind::apply) apply_;
  const vnr_binding* binding_;
  std::atomic<bool>* faulted_;
};

class OverlayBinding {
 public:
  ~OverlayBinding();
  OverlayBinding(const OverlayBinding&) = delete;
  OverlayBinding& operator=(const OverlayBinding&) = delete;

  Result<vnr_cost> Estimate(const vnr_limits& limits) const;
  // Once; afterwards program() is fixed. Estimates first and holds the plugin to it: one that allocates more than it declared, during
  // or after, is E501. `predecessor` is read only for kinds with NEEDS_BASE_ROWS.
  Status Stage(const vnr_limits& limits, const RowReader& predecessor);
  [[nodiscard]] const vnr_program& program() const { return program_; }
  // Same artifact, same prepare_share_key: from the same x both prepare the same bytes, so one of them may do it for both.
  [[nodiscard]] bool SharesPrepared(const OverlayBinding& other) const {
    return program_.prepare_share_key != 0 && program_.prepare_share_key == other.program_.prepare_share_key &&
           artifact_ == other.artifact_;
  }
  [[nodiscard]] const SiteFacts& site() const { return site_; }

  Status WeightRows(std::uint64_t row, std::uint64_t n, float* w, std::uint64_t ld) const;  // edits W_{j-1} rows into W_j rows
  Status Bias(float* bias, std::uint64_t n) const;
  [[nodiscard]] Result<std::string> Describe() const;  // JSON

  [[nodiscard]] HotCalls hot() const { return {*kind_, binding_, faulted_}; }
  [[nodiscard]] bool faulted() const { return faulted_.load(std::memory_order_relaxed); }

 private:
  friend class OverlayArtifact;
  OverlayBinding(OverlayArtifact::State& artifact, const vnr_kind& kind, SiteFacts site);
  [[nodiscard]] std::string Place() const;  // "adapter bard (KIND): model.layers.0.mlp.up_proj"

  OverlayArtifact::State* artifact_;
  const vnr_kind* kind_;
  SiteFacts site_;
  vnr_site raw_site_{};                // valid for the plugin as long as the binding
  std::unique_ptr<RawSource> source_;  // until staged; a kind that borrows keeps it
  std::uint64_t bind_bytes_ = 0;       // what bind allocated
  bool is_staged_ = false;
  vnr_binding* binding_ = nullptr;
  vnr_program program_{};
  mutable std::atomic<bool> faulted_{false};
};

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_OVERLAY_H_
