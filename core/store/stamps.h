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

struct Stamp {
  FileInfo info;             // device, inode, size, mtime_ns, ctime_ns
  std::int64_t when_ns = 0;  // wall clock when the hash began
  std::string build;
};
std::string PrintStamp(const Stamp& stamp);
std::optional<Stamp> ParseStamp(std::string_view text);

// A hash that began less than 2 s after the file's last change proves nothing later: with coarse file times a second change could
// carry the same time.
bool IsTrusted(const Stamp& stamp, const FileInfo& now);

bool HasTrustedStamp(const StoreContext& store, const Digest& digest, const FileInfo& now);
// Best effort, without locks: a stamp that cannot be written or would not be trusted is left out.
void WriteStamp(const StoreContext& store, const Digest& digest, const FileInfo& info, std::int64_t when_ns);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_STAMPS_H_
