// Choosing the active generation by hand, when nothing in the store says which one it is.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "core/store/recovery.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;
namespace fs = std::filesystem;

TEST_CASE("set-current: a damaged pointer is replaced by the chosen generation, under a new number, and the log says who chose") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  store.CopyTo(store.Aside("good"));
  const std::vector<std::function<void()>> damages{[&] { fs::remove(store.state()); }, [&] { WriteFile(store.state(), "garbage"); },
                                                   [&] { WriteFile(store.root() / "veneer/gen/3", "{}"); },
                                                   [&] {
                                                     fs::remove(store.state());
                                                     fs::create_symlink("/etc/hostname", store.state());
                                                   }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    CAPTURE(i);
    store.RestoreFrom(store.Aside("good"));
    damages[i]();
    REQUIRE(Must(store.Open().Fsck({false, true, {}})).problems_left());  // --repair does not choose
    const Activation done = Must(store.Open().SetCurrent(2, {}));
    CHECK(done.changed);
    CHECK(done.composition == store.a);
    CHECK(done.generation == 4);
    CHECK(store.Current().composition == store.a);
    const GenerationRecord record = Must(store.Open().ReadGeneration(4));
    CHECK(GenerationOpName(record.op) == "set-current");
    CHECK(record.ancestor == 1);  // as of generation 2: a rollback goes where that one would have gone
    const auto log = Must(store.Open().ReadLog());
    CHECK(log.back().type() == "commit");
    CHECK(log[log.size() - 2].Get("op") == "set-current");
    CHECK(log[log.size() - 2].Get("from") == "unknown");
    CHECK(Text(store.Fsck()) == "");  // the loss of a record is told by what was chosen after it
    CHECK(Must(store.Activate(store.b)).generation == 5);
    CHECK(Must(store.Rollback()).composition == store.a);
    CHECK(Must(store.Rollback()).composition == std::nullopt);
  }
}

TEST_CASE("set-current: a record that is lost once more, or changed after the choice, breaks the chain again") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  fs::remove(store.root() / "veneer/gen/3");
  Must(store.Open().SetCurrent(2, {}));
  CHECK(Text(store.Fsck()) == "");
  WriteFile(store.root() / "veneer/gen/3", "{}");  // not what the choice was made over
  CHECK(Text(store.Fsck()).find("E602 STATE_CORRUPT at=veneer/gen/3") != std::string::npos);
  fs::remove(store.root() / "veneer/gen/3");
  fs::remove(store.root() / "veneer/gen/2");
  CHECK(Text(store.Fsck()).find("E602 STATE_CORRUPT at=veneer/gen/2") != std::string::npos);
}

TEST_CASE("set-current: with a whole pointer it is E613 and points to rollback; nothing changes") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const std::string before = store.Snapshot();
  const Error error = store.Open().SetCurrent(1, {}).error();
  CHECK(error.code == Code::EXPECTED_CURRENT);
  CHECK(error.at == "veneer/state/CURRENT");
  CHECK(error.detail.find("veneer rollback --to") != std::string::npos);
  CHECK(store.Snapshot() == before);
}

TEST_CASE("set-current: every error about a lost pointer names it as the remedy") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const auto remedy = [&] { return store.Activate(store.b).error().detail.find("veneer fsck --set-current N") != std::string::npos; };
  const std::string good = ReadAll(store.state());
  WriteFile(store.state(), "");
  CHECK(remedy());
  fs::remove(store.state());
  CHECK(remedy());
  WriteFile(store.state(), good);
  fs::remove(store.root() / "veneer/gen/2");
  CHECK(remedy());
}

TEST_CASE("set-current: a generation that is not there, lost a file or fails validation is refused, and the pointer stays as it is") {
  StoreFixture store;
  Must(store.Activate(store.a));
  WriteFile(store.state(), "garbage");
  CHECK(store.Open().SetCurrent(9, {}).error().code == Code::NO_ROLLBACK_TARGET);
  const auto refuse = [](const OpenedComposition&) -> Status { return Fail(Code::TOKENIZER_MISMATCH, "/tokenizer_id", "no"); };
  CHECK(store.Open().SetCurrent(2, {.validate = refuse}).error().code == Code::TOKENIZER_MISMATCH);
  fs::remove(store.blob(kStyleBytes));
  CHECK(store.Open().SetCurrent(2, {}).error().code == Code::BLOB_MISSING);
  CHECK(ReadAll(store.state()) == "garbage");
  CHECK(Must(store.Open().SetCurrent(1, {})).composition == std::nullopt);
  CHECK(store.Open().OpenActive().error().code == Code::NO_ACTIVE);
}

TEST_CASE("set-current: the lost record of the active generation is no reason to refuse another one") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  fs::remove(store.root() / "veneer/gen/3");
  CHECK(store.Activate(store.a).error().code == Code::STATE_CORRUPT);
  const Activation chosen = Must(store.Open().SetCurrent(2, {}));
  CHECK(chosen.generation == 4);  // 3 stays taken
  CHECK(chosen.composition == store.a);
  CHECK(store.Activate(store.b));
}

TEST_CASE("set-current: under a log that knows a later generation than gen/ it is E612") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  fs::remove(store.root() / "veneer/gen/3");
  WriteFile(store.state(), "garbage");
  CHECK(store.Open().SetCurrent(2, {}).error().code == Code::GENERATION_REGRESSED);
}

TEST_CASE("set-current: killed at any call and made again, it ends in the chosen composition, with one end for each begin") {
  UseMemoryDisk();
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  WriteFile(store.state(), "garbage");
  store.CopyTo(store.Aside("golden"));
  for (std::uint64_t n = 1;; ++n) {
    store.RestoreFrom(store.Aside("golden"));
    const int status = RunKilledBefore(store, n, [](Store& handle) { return handle.SetCurrent(2, {}).has_value(); });
    INFO(fmt::format("killed before call {}", n));
    REQUIRE((status == 128 + SIGKILL || status == 0));
    const auto now = store.Open().ReadCurrent();
    if (!now) CHECK(Must(store.Open().SetCurrent(2, {})).composition == store.a);
    CHECK_FALSE(store.Fsck(true, true).problems_left());
    CHECK(Text(store.Fsck()) == "");
    CHECK(store.Current().composition == store.a);
    CHECK(store.Current().generation <= 5);
    if (status == 0) break;
  }
}

TEST_CASE(
    "set-current: an activation that was interrupted before the pointer was lost is given up in the log, and its number stays taken") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const int killed = RunInChild([&] {
    SimSys sys(store.posix);
    Store handle = Must(store.TryOpen(sys));
    (void)handle.Activate(store.b, std::nullopt, {.transitions = [](const Transition& t) {
                            if (t.state == ActivationState::kReady) kill(getpid(), SIGKILL);
                          }});
    return 0;
  });
  REQUIRE(killed == 128 + SIGKILL);
  WriteFile(store.state(), "garbage");
  CHECK(Must(store.Open().SetCurrent(2, {})).generation == 4);
  const auto log = Must(store.Open().ReadLog());
  CHECK(std::ranges::count_if(log, [](const AuditRecord& r) { return r.type() == "abort" && r.Get("code") == "CURRENT_LOST"; }) == 1);
  // Beside the pointer that was never renamed, and that the next writer removes, there is nothing to find.
  CHECK(store.Fsck(true, true).findings.size() == 1);
  CHECK(Text(store.Fsck()) == "");
}
