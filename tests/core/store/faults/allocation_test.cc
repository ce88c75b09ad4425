// L2: every allocation of every operation fails, once or from there on for ever. The answer is E504 and nothing has changed, or the
// operation worked in spite of it (with a warning), or E604 when it is past its commit point.
#include <fmt/format.h>

#include <new>
#include <optional>

#include "tests/core/store/faults/allocations.h"
#include "tests/core/store/faults/harness.h"
#include "tests/core/store/faults/quiet_sys.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

struct Starved {
  std::vector<std::string> violations;
  Ack ack = Ack::kNone;
  std::uint64_t counted = 0;
  std::optional<Code> code;
  SimImage left;
};

Starved RunWithout(const Operation& operation, std::uint64_t nth, bool once) {
  Starved starved;
  const std::int64_t before = allocations::Alive();
  SimDisk disk(operation.before);
  disk.unnamed_files = operation.unnamed_files;
  QuietSys sys(disk);
  {
    const Running run = operation.start(sys);
    Status status;
    allocations::FailAt(nth, once);
    try {
      status = run(starved.ack);
    } catch (const std::bad_alloc&) {
      starved.violations.emplace_back("an exception leaves the store");
    }
    starved.counted = allocations::Stop();
    if (!status) starved.code = status.error().code;
    if (!status && starved.code != Code::OUT_OF_MEMORY && starved.code != Code::DURABILITY_UNKNOWN)
      starved.violations.push_back("another error: " + status.error().Text());
  }
  if (disk.open_descriptors() != 0) starved.violations.emplace_back("descriptors leak");
  if (allocations::Alive() != before) starved.violations.emplace_back("memory leaks");
  starved.ack = !starved.code ? Ack::kDone : starved.code == Code::DURABILITY_UNKNOWN ? Ack::kNone : Ack::kRefused;
  starved.left = disk.image();
  return starved;
}

void StarveEverywhere(const Operation& operation) {
  Cases cases("L2 " + operation.name);
  RunWithout(operation, 0, true);  // what is made once and kept for ever is made here
  cases.points = RunWithout(operation, 0, true).counted;
  for (std::uint64_t n = 1; n <= cases.points; ++n) {
    for (const bool once : {true, false}) {
      if (!cases.Next()) continue;
      Starved starved = RunWithout(operation, n, once);
      if (once && starved.counted >= n) ++cases.points_reached;
      if (starved.code) cases.Saw(*starved.code);
      for (std::string& violation : CheckStopped(operation, starved.left, starved.ack, cases))
        starved.violations.push_back(std::move(violation));
      cases.Report(starved.violations,
                   [&] { return fmt::format("allocation {} of {} fails {}", n, cases.points, once ? "once" : "and all after it"); });
    }
  }
  if (cases.replaying()) return;
  CHECK(cases.points_reached == cases.points);
  CHECK(cases.HasSeen(Code::OUT_OF_MEMORY));
}

}  // namespace

TEST_CASE(
    "L2: a failing allocation in any operation is E504 and leaves the old state, or comes after the commit point and costs a warning") {
  for (const Operation& operation : Operations())
    if (operation.own_code) StarveEverywhere(operation);
}
