// Staging: bind every overlay, ask what it costs, admit or refuse, then stage in manifest order into an immutable composition.
#ifndef VENEER_CORE_COMPOSE_STAGE_H_
#define VENEER_CORE_COMPOSE_STAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/adapter/adapter.h"
#include "core/compose/staged_composition.h"
#include "core/manifest/composition.h"
#include "core/plugin/catalog.h"

namespace veneer {

// One entry of a stack, in load order.
struct StageAdapter {
  std::string name;                        // for messages
  std::shared_ptr<const Adapter> adapter;  // read and checked against the base
  double strength = 1;                     // w; 0 leaves the entry out, bit for bit
  PluginDemand demand;                     // what the manifest demands of the plugin
};

struct StageOptions {
  ComputeMode mode = ComputeMode::kFast;
  std::uint32_t threads = 1;
  std::uint64_t overlay_budget = UINT64_MAX;  // bytes the overlays may hold, staging peaks included
};

// What the overlays of a stack will hold, known before any of it is allocated.
struct OverlayCost {
  std::uint64_t resident_bytes = 0;  // held until the composition is dropped, opaque memory of math libraries included
  std::uint64_t peak_bytes = 0;      // the most that is held at once while staging
};

// The first half: overlays bound and costed, nothing staged. Movable; give it to Stage once.
class BoundComposition {
 public:
  // `adapters` belong to composition.adapters one to one. E415-E417, and whatever `bind` refuses, with adapter and site named. The
  // catalogue outlives the result. Here and in Stage: E504 when the system refuses memory.
  static Result<BoundComposition> Bind(std::shared_ptr<const Base> base, const Composition& composition, std::vector<StageAdapter> adapters,
                                       const Catalog& catalog, const StageOptions& options);
  ~BoundComposition();
  BoundComposition(BoundComposition&&) noexcept;
  BoundComposition& operator=(BoundComposition&&) noexcept;

  [[nodiscard]] const OverlayCost& cost() const { return cost_; }

  // E501 when the cost does not fit the budget (nothing is allocated then). Consumes the object.
  Result<std::shared_ptr<const StagedComposition>> Stage() &&;

 private:
  friend class Stager;
  BoundComposition();
  struct Parts;
  std::unique_ptr<Parts> parts_;
  OverlayCost cost_;
};

// Bind and Stage in one go.
Result<std::shared_ptr<const StagedComposition>> StageComposition(std::shared_ptr<const Base> base, std::vector<StageAdapter> adapters,
                                                                  const Composition& composition, const Catalog& catalog,
                                                                  const StageOptions& options);

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_STAGE_H_
