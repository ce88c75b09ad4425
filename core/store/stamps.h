// A stamp says: this very file (device, inode, size, times) hashed to its name then. It saves hashing gigabytes again and is only a
// hint: absent, torn, foreign or doubtful stamps cost a full hash. Any change of the file changes its ctime and voids the stamp.
#ifndef VENEER_CORE_STORE_STAMPS_H_
#define VENEER_CORE_STORE_STAMPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/store/layout.h"

namespace veneer {

inline constexpr std::uint64_t kMaxStampBytes = 1024;

struct Stamp {
  FileInfo info;             // device, inode, size, mtime_ns, ctime_ns
  std::int64_t when_ns = 0;  // wall clock when the hash began
  std::optional<Digest> verity;
  std::string build;
};
std::string PrintStamp(const Stamp& stamp);
std::optional<Stamp> ParseStamp(std::string_view text);

// A hash that began less than 2 s after the file's last change proves nothing later: with coarse file times a second change could
// carry the same time. This is the rule for files without fs-verity.
bool IsTrusted(const Stamp& stamp, const FileInfo& now);

// The stamp of this open file, if it may be trusted: one with an fs-verity digest when the kernel measures the same digest now, whatever
// the times say; another by IsTrusted.
std::optional<Stamp> TrustedStamp(const StoreContext& store, const Digest& digest, const UniqueFd& fd, const FileInfo& now);
// Best effort, without lock or sync. A stamp that would not be trusted is not written.
void WriteStamp(const StoreContext& store, const Digest& digest, const Stamp& stamp);

// Gives a file of verified/ these bytes, in the place of what has the name.
Status WriteHint(const StoreContext& store, const std::string& name, std::string_view bytes);

// Whether the kernel proves the pages of this file from now on; asked before a hash, so that what is hashed is what will be read. The
// file system, a writer that holds the file or a missing right may refuse.
bool EnableVerity(const StoreContext& store, const UniqueFd& fd);
std::optional<Digest> MeasureVerity(const StoreContext& store, const UniqueFd& fd);  // of the kernel's Merkle tree; not the file's SHA-256

}  // namespace veneer

#endif  // VENEER_CORE_STORE_STAMPS_H_
