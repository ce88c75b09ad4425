// A staged composition: the immutable thing that is decoded over. Base plus, for each site, its ordered overlays and the
// constants composed from them. Only StageComposition makes one.
#ifndef VENEER_CORE_COMPOSE_STAGED_COMPOSITION_H_
#define VENEER_CORE_COMPOSE_STAGED_COMPOSITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/adapter/adapter.h"
#include "core/base/digest.h"
#include "core/manifest/composition.h"
#include "core/model/base.h"
#include "core/plugin/overlay.h"

namespace veneer {

enum class ComputeMode { kExact, kFast };

// Tokens that one hot call of an overlay gets at most; the canonical token block of prefill.
inline constexpr std::uint32_t kTokenBlock = 32;

// A single row that stands in for the one of W_0.
struct StoredRow {
  std::uint64_t lane;
  const std::byte* data;
  DType dtype;
};

struct StagedSite {
  StoredWeight weight{nullptr, VNR_F32, RowOrder::Identity()};  // W_0: the base's tensor, or what replaces it
  std::vector<StoredRow> rows;                  // rows that replace one of W_0 each, by ascending lane; empty for most sites
  std::vector<const OverlayBinding*> overlays;  // manifest order; empty for an unedited site
  std::vector<float> bias;                      // LINEAR: composed b_k in lane order; empty when the site ends without a bias
  std::vector<float> vector;                    // VECTOR sites: the composed values
};

class StagedComposition {
 public:
  [[nodiscard]] const Base& base() const { return *base_; }
  [[nodiscard]] const std::shared_ptr<const Base>& shared_base() const { return base_; }
  [[nodiscard]] const Digest& id() const { return id_; }
  [[nodiscard]] const Composition& composition() const { return composition_; }
  [[nodiscard]] ComputeMode mode() const { return mode_; }
  [[nodiscard]] const StagedSite& at(const Site& site) const { return sites_[site.index]; }
  // Rows [row, row + n) of W_0, replacements included, as f32 in lane order into dst (row stride ld); as ReadRows.
  void ReadBaseRows(const Site& site, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) const;
  [[nodiscard]] std::uint64_t overlay_bytes() const { return budget_->used(); }  // bytes the overlays hold
  [[nodiscard]] std::uint64_t constant_bytes() const;                            // of the composed biases and vectors
  // E417 naming plugin and site when a hot call has failed; decoding results since then are not to be used.
  [[nodiscard]] Status CheckHealthy() const;
  // The same, and E305 naming the base when its file is no longer what was verified (FileBytes::CheckUnchanged). What was computed
  // before this returned success was computed over verified bytes.
  [[nodiscard]] Status CheckIntact() const;

 private:
  friend class Stager;
  StagedComposition() = default;
  std::shared_ptr<const Base> base_;
  Composition composition_;
  Digest id_;
  ComputeMode mode_ = ComputeMode::kFast;
  std::unique_ptr<MemoryBudget> budget_;
  std::vector<std::unique_ptr<OverlayArtifact>> artifacts_;  // destroyed after the bindings
  std::vector<std::unique_ptr<OverlayBinding>> bindings_;
  std::vector<StagedSite> sites_;                          // by Site::index
  std::vector<std::shared_ptr<const Adapter>> replacers_;  // own what replaces tensors of the base
};

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_STAGED_COMPOSITION_H_
