#include "core/cli/bench_store.h"

#include <filesystem>

#include "tests/core/cli/captured.h"
#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace veneer::cli {
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

TEST_CASE("bench store: the store the command line names is not touched, and an unknown bench is refused with what there is") {
  const TempDir dir;
  const std::string none = (dir.path() / "none").string();
  const ProcessResult done = Veneer({"bench", "store", "--runs", "1", "--store", none, "--dir", dir.path().string(), "--json"});
  CHECK(done.status == 0);
  CHECK(done.out.find("\"median_ms\":") != std::string::npos);
  CHECK(std::filesystem::is_empty(dir.path()));
  const Captured unknown = RunCommand({"bench", "nothing"});
  CHECK(unknown.status == 2);
  CHECK(unknown.err.find("store") != std::string::npos);
  CHECK(RunCommand({"bench", "store", "--runs", "0"}).status == 2);
}

}  // namespace
}  // namespace veneer::cli
