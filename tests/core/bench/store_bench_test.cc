#include "core/bench/store_bench.h"

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

namespace veneer {
namespace {

TEST_CASE("bench store: an activation of verified files hashes nothing but its composition, in a known number of calls and syncs") {
  const TempDir dir;
  const auto report = BenchStore({.directory = dir.path().string(), .runs = 6, .generations = 20, .base_bytes = 1 << 20});
  REQUIRE(report);
  const SysCounts& counts = report->activation_counts;
  // Opened twice: before the lock, where long hashes are made, and under it. The base has 1 MiB, and not one byte of it is read.
  CHECK(counts.blob_bytes_read == 2 * report->composition_bytes);
  CHECK(counts.bytes_read < 20'000);
  // The folder of the blobs, the log as it was read, begin, the record and its folder, the pointer and its folder, commit, the view and
  // its folder.
  CHECK(counts.syncs == 10);
  CHECK(counts.calls == 120);
  CHECK(report->recovery_counts.syncs ==
        3);  // state/ and the log as it was read, before the end of the transaction is written; and that end
  CHECK(report->gc_blobs == 50);
  CHECK(report->import_mib_per_s > 0);
  CHECK(report->commit.median_ms <= report->activation.median_ms);
  CHECK(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace veneer
