// The harness sees: with one sync of the protocol left out, the loop of power cuts finds the invariant that this sync holds up.
#include <fmt/format.h>

#include <exception>
#include <map>

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

}  // namespace

TEST_CASE("ablation: list") {
  for (const Operation& operation : Operations()) {
    const Outcome& golden = GoldenRun(operation);
    std::string before;
    for (std::uint64_t n = 1; n <= golden.calls; ++n) {
      const std::string& line = golden.trace[n - 1];
      if (!line.starts_with("fsync ")) continue;
      Cases cases("ablation " + operation.name);
      std::string text;
      for (const auto& [invariant, count] : BrokenWithout(operation, n, cases)) text += fmt::format(" {} x{}", invariant, count);
      fmt::print("ABL {} {} {} (next {}):{}\n", operation.name, n, line, n < golden.calls ? golden.trace[n] : "-", text);
    }
  }
}
