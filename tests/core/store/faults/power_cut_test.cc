// L4: the power fails before every call of every operation and after the last one, with every disk that can survive. L1 to L7 and the
// numbers that replay a case: README.md.
#include <fmt/format.h>

#include <set>

#include "tests/core/store/faults/harness.h"
#include "tests/support/catch.h"

namespace {

void CutEverywhere(const std::string& name) {
  const Operation& operation = FindOperation(name);
  Cases cases("L4 " + name);
  cases.points = GoldenRun(operation).calls + 1;
  const Outcome outcome = RunOperation(operation, operation.before, [&](SimSys& sys, SimDisk& disk, const Ack& ack) {
    sys.before_call = [&](const std::string& line) {
      ++cases.points_reached;
      CheckEveryCut(operation, disk.image(), ack, cases, [&] { return fmt::format("before call {}, {}", sys.calls(), line); });
    };
  });
  REQUIRE(outcome.status);
  ++cases.points_reached;
  CheckEveryCut(operation, outcome.left, Ack::kDone, cases, [] { return "after success was reported"; });
  CHECK(cases.points_reached == cases.points);
  if (!cases.replaying()) CHECK(cases.ran() > cases.points);
}

}  // namespace

TEST_CASE("L4: a power cut at any call of an activation leaves the old or the new composition and a store that recovers") {
  CutEverywhere("activate");
}
TEST_CASE("L4: a power cut at any call of an activation that starts a new segment of the log leaves a store that recovers") {
  CutEverywhere("activate-torn-log");
}
TEST_CASE("L4: a power cut at any call of an activation of what is active changes nothing") { CutEverywhere("activate-no-change"); }
TEST_CASE("L4: a power cut at any call of a rollback leaves the old or the new composition and a store that recovers") {
  CutEverywhere("rollback");
}
TEST_CASE("L4: a power cut at any call of a deactivation leaves the old composition or none and a store that recovers") {
  CutEverywhere("deactivate");
}
TEST_CASE("L4: a power cut at any call of an import leaves no partial blob and no name without its blob") { CutEverywhere("import"); }
TEST_CASE("L4: a power cut at any call of an import on a disk without unnamed files leaves no partial blob and no litter") {
  CutEverywhere("import-named");
}
TEST_CASE("L4: a power cut at any call of an import over a bad blob leaves the bad one, or the good one, and no name without it") {
  CutEverywhere("import-over-bad");
}
TEST_CASE("L4: a power cut at any call that forgets a name leaves the name or none") { CutEverywhere("remove-ref"); }
TEST_CASE("L4: a power cut at any call of an init leaves what the next one completes, and an acknowledged store is there") {
  CutEverywhere("init");
}
TEST_CASE("L4: a power cut at any call of a repair leaves what the next one repairs") { CutEverywhere("fsck-repair"); }
TEST_CASE("L4: a power cut at any call of a recovery leaves the old or the new composition and one end in the log") {
  CutEverywhere("recovery");
}
TEST_CASE("L4: a power cut at any call of a recovery of a log that was not synced leaves no damage in the log") {
  CutEverywhere("recovery-of-log");
}
TEST_CASE("L4: a power cut at any call of an activation of what a killed import left never leaves it active without its files") {
  CutEverywhere("activate-half-imported");
}
TEST_CASE("L4: a power cut at any call that names what a killed import left never leaves the name without its blob") {
  CutEverywhere("name-half-imported");
}

TEST_CASE("L4: what a reader adopts at any call of an activation, no power cut takes back") {
  const Operation& operation = FindOperation("activate");
  Cases cases("L4 reader");
  std::set<std::uint64_t> adopted;
  const Outcome outcome = RunOperation(operation, operation.before, [&](SimSys& sys, SimDisk& disk, const Ack&) {
    sys.before_call = [&](const std::string& line) {
      SimDisk own(disk.image());  // locks do not matter here: readers share byte 1 and want no other
      const auto store = OpenStore(own);
      REQUIRE(store);
      const auto active = store->OpenActive();
      REQUIRE(active);
      adopted.insert(active->current.generation);
      ForEveryCut(own.image(), [&](CutOrder order, std::uint64_t choice, const std::string& name) {
        if (!cases.Next()) return;
        const auto facts = ReadFacts(own.image().PowerCut(order, choice));
        std::vector<std::string> violations;
        if (!facts || facts->generation < active->current.generation) violations.push_back("I3: a reader adopted what is lost");
        cases.Report(violations, [&] { return fmt::format("before call {}, {}, {}", sys.calls(), line, name); });
      });
    };
  });
  CHECK(outcome.status);
  CHECK(adopted == std::set<std::uint64_t>{operation.expected.before.generation, operation.expected.after.generation});
}
