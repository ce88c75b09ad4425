// L6: two or three processes activate, roll back, import, read, check and collect garbage in one store at once, interleaved at their system
// calls by a seed; some are killed, and in some schedules the power fails. VENEER_FAULT_EFFORT multiplies the number of seeds.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tests/core/store/faults/harness.h"
#include "tests/core/store/faults/schedule.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

constexpr std::uint64_t kSeeds = 1200;
constexpr int kMostActions = 3;

// What the processes were told; touched by the one that has the baton.
struct Told {
  std::map<std::uint64_t, std::optional<Digest>> active;  // by generation: reported by an activation or seen by a reader
  std::map<std::string, std::string> refs;                // adapter names that are acknowledged
  std::vector<std::string> violations;
  std::uint64_t activations = 0, readings = 0, imports = 0, collections = 0;
  [[nodiscard]] std::uint64_t generation() const { return active.empty() ? 0 : active.rbegin()->first; }

  void Saw(const Current& current) {
    const auto [known, is_new] = active.try_emplace(current.generation, current.composition);
    if (!is_new && known->second != current.composition) violations.push_back("I2: one generation was seen with two compositions");
  }
};

// An error that two processes may get of each other; everything else is none of theirs.
bool MayFail(const Error& error, bool reader) {
  return error.code == Code::LOCKED || error.code == Code::NO_ROLLBACK_TARGET || (reader && error.code == Code::NO_ACTIVE);
}

class Actor {
 public:
  Actor(Schedule& schedule, Told& told, int id, int actions) : schedule_(schedule), told_(told), id_(id), actions_(actions) {}

  void Run(Sys& sys) {
    auto store = Store::Open(sys, kStore, {std::chrono::seconds(60), "test"});
    if (!store) return Failed("open", store.error(), false);
    for (int i = 0; i < actions_; ++i) Act(sys, *store, i);
  }

 private:
  void Failed(std::string_view what, const Error& error, bool reader) {
    if (schedule_.IsDead(id_) || MayFail(error, reader)) return;
    told_.violations.push_back(fmt::format("process {}: {}: {}", id_, what, error.Text()));
  }

  void Act(Sys& sys, Store& store, int turn) {
    const auto choice = schedule_.random()() % 10;
    const std::string name = fmt::format("p{}-{}", id_, turn);
    if (choice < 3)
      return Activated("activate", store.Activate(choice == 0 ? IdOfA() : choice == 1 ? IdOfB() : IdOfNone(), std::nullopt, {}));
    if (choice == 3) return Activated("rollback", store.Rollback(std::nullopt, {}));
    if (choice == 4) return Activated("deactivate", store.Deactivate({}));
    if (choice == 5) return Import(store, name);
    if (choice == 6) return Check(store);
    if (choice == 7) return Collect(store);
    Read(sys, store);
  }

  // What is named, active or retained is never among what goes: the others would say so.
  void Collect(Store& store) {
    const auto done = store.CollectGarbage({.grace = std::chrono::seconds(0)});
    if (!done) return Failed("gc", done.error(), false);
    if (!schedule_.IsDead(id_)) ++told_.collections;
  }

  void Activated(std::string_view what, const Result<Activation>& done) {
    if (!done) return Failed(what, done.error(), false);
    if (schedule_.IsDead(id_)) return;
    if (done->generation < told_.generation()) {
      told_.violations.push_back("I8: an activation got a generation below one that was reported");
    }
    told_.Saw({done->generation, done->composition, {}, {}});
    ++told_.activations;
  }

  // One blob that all processes share, and a name of its own.
  void Import(Store& store, const std::string& name) {
    const std::string bytes = "shared by all importers\n";
    const std::string record = fmt::format(R"({{"file":"{}"}})", Sha256::Of(bytes).Text());
    const auto blob = store.StageBytes(bytes);
    if (!blob) return Failed("stage", blob.error(), false);
    const auto done = store.Import({&*blob, 1}, Ref{RefKind::kAdapter, name, record});
    if (!done) return Failed("import", done.error(), false);
    if (schedule_.IsDead(id_)) return;
    told_.refs[name] = record;
    ++told_.imports;
  }

  void Check(Store& store) {
    const auto report = store.Fsck({});
    if (!report) return Failed("fsck", report.error(), false);
    if (!schedule_.IsDead(id_) && !report->clean() && !killed_one) told_.violations.push_back("fsck: " + Text(*report));
  }

  // What is adopted is durable, is no older than what was acknowledged before, and holds the right bytes.
  void Read(Sys& sys, Store& store) {
    const std::uint64_t floor = told_.generation();
    const auto active = store.OpenActive();
    if (!active) return Failed("read", active.error(), true);
    if (schedule_.IsDead(id_)) return;
    if (active->current.generation < floor) told_.violations.push_back("I3: a reader adopts less than was acknowledged");
    told_.Saw(active->current);
    ++told_.readings;
    for (const OpenedBlob& blob : active->opened.blobs) {
      std::string bytes(blob.size, '\0');
      const auto got = sys.Pread(blob.fd.get(), std::as_writable_bytes(std::span(bytes)), 0);
      if (!schedule_.IsDead(id_) && (!got || Sha256::Of(bytes) != blob.digest)) told_.violations.push_back("I4: a reader gets other bytes");
    }
  }

 public:
  bool killed_one = false;  // somebody left a transaction open

 private:
  Schedule& schedule_;
  Told& told_;
  int id_, actions_;
};

enum class Ending { kOrderly, kOneKilled, kPowerCut };

