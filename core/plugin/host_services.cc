#include "core/plugin/host_services.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "core/base/checked.h"
#include "kernels/kernels.h"

namespace veneer {
namespace {

constexpr std::uint64_t kAlign = 64, kMaxAlign = 4096;

// What plugins may use is what the host's own kernels use: VENEER_FORCE_ISA binds both, and a name that nobody knows permits nothing.
std::uint64_t PermittedFeatures() {
  const kernels::Table* const table = kernels::Select();
  if (table == nullptr || std::string_view(table->isa) == "scalar") return 0;
  std::uint64_t features = kernels::kAvx2Features;
#if defined(__x86_64__)
  // A processor may have AVX-512 without what the host's own table needs; a plugin gets it all the same unless something narrower was
  // asked for.
  const char* const forced = std::getenv("VENEER_FORCE_ISA");
  const bool narrower = forced != nullptr && *forced != '\0' && std::string_view(table->isa) != "avx512";
  if (!narrower && __builtin_cpu_supports("avx512f")) features |= VNR_CPU_AVX512;
#endif
  return features;
}

}  // namespace

bool MemoryBudget::Take(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}
void MemoryBudget::Give(std::uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

HostServices::HostServices(MemoryBudget& budget, ParallelFor parallel_for) : budget_(budget), parallel_for_(std::move(parallel_for)) {
  raw_.struct_size = sizeof raw_;
  raw_.abi_minor = VNR_ABI_MINOR;
  raw_.ctx = this;
  raw_.cpu_features = PermittedFeatures();
  raw_.get_extension = [](const vnr_host*, const char*) -> const void* { return nullptr; };
  raw_.alloc = [](const vnr_host* host, std::uint64_t bytes, std::uint64_t align) { return Of(host).Alloc(bytes, align); };
  raw_.free = [](const vnr_host* host, void* data) { Of(host).Free(data); };
  raw_.log = [](const vnr_host*, std::uint32_t, const char*, std::uint64_t) {};  // the library never prints
  raw_.cancelled = [](const vnr_host*) -> std::uint32_t { return 0; };
  raw_.parallel_for = [](const vnr_host* host, std::uint32_t n, void (*fn)(void*, std::uint32_t), void* context) {
    return Of(host).RunParallel(n, fn, context);
  };
}

HostServices::~HostServices() {
  for (const auto& [data, bytes] : allocations_) {
    budget_.Give(bytes);
    std::free(data);
  }
}

std::uint64_t HostServices::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

void HostServices::AllowGrowth(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = CheckedAdd(live_, bytes).value_or(UINT64_MAX);
}

std::string HostServices::TakeRefusal() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refusal_, {});
}

// NULL when it cannot be. Zero bytes are a pointer of their own, as ABI.md promises.
void* HostServices::Alloc(std::uint64_t bytes, std::uint64_t align) {
  if (align > kMaxAlign || (align & (align - 1)) != 0) return nullptr;
  const std::uint64_t alignment = std::max(align, kAlign);
  const auto size = CheckedAlignUp(std::max<std::uint64_t>(bytes, 1), alignment);
  const std::lock_guard lock(mutex_);
  if (!size || bytes > limit_ || live_ > limit_ - bytes) {
    refusal_ = fmt::format("it asked for {} bytes more and holds {}, its estimate allows {}: the plugin's estimate is too low", bytes,
                           live_, limit_);
    return nullptr;
  }
  if (!budget_.Take(bytes)) {
    refusal_ =
        fmt::format("{} bytes do not fit into the memory budget, of which {} are used; raise --memory-budget", bytes, budget_.used());
    return nullptr;
  }
  void* const data = std::aligned_alloc(alignment, *size);
  if (data == nullptr) {
    budget_.Give(bytes);
    refusal_ = fmt::format("the system has no {} bytes left", bytes);
    return nullptr;
  }
  allocations_.emplace(data, bytes);
  live_ += bytes;
  return data;
}

void HostServices::Free(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(data);
  if (found == allocations_.end()) return;  // NULL, or not ours: leave it alone
  budget_.Give(found->second);
  live_ -= found->second;
  allocations_.erase(found);
  std::free(data);
}

std::int32_t HostServices::RunParallel(std::uint32_t n, void (*fn)(void*, std::uint32_t), void* context) {
  if (setup_calls_ == 0) return VNR_E_STATE;
  if (fn == nullptr) return VNR_E_INVALID;
  try {  // nothing may unwind into the plugin
    parallel_for_(n, [fn, context](std::uint32_t i) { fn(context, i); });
  } catch (const std::exception&) {
    return VNR_E_INTERNAL;
  }
  return VNR_OK;
}

}  // namespace veneer
