// Faults at every system call: what a crash or a failing call leaves is the old or the new composition, and nothing else.
#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <set>

#include "core/store/recovery.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

constexpr int kKilled = 128 + SIGKILL;

// How many calls an activation of `to` makes in a store as it is.
std::uint64_t CountCalls(StoreFixture& store, const Digest& to) {
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  Must(handle.Activate(to, std::nullopt, {}));
  return sys.calls();
}

// With faults off: recovers, then the store has no fault and recovery has nothing left to do.
void CheckRecovers(StoreFixture& store) {
  const FsckReport repaired = store.Fsck(true, true);
  CHECK_FALSE(repaired.problems_left());
  if (repaired.problems_left()) UNSCOPED_INFO(Text(repaired));
  CHECK(Text(store.Fsck(true)) == "");
  const std::string once = store.Snapshot();
  store.Fsck(false, true);
  CHECK(store.Snapshot() == once);  // I9
  CHECK(std::filesystem::is_empty(store.root() / "veneer/staging"));
}

// Every call of an activation A -> B fails with `error`: once, or from there on.
void FailEveryCall(int error, bool once) {
  UseMemoryDisk();
  StoreFixture store;
  Must(store.Activate(store.a));
  store.CopyTo(store.Aside("golden"));
  const std::uint64_t calls = CountCalls(store, store.b);
  REQUIRE(calls > 40);
  std::set<Code> codes;
  for (std::uint64_t n = 1; n <= calls; ++n) {
    store.RestoreFrom(store.Aside("golden"));
    SimSys sys(store.posix);
    Result<Activation> result = Fail(Code::INTERNAL, "", "");
    {
      Store handle = Must(store.TryOpen(sys));
      sys.Reset();
      sys.FailAt(n, error, once);
      result = handle.Activate(store.b, std::nullopt, {});
    }
    INFO(fmt::format("call {} of {}: {} -> {}", n, calls, sys.trace().size() >= n ? sys.trace()[n - 1] : "-",
                     result ? "success" : result.error().Text()));
    const Current now = store.Current();
    if (result) {
      CHECK(now.composition == store.b);
    } else {
      codes.insert(result.error().code);
      if (result.error().code != Code::DURABILITY_UNKNOWN) CHECK(now.composition == store.a);  // I3
    }
    CHECK((now.composition == store.a || now.composition == store.b));
    CheckRecovers(store);
    CHECK(store.Current() == now);
    const auto retry = store.Activate(store.b);
    REQUIRE(retry);
    CHECK(retry->generation == 3);  // at most one new generation, whatever happened
  }
  CHECK(codes.contains(Code::DURABILITY_UNKNOWN));
}

}  // namespace

TEST_CASE("crash: EIO at any one call of an activation leaves the old or the new composition, and recovery mends the rest") {
  FailEveryCall(EIO, true);
}

TEST_CASE("crash: EIO at any call of an activation and at all later ones leaves the old or the new composition") {
  FailEveryCall(EIO, false);
}

TEST_CASE("crash: a full disk at any call of an activation leaves the old or the new composition, and the next try works") {
  FailEveryCall(ENOSPC, true);
}

TEST_CASE("crash: interrupted calls and short writes everywhere are no failure") {
  StoreFixture store;
  SimSys sys(store.posix);
  sys.interrupt_everything = true;
  Store handle = Must(store.TryOpen(sys));
  Must(handle.Activate(store.a, std::nullopt, {}));
  Must(handle.PutBlob(std::string(1000, 'x')));
  CHECK(Text(store.Fsck()) == "");
  CHECK(Must(handle.OpenActive()).opened.id == store.a);
}

TEST_CASE("crash: SIGKILL before any call of an activation leaves the old or the new composition, and recovery ends the transaction") {
  UseMemoryDisk();
  StoreFixture store;
  Must(store.Activate(store.a));
  store.CopyTo(store.Aside("golden"));
  const std::uint64_t calls = CountCalls(store, store.b);
  bool old_seen = false, new_seen = false;
  for (std::uint64_t n = 1; n <= calls; ++n) {
    store.RestoreFrom(store.Aside("golden"));
    const int status = RunInChild([&] {
      SimSys sys(store.posix);
      Store handle = Must(store.TryOpen(sys));
      sys.Reset();
      sys.KillBefore(n);
      return handle.Activate(store.b, std::nullopt, {}) ? 0 : 1;
    });
    REQUIRE(status == kKilled);
    INFO(fmt::format("killed before call {} of {}", n, calls));
    const Current now = store.Current();
    old_seen |= now.composition == store.a;
    new_seen |= now.composition == store.b;
    CHECK((now.composition == store.a || now.composition == store.b));
    CheckRecovers(store);
    CHECK(store.Current() == now);
    CHECK(Must(store.Activate(store.b)).generation == 3);
    CHECK(Must(store.Rollback()).composition == store.a);
  }
  CHECK(old_seen);
  CHECK(new_seen);
}

