// What the store costs: activation, recovery, collection and import, in a store of its own that is gone afterwards.
#ifndef VENEER_CORE_BENCH_STORE_BENCH_H_
#define VENEER_CORE_BENCH_STORE_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/bench/statistics.h"
#include "core/store/counting_sys.h"

namespace veneer {

struct StoreBenchOptions {
  std::string directory;             // where the store's folder is made; must exist
  std::uint64_t runs = 50;           // of what is measured in a median, at least 1
  std::uint64_t generations = 1000;  // in the store that is recovered
  std::uint64_t base_bytes = 64 << 20;
};

struct StoreBenchReport {
  double import_mib_per_s = 0;          // copy, hash, sync, link
  Quantiles activation, commit;         // commit: from the first record to the return, steps 7 to 13
  SysCounts activation_counts;          // of the activation that took most calls
  std::uint64_t composition_bytes = 0;  // the one blob that an activation of verified files reads
  Quantiles recovery;                   // of an interrupted activation, in a store with `generations`
  SysCounts recovery_counts;
  double gc_ms = 0;
  std::uint64_t gc_blobs = 0;  // moved and deleted in that time
};

// Waits a little more than 2 s for stamps to settle. E603 and the like from the disk.
Result<StoreBenchReport> BenchStore(const StoreBenchOptions& options);

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_STORE_BENCH_H_