// What is left must agree with what was told, recover, and be whole.
std::vector<std::string> CheckEnd(const SimImage& left, const Told& told, Cases& cases) {
  std::vector<std::string> violations = told.violations;
  const auto facts = ReadFacts(left);
  if (!facts) return {"I1: CURRENT is not whole"};
  Operation end = FindOperation("recovery");
  end.expected = {*facts, *facts};
  end.repeat = Repeat::kMayFail;
  for (std::string& violation : CheckStopped(end, left, Ack::kNone, cases)) violations.push_back(std::move(violation));
  if (facts->generation < told.generation()) violations.push_back("I3: an acknowledged activation is lost");
  const auto known = told.active.find(facts->generation);
  if (known != told.active.end() && known->second != facts->composition)
    violations.push_back("I3: another composition than acknowledged is active");
  for (const auto& [name, record] : told.refs) {
    const auto ref = left.Read(fmt::format("{}/veneer/refs/adapter/{}", kStore, name));
    if (!ref || ref->find(record) == std::string::npos) violations.push_back("I3: an acknowledged name is lost");
  }
  return violations;
}

struct Sums {
  std::uint64_t activations = 0, readings = 0, imports = 0, collections = 0, calls = 0, cuts = 0;
};

// With a name for each composition that the processes activate, so that none of them is garbage.
SimImage NamedStore() {
  SimDisk disk(UsedStore());
  {
    Store store = Must(OpenStore(disk));
    for (const auto& [name, id] : {std::pair("a", IdOfA()), std::pair("b", IdOfB()), std::pair("none", IdOfNone())})
      Must(store.PutRef({RefKind::kComposition, name, fmt::format(R"({{"composition":"{}"}})", id.Text())}));
  }
  return disk.image();
}

void RunSchedule(std::uint64_t seed, Ending ending, const SimImage& before, Cases& cases, Sums& sums) {
  SimDisk disk(before);
  Schedule schedule(disk, seed);
  Told told;
  told.active[4] = IdOfA();
  const int count = 2 + static_cast<int>(seed % 2);
  std::vector<std::unique_ptr<Actor>> actors;
  for (int id = 0; id < count; ++id) {
    actors.push_back(std::make_unique<Actor>(schedule, told, id, 1 + static_cast<int>(schedule.random()() % kMostActions)));
    schedule.Add([actor = actors.back().get()](Sys& sys) { actor->Run(sys); });
  }
  const std::uint64_t stop_at = 1 + schedule.random()() % (350 * static_cast<std::uint64_t>(count));
  std::vector<std::pair<std::string, SimImage>> left;
  schedule.at_call = [&](int process, const std::string&) {
    if (schedule.trace().size() != stop_at || ending == Ending::kOrderly) return;
    if (ending == Ending::kOneKilled) {
      for (const auto& actor : actors) actor->killed_one = true;
      return schedule.Kill(process);
    }
    constexpr int kCuts = 6;
    for (int i = 0; i < kCuts; ++i) {
      const CutOrder order = i % 2 == 0 ? CutOrder::kOrdered : CutOrder::kSubset;
      const std::uint64_t choice = schedule.random()() % disk.image().Cuts(order);
      left.emplace_back(fmt::format("{} cut {}", order == CutOrder::kOrdered ? "ordered" : "subset", choice),
                        disk.image().PowerCut(order, choice));
    }
    schedule.CutPower();
  };
  schedule.Run();
  if (left.empty()) left.emplace_back("the end", disk.image());
  if (disk.open_descriptors() != 0) told.violations.emplace_back("descriptors leak");
  for (const auto& [name, image] : left) {
    cases.Report(CheckEnd(image, told, cases), [&] {
      std::string text =
          fmt::format("{} processes, seed {}, stopped before call {} of {}, {}", count, seed, stop_at, schedule.trace().size(), name);
      if (cases.replaying())
        for (const std::string& line : schedule.trace()) text += "\n    " + line;
      return text;
    });
  }
  sums.activations += told.activations;
  sums.readings += told.readings;
  sums.imports += told.imports;
  sums.collections += told.collections;
  sums.calls += schedule.trace().size();
  sums.cuts += left.size();
}

void RunSeeds(const std::string& name, Ending ending) {
  const SimImage before = NamedStore();
  Cases cases("L6 " + name);
  Sums sums;
  for (std::uint64_t i = 0; i < kSeeds * Effort() / 3; ++i)
    if (cases.Next()) RunSchedule(Seed() * 1'000'003 + i, ending, before, cases, sums);
  if (cases.replaying()) return;
  fmt::print("L6 {}: {} calls, {} activations, {} readings, {} imports and {} collections acknowledged, {} disks\n", name, sums.calls,
             sums.activations, sums.readings, sums.imports, sums.collections, sums.cuts);
  CHECK(sums.activations > cases.ran() / 4);
  CHECK(sums.readings > cases.ran() / 8);
  CHECK(sums.imports > cases.ran() / 16);
  CHECK(sums.collections > cases.ran() / 16);
}

}  // namespace

TEST_CASE("L6: processes that share a store see one history, whatever the order of their system calls") {
  RunSeeds("all end", Ending::kOrderly);
}
TEST_CASE("L6: a process that is killed at any call harms none of the others") { RunSeeds("one is killed", Ending::kOneKilled); }
TEST_CASE("L6: a power cut among several processes loses nothing that any of them was told") {
  RunSeeds("the power fails", Ending::kPowerCut);
}
