// What the host lends one artifact's plugin code: a budgeted allocator that keeps to the estimate, and the calls of vnr_host.
#ifndef VENEER_CORE_PLUGIN_HOST_SERVICES_H_
#define VENEER_CORE_PLUGIN_HOST_SERVICES_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/plugin/overlay.h"

namespace veneer {

class HostServices {
 public:
  HostServices(MemoryBudget& budget, ParallelFor parallel_for);
  ~HostServices();  // frees what the plugin forgot
  HostServices(const HostServices&) = delete;
  HostServices& operator=(const HostServices&) = delete;

  [[nodiscard]] const vnr_host* raw() const { return &raw_; }
  // Bytes the plugin holds at this moment.
  [[nodiscard]] std::uint64_t live() const;
  // From here on live() may not grow by more than `bytes`.
  void AllowGrowth(std::uint64_t bytes);
  // Why the last allocation was refused, empty when none was since the last call of this function.
  [[nodiscard]] std::string TakeRefusal();

  // While one of these lives, parallel_for is allowed; outside of setup calls it answers VNR_E_STATE.
  class Setup {
   public:
    explicit Setup(HostServices& services) : services_(services) { ++services_.setup_calls_; }
    ~Setup() { --services_.setup_calls_; }
    Setup(const Setup&) = delete;
    Setup& operator=(const Setup&) = delete;

   private:
    HostServices& services_;
  };

 private:
  void* Alloc(std::uint64_t bytes, std::uint64_t align);
  void Free(void* data);
  std::int32_t RunParallel(std::uint32_t n, void (*fn)(void*, std::uint32_t), void* context);
  static HostServices& Of(const vnr_host* host) { return *static_cast<HostServices*>(host->ctx); }

  MemoryBudget& budget_;
  ParallelFor parallel_for_;
  vnr_host raw_{};
  std::atomic<int> setup_calls_{0};
  mutable std::mutex mutex_;  // over all below
  std::unordered_map<void*, std::uint64_t> allocations_;
  std::uint64_t live_ = 0, limit_ = 0;
  std::string refusal_;
};

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_HOST_SERVICES_H_
