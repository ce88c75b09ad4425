// The harness sees: with one sync of the protocol left out, the loop of power cuts finds the invariant that this sync holds up.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>

#include "tests/core/store/faults/harness.h"
#include "tests/support/catch.h"

namespace {

// What is broken, by invariant, when the n-th call of the operation does nothing and says that it worked.
std::map<std::string, std::uint64_t> BrokenWithout(const Operation& operation, std::uint64_t left_out, Cases& cases) {
  std::map<std::string, std::uint64_t> broken;
  const auto visit = [&](const SimImage& image, Ack ack) {
    std::vector<std::string> violations;
    try {
      violations = CheckStopped(operation, image, ack, cases);
    } catch (const std::exception& error) {
      violations = {fmt::format("recovery: {}", error.what())};
    }
    for (const std::string& violation : violations) ++broken[violation.substr(0, violation.find(':'))];
  };
  const auto visit_all = [&](const SimImage& now, Ack ack) {
    ForEveryCut(now, [&](CutOrder order, std::uint64_t choice, const std::string&) { visit(now.PowerCut(order, choice), ack); });
  };
  const Outcome outcome = RunOperation(operation, operation.before, [&](SimSys& sys, SimDisk& disk, const Ack& ack) {
    sys.LeaveOutAt(left_out);
    sys.before_call = [&](const std::string&) { visit_all(disk.image(), ack); };
  });
  visit_all(outcome.left, outcome.ack);
  return broken;
}

std::uint64_t NumberOf(const Operation& operation, const std::string& line, const std::string& before) {
  const auto& trace = GoldenRun(operation).trace;
  const auto end = before.empty() ? trace.end() : std::ranges::find(trace, before);
  std::uint64_t number = 0;
  for (auto call = trace.begin(); call != end; ++call)
    if (*call == line) number = static_cast<std::uint64_t>(call - trace.begin()) + 1;
  if (number == 0) throw std::invalid_argument(fmt::format("{} never calls {} before {}", operation.name, line, before));
  return number;
}

}  // namespace

TEST_CASE("ablation: each sync of the protocol holds up the invariant that is written beside it") {
  struct Row {
    std::string operation;
    std::string sync;    // the last one of this line …
    std::string before;  // … before the first call of that one; or the last one of all
    std::set<std::string> broken;
  };
  // The table of barriers: what is left out, and what must break without it.
  const Row rows[] = {
      {"activate", "fsync veneer/audit/seg-1", "link veneer/gen/5", {"I6"}},                       // of `begin`
      {"activate", "fsync veneer/staging/(unnamed)", "link veneer/gen/5", {"I4"}},                 // of gen/N
      {"activate", "fsync veneer/gen", "", {"I4"}},                                                // of its name
      {"activate", "fsync veneer/state/CURRENT~", "", {"I1"}},                                     // of the pointer
      {"activate", "fsync veneer/state", "", {"I3", "I8"}},                                        // of the rename
      {"recovery", "fsync veneer/state", "", {"I3", "I6", "I8"}},                                  // of the rename, by recovery
      {"activate-torn-log", "fsync veneer/audit", "", {"I6"}},                                     // of the name of a new segment
      {"activate-torn-log", "fsync veneer/staging/(unnamed)", "link veneer/audit/seg-2", {"I6"}},  // of its first record
      {"recovery-of-log", "fsync veneer/audit/seg-1", "write veneer/audit/seg-1", {"I6"}},         // of what a killed writer left
      {"activate-half-imported", "fsync blobs/sha256", "", {"I4"}},
      {"name-half-imported", "fsync blobs/sha256", "", {"I5"}},
      {"import", "fsync veneer/staging/(unnamed)", "", {"I4", "I5"}},  // of the blob
      {"import", "fsync blobs/sha256", "", {"I5"}},
      {"import", "fsync veneer/refs/adapter/new~", "", {"I2"}},
      {"import", "fsync veneer/refs/adapter", "", {"I3"}},
      {"import-over-bad", "fsync veneer/quarantine", "", {"I5"}},
      {"init", "fsync veneer", "lock 0 veneer/lock", {"recovery"}},  // of the lock file
      {"init", "fsync blobs", "", {"recovery"}},
      {"init", "fsync veneer/FORMAT~", "", {"recovery"}},
      {"init", "fsync veneer", "", {"recovery"}},  // of FORMAT
      // What nothing rests on: the end of a transaction can be made again, and the view as well.
      {"activate", "fsync veneer/audit/seg-1", "", {}},  // of `commit`
      {"activate", "fsync index.json~", "", {}},
      {"activate", "fsync ", "", {}},
  };
  for (const Row& row : rows) {
    const Operation& operation = FindOperation(row.operation);
    Cases cases("ablation of " + row.sync + " in " + row.operation);
    const auto broken = BrokenWithout(operation, NumberOf(operation, row.sync, row.before), cases);
    std::string found;
    for (const auto& [invariant, count] : broken) found += fmt::format("{} x {}, ", invariant, count);
    INFO(row.operation << " without " << row.sync << " before " << row.before << ": " << found);
    for (const std::string& invariant : row.broken) CHECK(broken.contains(invariant));
    CHECK(broken.empty() == row.broken.empty());
  }
}
