#include "core/decode/plan.h"

#include <fmt/format.h>

#include <unistd.h>
#include <utility>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace veneer {
namespace {

std::uint64_t ResidentNow() {  // proc(5), statm: size resident shared, in pages
  unsigned long long size = 0, resident = 0;
  std::FILE* statm = std::fopen("/proc/self/statm", "re");
  if (statm == nullptr) return 0;
  const int read = std::fscanf(statm, "%llu %llu", &size, &resident);
  std::fclose(statm);
  return read == 2 ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// How much of the mapping that holds `data` is resident: all of it when it was hashed just now, less when the store had a stamp.
// proc(5), smaps: "7f0000000000-7f0000001000 r--p …" begins a mapping, "Rss:  4 kB" is one of the lines below it.
std::uint64_t ResidentOf(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream smaps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long begin = 0, end = 0, kibibytes = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      is_inside = address >= begin && address < end;
    } else if (is_inside && std::sscanf(line.c_str(), "Rss: %llu kB", &kibibytes) == 1) {
      return std::uint64_t{kibibytes} * 1024;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t ProcessBytes() { return ResidentNow(); }

MemoryPlan PlanMemory(const Base& base, const OverlayCost& overlays, ComputeMode mode, const DecoderOptions& options) {
  MemoryPlan plan;
  plan.base_bytes = base.file_bytes();
  const std::uint64_t resident = ResidentNow();
  std::uint64_t of_base = 0;
  for (const BaseFile& file : base.files().files) of_base += ResidentOf(file.bytes.bytes().data());
  plan.runtime_bytes = resident - std::min(resident, of_base);
  plan.adapter_bytes = overlays.peak_bytes;
  const Decoder::Memory decoder = Decoder::PlannedMemory(base.config(), mode, options);
  plan.scratch_bytes = decoder.scratch_bytes;
  plan.kv_bytes = decoder.kv_bytes;
  return plan;
}

Result<MemoryPlan> CompletePlan(MemoryPlan plan, const StagedComposition& staged, const DecoderOptions& options) {
  VENEER_ASSIGN(const Decoder::Memory decoder, Decoder::PlannedMemory(staged, options));
  plan.runtime_bytes += staged.constant_bytes();
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

Result<StagedPlan> StageWithin(BoundComposition bound, const MemoryPlan& plan, const DecoderOptions& options, std::uint64_t budget_bytes) {
  VENEER_TRY(Admit(plan, budget_bytes));
  StagedPlan within;
  VENEER_ASSIGN(within.staged, std::move(bound).Stage());
  VENEER_ASSIGN(within.plan, CompletePlan(plan, *within.staged, options));
  VENEER_TRY(Admit(within.plan, budget_bytes));
  return within;
}

}  // namespace veneer