TEST_CASE("crash: a recovery that is killed at any call is finished by the next one") {
  UseMemoryDisk();
  StoreFixture store;
  Must(store.Activate(store.a));
  store.CopyTo(store.Aside("golden"));
  // One way into each kind of leftover: begin only, a record, a pointer beside, the rename, a torn end of the log.
  for (const std::string line :
       {"open veneer/staging/(unnamed)", "fsync veneer/gen", "rename veneer/state/CURRENT", "fsync veneer/state", "torn"}) {
    store.RestoreFrom(store.Aside("golden"));
    const int broken = RunInChild([&] {
      SimSys sys(store.posix);
      Store handle = Must(store.TryOpen(sys));
      sys.Reset();
      sys.FailOn(line == "torn" ? "fsync veneer/state" : line, EIO);
      (void)handle.Activate(store.b, std::nullopt, {.transitions = [](const Transition& t) {
                              if (t.state == ActivationState::kAborted) kill(getpid(), SIGKILL);  // before anything is undone
                            }});
      return 0;
    });
    REQUIRE((broken == kKilled || broken == 0));
    const auto segment = store.root() / "veneer/audit/seg-1";
    if (line == "torn") WriteFile(segment, ReadAll(segment) + "0123 deadbeef {\"torn");
    store.CopyTo(store.Aside("left"));
    const Current left = store.Current();
    std::uint64_t n = 1;
    for (;; ++n) {
      store.RestoreFrom(store.Aside("left"));
      const int status = RunInChild([&] {
        SimSys sys(store.posix);
        Store handle = Must(store.TryOpen(sys));
        sys.Reset();
        sys.KillBefore(n);
        return handle.Fsck({false, true, {}}) ? 0 : 1;
      });
      INFO(fmt::format("{}: recovery killed before call {}", line, n));
      REQUIRE((status == kKilled || status == 0));
      CHECK(store.Current() == left);
      CheckRecovers(store);
      if (status == 0) break;
    }
    CHECK(n > 20);
  }
}

TEST_CASE("crash: an import that is killed at any call leaves no partial blob, and can be repeated") {
  UseMemoryDisk();
  StoreFixture store;
  store.CopyTo(store.Aside("golden"));
  const std::string bytes(3000, 'i');
  const Ref ref{RefKind::kAdapter, "new", fmt::format(R"({{"file":"{}"}})", Sha256::Of(bytes).Text())};
  for (const bool unnamed : {true, false}) {
    for (std::uint64_t n = 1;; ++n) {
      store.RestoreFrom(store.Aside("golden"));
      const int status = RunInChild([&] {
        SimSys sys(store.posix);
        sys.unnamed_files = unnamed;
        Store handle = Must(store.TryOpen(sys));
        sys.Reset();
        sys.KillBefore(n);
        const StagedBlob blob = Must(handle.StageBytes(bytes));
        return handle.Import({&blob, 1}, ref) ? 0 : 1;
      });
      INFO(fmt::format("import killed before call {}", n));
      REQUIRE((status == kKilled || status == 0));
      if (std::filesystem::exists(store.blob(bytes))) CHECK(ReadAll(store.blob(bytes)) == bytes);
      CheckRecovers(store);
      Store handle = store.Open();
      const StagedBlob blob = Must(handle.StageBytes(bytes));
      CHECK(handle.Import({&blob, 1}, ref));
      CHECK(Must(handle.GetRef(RefKind::kAdapter, "new")) == ref);
      if (status == 0) {
        CHECK(n > 30);
        break;
      }
    }
  }
}

TEST_CASE("crash: an init that is killed at any call is completed by the next one") {
  UseMemoryDisk();
  const TempDir dir;
  const std::string path = (dir.path() / "store").string();
  for (std::uint64_t n = 1;; ++n) {
    std::filesystem::remove_all(path);
    const int status = RunInChild([&] {
      PosixSys posix;
      SimSys sys(posix);
      sys.KillBefore(n);
      return Store::Init(sys, path) ? 0 : 1;
    });
    INFO(fmt::format("init killed before call {}", n));
    REQUIRE((status == kKilled || status == 0));
    PosixSys posix;
    if (!Store::Open(posix, path)) REQUIRE(Store::Init(posix, path));
    Store store = Must(Store::Open(posix, path));
    CHECK(Must(store.ReadCurrent()).generation == 1);
    CHECK(Text(Must(store.Fsck({true, false, {}}))) == "");
    if (status == 0) {
      CHECK(n > 50);
      break;
    }
  }
}
