// What running a composition will take, term by term, before anything is allocated: P = runtime + base + adapters + scratch + K/V.
#ifndef VENEER_CORE_DECODE_PLAN_H_
#define VENEER_CORE_DECODE_PLAN_H_

#include <cstdint>

#include "core/compose/stage.h"
#include "core/decode/decoder.h"
#include "core/model/base.h"

namespace veneer {

struct MemoryPlan {
  std::uint64_t runtime_bytes = 0;  // the process itself, and what the base's structures take beside its mapping
  std::uint64_t base_bytes = 0;     // the mapped file, all of it
  std::uint64_t adapter_bytes = 0;  // held by the overlays, staging peaks included
  std::uint64_t scratch_bytes = 0;
  std::uint64_t kv_bytes = 0;
  [[nodiscard]] std::uint64_t peak_bytes() const { return runtime_bytes + base_bytes + adapter_bytes + scratch_bytes + kv_bytes; }
};

MemoryPlan PlanMemory(const Base& base, const OverlayCost& overlays, ComputeMode mode, const DecoderOptions& options);

// E501 naming the terms when the plan exceeds the budget.
Status Admit(const MemoryPlan& plan, std::uint64_t budget_bytes);

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_PLAN_H_
