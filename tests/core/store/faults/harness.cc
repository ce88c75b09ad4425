#include "tests/core/store/faults/harness.h"

#include <fmt/format.h>

#include <map>
#include <random>

#include "tests/core/store/fixture.h"

using namespace veneer;

namespace {

constexpr std::uint64_t kMostImages = 4096;  // of one point; more are sampled
constexpr std::uint64_t kSample = 1000;

// Opens the store, which an interrupted Init may not have finished, and repairs it. What the store itself finds is I6 and more.
SimImage Recover(const Operation& operation, const SimImage& left, Ack ack, std::vector<std::string>& violations) {
  SimDisk disk(left);
  {
    auto store = OpenStore(disk);
    if (!store && store.error().code == Code::STORE_FORMAT && operation.expected.before.generation == 0 && ack != Ack::kDone)
      store = Store::Init(disk, kStore, {std::chrono::milliseconds(200), "test"});
    if (!store) {
      violations.push_back("recovery: the store does not open: " + store.error().Text());
      return disk.image();
    }
    const auto report = store->Fsck({true, true, {}});
    if (!report) violations.push_back("recovery: " + report.error().Text());
    if (report && report->problems_left()) violations.push_back("recovery leaves problems: " + Text(*report));
  }
  if (disk.open_descriptors() != 0) violations.push_back("recovery leaks descriptors");
  return disk.image();
}

// A second recovery finds nothing and writes nothing (I9).
void CheckRecoveredTwice(const SimImage& recovered, std::vector<std::string>& violations) {
  SimDisk disk(recovered);
  const auto report = Must(OpenStore(disk)).Fsck({false, true, {}});
  if (!report || !report->clean()) violations.push_back("I9: a second recovery finds " + (report ? Text(*report) : report.error().Text()));
  if (disk.image().Fingerprint() != recovered.Fingerprint()) violations.push_back("I9: a second recovery changes bytes");
}

void CheckDoneAgain(const Operation& operation, const SimImage& recovered, std::vector<std::string>& violations) {
  const auto facts = ReadFacts(recovered);
  const bool done = facts == operation.expected.after;
  if (operation.repeat == Repeat::kMayFail || (done && operation.repeat == Repeat::kGoesOn)) return;
  const auto wanted = operation.repeat == Repeat::kKeepsWhatIsThere ? facts : operation.expected.after;
  const Outcome again = RunOperation(operation, recovered, {});
  if (!again.status) violations.push_back("done again it fails: " + again.status.error().Text());
  if (ReadFacts(again.left) != wanted) violations.push_back("I3: done again it has not done its work, or has done more");
}

void Append(std::vector<std::string>& all, std::vector<std::string> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

Outcome RunOperation(const Operation& operation, const SimImage& before, const Arm& arm) {
  SimDisk disk(before);
  disk.unnamed_files = operation.unnamed_files;
  SimSys sys(disk);
  Outcome outcome;
  {
    const Running run = operation.start(sys);
    sys.Reset();
    if (arm) arm(sys, disk, outcome.ack);
    outcome.status = run(outcome.ack);
  }
  sys.before_call = {};
  if (outcome.status) outcome.ack = Ack::kDone;
  if (!outcome.status) outcome.ack = outcome.status.error().code == Code::DURABILITY_UNKNOWN ? Ack::kNone : Ack::kRefused;
  outcome.calls = sys.calls();
  outcome.trace = sys.trace();
  outcome.left = disk.image();
  outcome.leaked = disk.open_descriptors();
  return outcome;
}

const Outcome& GoldenRun(const Operation& operation) {
  static std::map<std::string, Outcome> runs;
  const auto found = runs.find(operation.name);
  if (found != runs.end()) return found->second;
  return runs.emplace(operation.name, RunOperation(operation, operation.before, {})).first->second;
}

std::vector<std::string> CheckStopped(const Operation& operation, const SimImage& left, Ack ack, Cases& cases) {
  std::vector<std::string> violations;
  const bool settled = operation.expected.before == operation.expected.after;
  if (!cases.IsNew(left.FullFingerprint(cases.ignored) * 8 + static_cast<std::uint64_t>(ack) * 2 + (settled ? 1 : 0))) return violations;
  ++cases.images;
  violations = CheckTruth(left, operation.expected, ack);
  const auto facts = ReadFacts(left);
  const SimImage recovered = Recover(operation, left, ack, violations);
  if (!facts) return violations;
  Append(violations, CheckTruth(recovered, operation.expected, ack));
  Append(violations, CheckRecovered(recovered));
  if (facts->generation > 0 && ReadFacts(recovered) != facts) violations.push_back("I2: recovery changes what is active");
  const std::string& damaged = operation.expected.damaged;
  const auto mended = damaged.empty() ? std::nullopt : recovered.Read(fmt::format("{}/blobs/sha256/{}", kStore, damaged));
  if (mended && Sha256::Of(*mended).Hex() != damaged) violations.push_back("I4: a bad blob outlives a repair");
  if (!violations.empty()) return violations;
  CheckRecoveredTwice(recovered, violations);
  CheckDoneAgain(operation, recovered, violations);
  return violations;
}

void ForEveryCut(const SimImage& now, const std::function<void(CutOrder, std::uint64_t, const std::string&)>& visit) {
  for (const CutOrder order : {CutOrder::kOrdered, CutOrder::kSubset}) {
    const std::uint64_t all = now.Cuts(order);
    if (order == CutOrder::kSubset && all == 1) return;  // the same one again
    const bool sampled = all > kMostImages;
    std::mt19937_64 random(Seed());
    for (std::uint64_t i = 0; i < (sampled ? kSample * Effort() : all); ++i) {
      const std::uint64_t choice = sampled ? random() % all : i;
      visit(order, choice, fmt::format("{} cut {} of {}", order == CutOrder::kOrdered ? "ordered" : "subset", choice, all));
    }
  }
}

void CheckEveryCut(const Operation& operation, const SimImage& now, Ack ack, Cases& cases, const std::function<std::string()>& where) {
  if (cases.Next()) cases.Report(CheckStopped(operation, now, ack, cases), [&] { return where() + ", killed"; });
  ForEveryCut(now, [&](CutOrder order, std::uint64_t choice, const std::string& name) {
    if (!cases.Next()) return;
    cases.Report(CheckStopped(operation, now.PowerCut(order, choice), ack, cases), [&] { return where() + ", " + name; });
  });
}
