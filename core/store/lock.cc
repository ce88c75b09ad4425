#include "core/store/lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace veneer {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::uint64_t kWriterByte = 0;
constexpr std::uint64_t kReaderByte = 1;
constexpr std::uint32_t kMaxWaitMs = 50;

// A shared lock needs no right to write, so a store can be read where it cannot be changed. A file that is missing is never made here:
// whoever has the old one locked would not notice.
Result<UniqueFd> OpenLock(const StoreContext& store, LockKind kind) {
  const std::string at = store.veneer.At(kLockName);
  const OpenMode mode = kind == LockKind::kShared ? OpenMode::kRead : OpenMode::kReadWrite;
  auto fd = TryOpen(*store.sys, store.veneer, kLockName, mode);
  if (!fd && fd.error() == ENOENT)
    return Fail(Code::STATE_CORRUPT, at, "is missing; make it again, empty and with mode 0600, when nothing uses the store");
  if (!fd && fd.error() == EROFS)
    return Fail(Code::IO, at, "the file system is mounted for reading only; mount it for writing to change or check");
  if (!fd) return Fail(IoError(fd.error(), at, "open"));
  return *std::move(fd);
}

// Waits by trying again with growing pauses: a lock that waits in the kernel has no timeout.
Result<UniqueFd> Acquire(const StoreContext& store, std::uint64_t byte, LockKind kind, std::string_view holder) {
  Sys& sys = *store.sys;
  const std::string at = store.veneer.At(kLockName);
  VENEER_ASSIGN(UniqueFd fd, OpenLock(store, kind));
  const std::int64_t deadline = sys.SteadyClockNs() + std::chrono::nanoseconds(store.options.lock_timeout).count();
  for (std::uint32_t wait_ms = 1;; wait_ms = std::min(wait_ms * 2, kMaxWaitMs)) {
    const auto locked = sys.TryLock(fd.get(), byte, kind);
    if (!locked && locked.error() != EINTR) return Fail(IoError(locked.error(), at, "lock"));
    if (locked && *locked) return fd;
    if (sys.SteadyClockNs() >= deadline)
      return Fail(
          Code::LOCKED, at,
          fmt::format("{} holds the store for more than {} ms; try again when it is done", holder, store.options.lock_timeout.count()));
    sys.SleepMs(wait_ms);
  }
}

}  // namespace

Result<StoreLock> StoreLock::ForWriter(const StoreContext& store) {
  VENEER_ASSIGN(UniqueFd fd, Acquire(store, kWriterByte, LockKind::kExclusive, "another process"));
  return StoreLock(std::move(fd));
}

Result<StoreLock> StoreLock::ForReader(const StoreContext& store) {
  VENEER_ASSIGN(UniqueFd fd, Acquire(store, kReaderByte, LockKind::kShared, "a garbage collection"));
  return StoreLock(std::move(fd));
}

Result<StoreLock> StoreLock::ForCollector(const StoreContext& store) {
  VENEER_ASSIGN(UniqueFd fd, Acquire(store, kReaderByte, LockKind::kExclusive, "a reader"));
  return StoreLock(std::move(fd));
}

Status StoreLock::Create(const StoreContext& store) {
  const auto fd = store.sys->Open(store.veneer.fd.get(), kLockName, OpenMode::kCreate, kPrivatePermissions);
  if (!fd && fd.error() != EEXIST) return Fail(IoError(fd.error(), store.veneer.At(kLockName), "make the lock file"));
  return SyncDir(*store.sys, store.veneer);  // before FORMAT, which says that all is there
}

}  // namespace veneer
