// Garbage collection: blobs that nothing active, retained or named needs go to trash/, and from there, after a grace period, away.
#ifndef VENEER_CORE_STORE_GC_H_
#define VENEER_CORE_STORE_GC_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/store/layout.h"

namespace veneer {

struct GcOptions {
  std::chrono::seconds grace{std::chrono::hours(24)};  // how long a blob stays in trash/; 0: no time at all
};

struct GcReport {
  std::uint64_t live = 0;                          // blobs that stay
  std::uint64_t moved = 0, moved_bytes = 0;        // to trash/, now
  std::uint64_t deleted = 0, deleted_bytes = 0;    // from trash/, for good
  std::uint64_t in_trash = 0, in_trash_bytes = 0;  // what waits there for its time
  std::vector<std::string> warnings;               // W1, W2
};

// Takes byte 0, and byte 1 alone while it moves: no reader, import or activation misses a blob it has found. A file that is open stays
// readable. E601 when a reader holds byte 1 for too long; E2xx, E3xx and E602 when what is needed cannot be read: then nothing is moved.
Result<GcReport> RunGc(const StoreContext& store, const GcOptions& options);

// "<64 hex>.<seconds since the epoch when it was moved>": the time, or nothing for another name.
std::optional<std::int64_t> TrashTime(std::string_view name);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_GC_H_
