// What running a composition will take, term by term: P = runtime + base + adapters + scratch + K/V. Known in two steps, each before
// what it counts is allocated: PlanMemory before the overlays are staged, CompletePlan before the decoder is made.
#ifndef VENEER_CORE_DECODE_PLAN_H_
#define VENEER_CORE_DECODE_PLAN_H_

#include <cstdint>
#include <memory>

#include "core/compose/stage.h"
#include "core/decode/decoder.h"
#include "core/model/base.h"

namespace veneer {

struct MemoryPlan {
  std::uint64_t runtime_bytes = 0;  // the process itself, the base's structures beside its mapping, composed biases and vectors
  std::uint64_t base_bytes = 0;     // the mapped file, all of it
  std::uint64_t adapter_bytes = 0;  // held by the overlays, staging peaks included
  std::uint64_t scratch_bytes = 0;
  std::uint64_t kv_bytes = 0;
  [[nodiscard]] std::uint64_t peak_bytes() const { return runtime_bytes + base_bytes + adapter_bytes + scratch_bytes + kv_bytes; }
};

// Without what only staged overlays tell: their versions of x, prepared bytes and threads' scratch. So the plan is too small by these,
// never too large.
MemoryPlan PlanMemory(const Base& base, const OverlayCost& overlays, ComputeMode mode, const DecoderOptions& options);

// The whole plan: `plan` as made before staging, `staged` what it was made for. E901 for options that the model refuses.
Result<MemoryPlan> CompletePlan(MemoryPlan plan, const StagedComposition& staged, const DecoderOptions& options);

// What the process takes now: the runtime term before a base is open, of a process that will hold several compositions.
std::uint64_t ProcessBytes();

// E501 naming the terms when the plan exceeds the budget.
Status Admit(const MemoryPlan& plan, std::uint64_t budget_bytes);

struct StagedPlan {
  MemoryPlan plan;  // whole
  std::shared_ptr<const StagedComposition> staged;
};
// Stages what `plan` was made for. Admitted twice (E501): before the overlays are staged, and whole before a decoder is made.
Result<StagedPlan> StageWithin(BoundComposition bound, const MemoryPlan& plan, const DecoderOptions& options, std::uint64_t budget_bytes);

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_PLAN_H_
