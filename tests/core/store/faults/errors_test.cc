// L1: every call of every operation fails with every error that fits it, or does half of its work; once, or from there on for ever. Then
// the power fails as well.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "tests/core/store/faults/harness.h"
#include "tests/support/catch.h"

using veneer::Code;

namespace {

struct Fault {
  int error = 0;
  bool once = true;
  enum { kError, kShortWrite, kShortRead } kind = kError;
};

// By the first word of the trace line.
std::vector<int> ErrorsOf(const std::string& line) {
  const std::string call = line.substr(0, line.find(' '));
  if (call == "open") return {EIO, ENOSPC, EACCES, EMFILE, ENOMEM};
  if (call == "read") return {EIO, EINTR, ENOMEM};
  if (call == "write") return {EIO, ENOSPC, EINTR};
  if (call == "fsync") return {EIO, ENOSPC};
  if (call == "close") return {EIO, ENOSPC, EINTR};
  if (call == "truncate") return {EIO, EINTR};
  if (call == "rename" || call == "link" || call == "unlink" || call == "mkdir" || call == "make") return {EIO, ENOSPC, EACCES, ENOMEM};
  if (call == "list" || call == "duplicate") return {EIO, EMFILE, ENOMEM};
  if (call == "lock") return {EIO, EINTR, ENOMEM};
  if (call == "chmod") return {EIO, EACCES};
  return {EIO, ENOMEM};  // stat, statfs, random
}

std::vector<Fault> FaultsOf(const std::string& line) {
  std::vector<Fault> faults;
  for (const int error : ErrorsOf(line)) {
    faults.push_back({error, true});
    if (error != EINTR) faults.push_back({error, false});  // a call that is interrupted for ever is one that never ends
  }
  if (line.starts_with("write ")) faults.push_back({0, true, Fault::kShortWrite});
  if (line.starts_with("read ")) faults.push_back({0, true, Fault::kShortRead});
  return faults;
}

std::string Shown(const Fault& fault) {
  if (fault.kind != Fault::kError) return "half of the bytes";
  return fmt::format("{} {}", std::strerror(fault.error), fault.once ? "once" : "for ever");
}

// A sync fails on the disk itself, which forgets what it should have written; any other call is not made.
void Set(const Fault& fault, std::uint64_t at, SimSys& sys, SimDisk& disk) {
  if (fault.kind == Fault::kShortWrite) sys.ShortWriteAt(at);
  if (fault.kind == Fault::kShortRead) sys.ShortReadAt(at);
  if (fault.kind != Fault::kError) return;
  sys.before_call = [fault, at, &sys, &disk](const std::string& line) {
    const bool now = fault.once ? sys.calls() == at : sys.calls() >= at;
    const bool sync = line.starts_with("fsync ");
    disk.sync_error = now && sync ? fault.error : 0;
    if (now && !sync) sys.FailAt(sys.calls(), fault.error);
  };
}

void FailEverywhere(const std::string& name) {
  const Operation& operation = FindOperation(name);
  const Outcome& golden = GoldenRun(operation);
  Cases cases("L1 " + name);
  cases.points = golden.calls;
  for (std::uint64_t n = 1; n <= golden.calls; ++n) {
    const std::string& line = golden.trace[n - 1];
    bool reached = false;
    for (const Fault& fault : FaultsOf(line)) {
      const Outcome outcome =
          RunOperation(operation, operation.before, [&](SimSys& sys, SimDisk& disk, const Ack&) { Set(fault, n, sys, disk); });
      reached = outcome.calls >= n && outcome.trace[n - 1] == line;
      if (!outcome.status) cases.Saw(outcome.status.error().code);
      const auto where = [&] {
        return fmt::format("call {}, {}: {} -> {}", n, line, Shown(fault), outcome.status ? "success" : outcome.status.error().Text());
      };
      std::vector<std::string> violations;
      if (outcome.leaked != 0) violations.push_back(fmt::format("{} descriptors leak", outcome.leaked));
      if (!outcome.status && fault.kind != Fault::kError) violations.push_back("a call that did half of its work is no failure");
      if (cases.Next()) cases.Report(violations, where);
      CheckEveryCut(operation, outcome.left, outcome.ack, cases, where);
    }
    cases.points_reached += reached ? 1 : 0;
  }
  if (cases.replaying()) return;
  CHECK(cases.points_reached == cases.points);
  const bool switches = operation.expected.after.generation > operation.expected.before.generation && operation.expected.refusal_decides;
  CHECK(cases.HasSeen(Code::DURABILITY_UNKNOWN) >= switches);  // a failed sync of state/ is no ordinary error
}

}  // namespace

TEST_CASE("L1: no failing call of any operation leaves anything but the old or the new state, or a lie about which") {
  for (const Operation& operation : Operations()) FailEverywhere(operation.name);
}

TEST_CASE("L1: calls that are all interrupted once, and write seven bytes at a time, are no failure") {
  for (const Operation& operation : Operations()) {
    const Outcome outcome =
        RunOperation(operation, operation.before, [](SimSys& sys, SimDisk&, const Ack&) { sys.interrupt_everything = true; });
    INFO(operation.name << ": " << (outcome.status ? "" : outcome.status.error().Text()));
    CHECK(outcome.status);
    CHECK(ReadFacts(outcome.left) == operation.expected.after);
  }
}

TEST_CASE("L1: each operation makes the number of calls that is written down") {
  for (const Operation& operation : Operations()) {
    INFO(operation.name << " makes " << GoldenRun(operation).calls);
    CHECK(GoldenRun(operation).calls == operation.calls);
    CHECK(GoldenRun(operation).status);
  }
}
