// L5: the fault after the fault. Every distinct disk that a kill or a power cut leaves of an operation is recovered, and every call of
// that recovery fails, is the last one before a kill, or the last one before a power cut.
#include <fmt/format.h>

#include <cerrno>
#include <set>

#include "tests/core/store/faults/harness.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

constexpr std::int64_t kMinuteNs = 60'000'000'000;
constexpr const char* kStamps = "store/veneer/verified";

struct Left {
  SimImage image;
  Ack ack;
};

// Disks that differ in stamps alone, which are hints, count once. The clock is set back, so that an activation does not even write
// them: L4 has seen what becomes of them.
std::vector<Left> DistinctDisks(const Operation& operation) {
  SimImage before = operation.before;
  before.wall_ns -= kMinuteNs;
  std::vector<Left> all;
  std::set<std::uint64_t> seen;
  const auto add = [&](const SimImage& image, Ack ack) {
    if (seen.insert(image.FullFingerprint(kStamps) * 4 + static_cast<std::uint64_t>(ack)).second) all.push_back({image, ack});
  };
  const auto add_all = [&](const SimImage& now, Ack ack) {
    add(now, ack);
    ForEveryCut(now, [&](CutOrder order, std::uint64_t choice, const std::string&) { add(now.PowerCut(order, choice), ack); });
  };
  const Outcome outcome = RunOperation(operation, before, [&](SimSys& sys, SimDisk& disk, const Ack& ack) {
    sys.before_call = [&](const std::string&) { add_all(disk.image(), ack); };
  });
  add_all(outcome.left, Ack::kDone);
  // Killed in the middle of a write.
  for (std::uint64_t n = 1; n <= outcome.calls; ++n) {
    if (!outcome.trace[n - 1].starts_with("write ")) continue;
    const Outcome killed = RunOperation(operation, before, [n](SimSys& sys, SimDisk&, const Ack&) {
      sys.ShortWriteAt(n);
      sys.StopAt(n + 1);
    });
    add(killed.left, Ack::kNone);
  }
  return all;
}

// A small writer that recovers first and then appends to the log. An interrupted Init is finished by the next one.
Operation RecoveryOf(const Operation& operation, const Left& left) {
  Operation recovery = operation;
  recovery.name = "recovery of " + operation.name;
  recovery.before = left.image;
  recovery.repeat = Repeat::kKeepsWhatIsThere;
  recovery.start = [](Sys& sys) -> Running {
    return [&sys](Ack&) -> Status {
      auto store = OpenStore(sys);
      if (!store && store.error().code == Code::STORE_FORMAT) store = Store::Init(sys, kStore, {std::chrono::milliseconds(200), "test"});
      if (!store) return Fail(store.error());
      return store->PutRef(Ref{RefKind::kBase, "later", "{}"});
    };
  };
  return recovery;
}

// Killed, or without power, before each call and at the end; what a recovery has found stays, whatever happens afterwards.
Outcome CutRecovery(Operation recovery, const Left& left, Cases& cases) {
  Outcome golden = RunOperation(recovery, left.image, [&](SimSys& sys, SimDisk& disk, const Ack&) {
    sys.before_call = [&](const std::string& line) {
      CheckEveryCut(recovery, disk.image(), left.ack, cases,
                    [&] { return fmt::format("before call {} of a recovery, {}", sys.calls(), line); });
    };
  });
  if (const auto facts = ReadFacts(golden.left); golden.status && facts) {
    recovery.expected.before = recovery.expected.after = *facts;
    CheckEveryCut(recovery, golden.left, Ack::kDone, cases, [] { return "after a recovery"; });
  }
  return golden;
}

// Each call fails: once or for ever in turns, and both when there is time.
void FailRecovery(const Operation& recovery, const Left& left, const Outcome& golden, bool even, Cases& cases) {
  const bool both = Effort() > 1;
  cases.points += golden.calls * (both ? 2 : 1);
  for (std::uint64_t n = 1; n <= golden.calls; ++n) {
    for (const bool once : {true, false}) {
      if (!both && once != ((n % 2 == 0) == even)) continue;
      if (!cases.Next()) continue;
      const Outcome failed = RunOperation(recovery, left.image, [&](SimSys& sys, SimDisk& disk, const Ack&) {
        sys.before_call = [&, n, once](const std::string& line) {
          const bool now = once ? sys.calls() == n : sys.calls() >= n;
          disk.sync_error = now && line.starts_with("fsync ") ? EIO : 0;
          if (now && disk.sync_error == 0) sys.FailAt(sys.calls(), EIO);
        };
      });
      cases.points_reached += failed.calls >= n ? 1 : 0;
      cases.Report(CheckStopped(recovery, failed.left, left.ack, cases),
                   [&] { return fmt::format("call {} of a recovery, {}, fails {}", n, golden.trace[n - 1], once ? "once" : "for ever"); });
    }
  }
}

}  // namespace

TEST_CASE("L5: no fault in the recovery from a crash of any operation loses or invents anything") {
  for (const Operation& operation : Operations()) {
    if (!operation.own_code || operation.name == "rollback") continue;  // a rollback leaves what an activation leaves
    Cases cases("L5 " + operation.name);
    cases.ignored = kStamps;
    const auto disks = DistinctDisks(operation);
    for (std::size_t i = 0; i < disks.size(); ++i) {
      const Operation recovery = RecoveryOf(operation, disks[i]);
      const Outcome golden = CutRecovery(recovery, disks[i], cases);
      if (i % 2 == 0 || Effort() > 1) FailRecovery(recovery, disks[i], golden, i % 4 == 0, cases);  // neighbours differ little
    }
    if (!cases.replaying()) CHECK(cases.points_reached == cases.points);
  }
}
