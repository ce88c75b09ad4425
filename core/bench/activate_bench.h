// What the first activation of a composition costs, where its files must be hashed, and a later one, in a store of its own.
#ifndef VENEER_CORE_BENCH_ACTIVATE_BENCH_H_
#define VENEER_CORE_BENCH_ACTIVATE_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/bench/statistics.h"
#include "core/store/counting_sys.h"
#include "core/store/store.h"

namespace veneer {

struct ActivateBenchOptions {
  std::string directory;   // where the store's folder is made; must exist
  std::uint64_t runs = 7;  // each measures every way once, in turn; at least 1
  std::uint32_t threads = 1;
  // What an activation asks besides the store's own checks; may be empty.
  std::function<Status(const Store& store, const OpenedComposition& files)> validate;
};

struct ActivateBenchReport {
  std::uint64_t bytes = 0;  // of all files of the composition
  // SHA-256 over buffers in the cores' caches, GB/s: of one thread, and of all threads of the options together. On a busy machine the
  // second is not as many times the first, and it bounds what an activation can reach.
  Interval sha256_one, sha256_all;
  Interval read_ms;  // the files read from the disk by one thread, and nothing else
  // Whole activations, ms. No stamps: from the disk, from memory, from memory without midstates too. With stamps: warm.
  Interval disk_ms, cold_ms, unaided_ms, warm_ms;
  Interval ratio_one, ratio_all;       // of pairs: bytes by the time of the cold activation, against each SHA-256
  SysCounts cold_counts, warm_counts;  // of the last run
};

// `contents`: the bytes of every file that the composition names. Waits a little more than 2 s for stamps to settle. E502, E603 and the
// like from the disk, and what `validate` refuses.
Result<ActivateBenchReport> BenchActivate(const std::string& composition, std::span<const std::span<const std::byte>> contents,
                                          const ActivateBenchOptions& options);

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_ACTIVATE_BENCH_H_
