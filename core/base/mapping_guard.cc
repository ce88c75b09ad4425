#include "core/base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/base/file.h"

namespace veneer {

// One guarded mapping. The handler may look at it at any instruction of the thread that changes it, and of any other: `version` is odd
// while begin and end change, and another one afterwards.
struct Slot {
  std::atomic<std::uint32_t> version{0};
  std::atomic<std::uintptr_t> begin{0}, end{0};  // both 0: free
  std::atomic<bool> is_broken{false};

  void Set(std::uintptr_t new_begin, std::uintptr_t new_end) {  // under the registry's mutex
    const std::uint32_t now = version.load(std::memory_order_relaxed);
    version.store(now + 1, std::memory_order_relaxed);
    begin.store(new_begin, std::memory_order_release);
    end.store(new_end, std::memory_order_release);
    version.store(now + 2, std::memory_order_release);
  }
  // The end of the mapping when it holds the address, else 0.
  [[nodiscard]] std::uintptr_t EndIfHolds(std::uintptr_t address) const {
    const std::uint32_t before = version.load(std::memory_order_acquire);
    const std::uintptr_t low = begin.load(std::memory_order_acquire), high = end.load(std::memory_order_acquire);
    const bool is_settled = before % 2 == 0 && version.load(std::memory_order_relaxed) == before;
    return is_settled && address >= low && address < high ? high : 0;
  }
};

namespace {

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Slots in chunks that are linked and never freed, so that the handler can walk them without a lock. A process has few mappings at once.
struct Chunk {
  std::array<Slot, 64> slots;
  std::atomic<Chunk*> next{nullptr};
};

std::mutex registry_mutex;  // of whoever takes and frees slots; the handler does not
constinit Chunk first_chunk;
std::uintptr_t page_size = 4096;     // set before the handler is
struct sigaction previous_action{};  // the same

Slot* FindHolder(std::uintptr_t address, std::uintptr_t& end) {
  for (Chunk* chunk = &first_chunk; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire))
    for (Slot& slot : chunk->slots)
      if ((end = slot.EndIfHolds(address)) != 0) return &slot;
  return nullptr;
}

// As if this handler had never been there.
void HandOn(int signal, siginfo_t* info, void* context) {
  const bool is_fault = info->si_code > 0;  // else sent by a process
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || (previous_action.sa_handler == SIG_IGN && is_fault)) {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    if (!is_fault) raise(signal);  // delivered when this handler returns; a fault happens again by itself
  } else if (previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  }
}

// Async-signal-safe: atomics, mmap, sigaction, raise. Several threads may be here at once, on one mapping too.
void OnBusError(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  std::uintptr_t end = 0;
  Slot* slot = info->si_code > 0 && info->si_code != BUS_ADRALN ? FindHolder(address, end) : nullptr;
  if (slot != nullptr) {
    slot->is_broken.store(true, std::memory_order_release);  // before anyone can read a zero
    // From the lost page to the end at once: all of it lies behind the new end of the file, or the mapping is of no more use anyway.
    const std::uintptr_t page = address / page_size * page_size;
    void* const zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,  // NOLINT(performance-no-int-to-ptr)
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) slot = nullptr;
  }
  errno = saved_errno;
  if (slot == nullptr) HandOn(signal, info, context);
}

}  // namespace

Status InstallMappingGuard() {
  static std::mutex install_mutex;
  static bool is_installed = false;
  const std::lock_guard lock(install_mutex);
  if (is_installed) return {};
  page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action{};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  // The previous one first: a fault may come as soon as ours is in place.
  if (sigaction(SIGBUS, nullptr, &previous_action) != 0 || sigaction(SIGBUS, &action, nullptr) != 0)
    return Fail(IoError(errno, "SIGBUS", "install a handler"));
  is_installed = true;
  return {};
}

MappingGuard::MappingGuard(const void* begin, std::size_t size) {
  const auto low = reinterpret_cast<std::uintptr_t>(begin);
  const std::lock_guard lock(registry_mutex);
  for (Chunk* chunk = &first_chunk; slot_ == nullptr; chunk = chunk->next.load(std::memory_order_relaxed)) {
    for (Slot& slot : chunk->slots)
      if (slot_ == nullptr && slot.end.load(std::memory_order_relaxed) == 0) slot_ = &slot;
    if (slot_ == nullptr && chunk->next.load(std::memory_order_relaxed) == nullptr)
      chunk->next.store(std::make_unique<Chunk>().release(), std::memory_order_release);
  }
  slot_->is_broken.store(false, std::memory_order_relaxed);
  slot_->Set(low, low + size);
}

MappingGuard::~MappingGuard() {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(registry_mutex);
  slot_->Set(0, 0);
}

bool MappingGuard::is_broken() const { return slot_ != nullptr && slot_->is_broken.load(std::memory_order_acquire); }

}  // namespace veneer
