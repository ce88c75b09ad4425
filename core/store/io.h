// Files of the store through Sys: whole reads and writes, durable replacement, and errors with the place in the store.
// EINTR and short writes are looped; fsync is never retried (a second one may succeed without writing).
#ifndef VENEER_CORE_STORE_IO_H_
#define VENEER_CORE_STORE_IO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/store/sys.h"

namespace veneer {

struct Dir {
  UniqueFd fd;
  std::string path;  // from the store's root: "veneer/state"
  [[nodiscard]] std::string At(std::string_view name) const;
};

// "2026-01-02T03:04:05Z" from nanoseconds since the epoch.
std::string FormatTime(std::int64_t wall_ns);

// Sys::Open, again as long as a signal interrupts it.
SysResult<UniqueFd> TryOpen(Sys& sys, const Dir& dir, const std::string& name, OpenMode mode, std::uint32_t permissions = 0);
Result<UniqueFd> OpenFile(Sys& sys, const Dir& dir, const std::string& name, OpenMode mode, std::uint32_t permissions = 0);
Result<Dir> OpenDir(Sys& sys, const Dir& parent, const std::string& name);

Status WriteAll(Sys& sys, const UniqueFd& fd, std::string_view bytes, const std::string& at);
Status SyncFile(Sys& sys, const UniqueFd& fd, const std::string& at);
Status SyncDir(Sys& sys, const Dir& dir);
Status CloseFile(Sys& sys, UniqueFd fd, const std::string& at);

// Up to `limit` bytes from the start; E602 when there are more.
Result<std::string> ReadAll(Sys& sys, const UniqueFd& fd, std::uint64_t limit, const std::string& at);
// Nothing when the file is absent; E602 when it is no regular file or larger than `limit`.
Result<std::optional<std::string>> ReadSmallFile(Sys& sys, const Dir& dir, const std::string& name, std::uint64_t limit);

// Writes the bytes to a new name beside `name`, synced and closed, and returns that name. Nothing is left after a failure
// unless the removal fails too; recovery takes what remains.
Result<std::string> WriteBeside(Sys& sys, const Dir& dir, const std::string& name, std::string_view bytes, std::uint32_t permissions);
bool IsBesideName(std::string_view name);  // made by WriteBeside: "<name>~<16 hex>"

// WriteBeside, rename, sync of the directory: old or new bytes, whole, after any crash.
Status ReplaceFile(Sys& sys, const Dir& dir, const std::string& name, std::string_view bytes, std::uint32_t permissions);
// After a change of the directory that everybody sees already: E604 when the sync fails.
Status SyncVisible(Sys& sys, const Dir& dir, const std::string& name);

Status RemoveFile(Sys& sys, const Dir& dir, const std::string& name);  // an absent file is fine
Result<std::vector<std::string>> ListNames(Sys& sys, const Dir& dir);  // sorted
Result<std::string> RandomHex(Sys& sys, std::size_t n_bytes);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_IO_H_
