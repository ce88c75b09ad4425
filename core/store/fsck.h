// Checks a store against its own rules, and mends what can be mended without choosing which composition is active.
#ifndef VENEER_CORE_STORE_FSCK_H_
#define VENEER_CORE_STORE_FSCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/store/blobs.h"
#include "core/store/layout.h"

namespace veneer {

struct FsckOptions {
  bool full = false;    // hash every blob
  bool repair = false;  // rebuild index.json, finish recovery, remove litter, drop stamps, quarantine bad blobs
  Progress progress;    // bytes hashed
};

struct Finding {
  std::string code;  // "E303 HASH_MISMATCH", "W2 INDEX_STALE"
  std::string at;    // the place in the store
  std::string detail;
  bool repaired = false;
};

struct FsckReport {
  std::vector<Finding> findings;
  std::uint64_t blobs = 0, blob_bytes = 0, generations = 0, refs = 0, audit_records = 0;
  std::uint64_t verity_blobs = 0;  // full: those that the kernel proves on every read
  [[nodiscard]] bool clean() const { return findings.empty(); }
  [[nodiscard]] bool problems_left() const;
};

// Quick: pointer, record chain, names, every blob they need with size, mode and type, foreign names, log, index. Takes byte 0 while it
// looks, so that a running activation is not mistaken for a crashed one. Full: hashes all blobs under byte 1 shared.
Result<FsckReport> RunFsck(const StoreContext& store, const FsckOptions& options);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_FSCK_H_
