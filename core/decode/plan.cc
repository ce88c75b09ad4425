#include "core/decode/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace veneer {
namespace {

// Resident bytes of this process that are not file pages of the base: anonymous memory plus the code and libraries that were touched,
// as the kernel counts them (proc(5), statm: size resident shared, in pages). Asked before the base is walked.
std::uint64_t ResidentNow() {
  unsigned long long size = 0, resident = 0;
  std::FILE* statm = std::fopen("/proc/self/statm", "re");
  if (statm == nullptr) return 0;
  const int read = std::fscanf(statm, "%llu %llu", &size, &resident);
  std::fclose(statm);
  return read == 2 ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

MemoryPlan PlanMemory(const Base& base, const OverlayCost& overlays, ComputeMode mode, const DecoderOptions& options) {
  MemoryPlan plan;
  plan.base_bytes = base.bytes().size();
  const std::uint64_t resident = ResidentNow();
  // Verifying the base has walked its mapping already, so its pages are part of what is resident now.
  plan.runtime_bytes = resident > plan.base_bytes ? resident - plan.base_bytes : resident;
  plan.adapter_bytes = overlays.peak_bytes;
  const Decoder::Memory decoder = Decoder::PlannedMemory(base.config(), mode, options);
  plan.scratch_bytes = decoder.scratch_bytes;
  plan.kv_bytes = decoder.kv_bytes;
  return plan;
}

Status Admit(const MemoryPlan& plan, std::uint64_t budget_bytes) {
  if (plan.peak_bytes() <= budget_bytes) return {};
  return Fail(
      Code::MEMORY_BUDGET, "--memory-budget",
      fmt::format("{} bytes are needed (runtime {}, base {}, adapters {}, scratch {}, K/V {}), {} are allowed; raise the budget, or give "
                  "a smaller -c or --batch",
                  plan.peak_bytes(), plan.runtime_bytes, plan.base_bytes, plan.adapter_bytes, plan.scratch_bytes, plan.kv_bytes,
                  budget_bytes));
}

}  // namespace veneer
