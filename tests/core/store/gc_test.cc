#include "core/store/gc.h"

#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;
namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kDay = std::chrono::hours(24);
constexpr GcOptions kNow{.grace = std::chrono::seconds(0)};

std::set<std::string> Names(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}
// Digests in trash/, without the times.
std::set<std::string> Trashed(const StoreFixture& store) {
  std::set<std::string> digests;
  for (const std::string& name : Names(store.root() / "veneer/trash")) digests.insert(name.substr(0, 64));
  return digests;
}
std::string Hex(const std::string& bytes) { return Sha256::Of(bytes).Hex(); }
bool Has(const StoreFixture& store, const std::string& bytes) { return fs::exists(store.blob(bytes)); }

GcReport Collect(StoreFixture& store, const GcOptions& options = {}) { return Must(store.Open().CollectGarbage(options)); }
GcReport CollectLater(StoreFixture& store, std::chrono::nanoseconds later, const GcOptions& options = {}) {
  SimSys sys(store.posix);
  sys.wall_clock_offset_ns = later.count();
  return Must(Must(store.TryOpen(sys)).CollectGarbage(options));
}

// What the composition with the adapter safety needs and the one with style does not.
const std::set<std::string> kOnlySafety{Hex(kSafetyBytes), Hex(kConfigBytes), Hex(CompositionText({"safety"}))};

}  // namespace

TEST_CASE("gc: in a new store nothing is needed; with one composition active, its base, tokenizer, adapter and own bytes stay") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const GcReport report = Collect(store);
  CHECK(report.live == 4);
  CHECK(report.moved == 4);
  CHECK(report.moved_bytes == kSafetyBytes.size() + kConfigBytes.size() + CompositionText({"safety"}).size() + CompositionText({}).size());
  CHECK(report.deleted == 0);
  CHECK(report.in_trash == 4);
  CHECK(report.in_trash_bytes == report.moved_bytes);
  CHECK(Names(store.root() / "blobs/sha256") ==
        std::set{Hex(kBaseBytes), Hex(kTokenizerBytes), Hex(kStyleBytes), Hex(CompositionText({"style"}))});
  CHECK(Text(store.Fsck()) == "");
  CHECK(Must(store.Open().OpenActive(VerifyMode::kFull)).opened.id == store.a);
}

TEST_CASE("gc: the three generations before the current one keep their files, and the one before those loses them") {
  StoreFixture store;
  Must(store.Activate(store.b));                                                     // 2
  for (const Digest& id : {store.a, store.none, store.a}) Must(store.Activate(id));  // 3, 4, 5
  CHECK(Collect(store).moved == 0);
  Must(store.Activate(store.none));  // 6: 3 is the oldest that is retained
  CHECK(Collect(store).moved == 3);
  CHECK(Trashed(store) == kOnlySafety);
  CHECK(store.Open().Rollback(2, {}).error().code == Code::BLOB_MISSING);
  CHECK(Must(store.Open().Rollback(3, {})).composition == store.a);
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("gc: what the next rollbacks lead to stays, however far back that generation is") {
  StoreFixture store;
  Must(store.Activate(store.b));                                                     // 2
  for (const Digest& id : {store.a, store.none, store.a}) Must(store.Activate(id));  // 3, 4, 5
  for (int step = 0; step < 2; ++step) Must(store.Rollback());                       // 6: none, 7: a with ancestor 2
  Must(store.Open().Rollback(4, {}));                                                // 8: none with ancestor 3
  CHECK(store.Current().generation == 8);
  CHECK(Collect(store, kNow).moved == 0);
  CHECK(Must(store.Rollback()).composition == store.a);  // 9 with ancestor 2
  CHECK(Collect(store, kNow).moved == 0);
  CHECK(Must(store.Rollback()).composition == store.b);  // 2 is seven generations before the current one
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("gc: a rollback target that lost a file is found by fsck, as old as it is") {
  StoreFixture store;
  Must(store.Activate(store.b));
  for (const Digest& id : {store.a, store.none, store.a}) Must(store.Activate(id));
  for (int step = 0; step < 2; ++step) Must(store.Rollback());  // 7: a, ancestor 2
  fs::remove(store.blob(kSafetyBytes));
  CHECK(store.Fsck(false).problems_left());
}

TEST_CASE("gc: names keep what they name: files of an adapter, all files of a composition, and its statement") {
  StoreFixture store;
  Store handle = store.Open();
  const Digest evidence = Must(handle.PutBlob("what the statement points to"));
  const Digest statement = Must(handle.PutBlob(fmt::format(R"({{"x_evidence":"{}"}})", evidence.Text())));
  REQUIRE(handle.PutRef({RefKind::kAdapter, "one", fmt::format(R"({{"file":"{}"}})", Sha256::Of(kStyleBytes).Text())}));
  REQUIRE(handle.PutRef(
      {RefKind::kComposition, "mine", fmt::format(R"({{"composition":"{}","statement":"{}"}})", store.b.Text(), statement.Text())}));
  Collect(store, kNow);
  for (const std::string& bytes : {kStyleBytes, kBaseBytes, kTokenizerBytes, kSafetyBytes, kConfigBytes, CompositionText({"safety"})})
    CHECK(Has(store, bytes));
  CHECK(fs::exists(store.blob(statement)));
  CHECK(fs::exists(store.blob(evidence)));
  CHECK_FALSE(Has(store, CompositionText({"style"})));
  std::vector<std::string> warnings;
  REQUIRE(Must(handle.RemoveRef(RefKind::kComposition, "mine", warnings)));
  CHECK(Collect(store, kNow).live == 1);
  CHECK(Has(store, kStyleBytes));
}

TEST_CASE("gc: the statement of a retained generation stays") {
  StoreFixture store;
  const Digest statement = Must(store.Open().PutBlob("{}"));
  Must(store.Open().Activate(store.a, statement, {}));
  Collect(store, kNow);
  CHECK(fs::exists(store.blob(statement)));
}

TEST_CASE("gc: a generation that is kept has a name and its files, and rollback finds them; released, they go") {
  StoreFixture store;
  Must(store.Activate(store.b));
  for (const Digest& id : {store.a, store.none, store.a, store.none}) Must(store.Activate(id));
  Store handle = store.Open();
  std::vector<std::string> warnings;
  REQUIRE(handle.KeepGeneration(2, warnings));
  CHECK(Must(handle.GetRef(RefKind::kComposition, "kept-2")).record ==
        fmt::format(R"({{"composition":"{}","generation":2}})", store.b.Text()));
  CHECK(Collect(store, kNow).moved == 0);
  CHECK(Must(handle.Rollback(2, {})).composition == store.b);
  for (const Digest& id : {store.a, store.none, store.a, store.none}) Must(store.Activate(id));
  CHECK(Collect(store, kNow).moved == 0);
  CHECK(Must(handle.ReleaseGeneration(2, warnings)));
  CHECK_FALSE(Must(handle.ReleaseGeneration(2, warnings)));
  CHECK(Collect(store, kNow).moved == 3);
  CHECK(warnings.empty());
  CHECK(handle.KeepGeneration(2, warnings).error().code == Code::BLOB_MISSING);
  CHECK(handle.KeepGeneration(1, warnings).error().code == Code::NO_ACTIVE);
  CHECK(handle.KeepGeneration(99, warnings).error().code == Code::NO_ROLLBACK_TARGET);
  REQUIRE(handle.PutRef({RefKind::kComposition, "kept-3", fmt::format(R"({{"composition":"{}"}})", store.a.Text())}));
  CHECK(handle.KeepGeneration(3, warnings).error().code == Code::NAME_DUPLICATE);
  CHECK_FALSE(Must(handle.ReleaseGeneration(3, warnings)));
  CHECK(handle.GetRef(RefKind::kComposition, "kept-3"));
}

TEST_CASE("gc: trash is deleted after the grace period and not before, and at once when there is none") {
  StoreFixture store;
  Must(store.Activate(store.a));
  CHECK(Collect(store).in_trash == 4);
  CHECK(CollectLater(store, kDay - std::chrono::seconds(5)).deleted == 0);
  CHECK(Trashed(store).size() == 4);
  CHECK(CollectLater(store, -kDay).deleted == 0);  // the clock was set back
  const GcReport late = CollectLater(store, kDay + std::chrono::seconds(5));
  CHECK(late.deleted == 4);
  CHECK(late.in_trash == 0);
  CHECK(Trashed(store).empty());
  Must(store.Open().PutBlob("unused"));
  const GcReport now = Collect(store, kNow);
  CHECK(now.moved == 1);
  CHECK(now.deleted == 1);
  CHECK(now.deleted_bytes == 6);
  CHECK(Trashed(store).empty());
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("gc: an open blob stays readable after it was moved and after it was deleted") {
  StoreFixture store;
  const OpenedBlob blob = Must(store.Open().OpenBlob(Sha256::Of(kSafetyBytes)));
  Must(store.Activate(store.a));
  Collect(store);
  CHECK(Must(ReadAll(store.posix, blob.fd, 100, "")) == kSafetyBytes);
  Collect(store, kNow);
  CHECK(Trashed(store).empty());
  CHECK(Must(ReadAll(store.posix, blob.fd, 100, "")) == kSafetyBytes);
  CHECK(store.Open().OpenBlob(Sha256::Of(kSafetyBytes)).error().code == Code::BLOB_MISSING);
}

TEST_CASE("gc: a blob in trash/ can be imported again, and its next way into trash/ is like the first") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Collect(store);
  Store handle = store.Open();
  const StagedBlob blob = Must(handle.StageBytes(kSafetyBytes));
  CHECK(Must(handle.Import({&blob, 1})).added.size() == 1);
  CHECK(Has(store, kSafetyBytes));
  CHECK(Trashed(store).size() == 4);
  CHECK(Text(store.Fsck()) == "");
  CHECK(CollectLater(store, std::chrono::seconds(3)).moved == 1);
  CHECK(Names(store.root() / "veneer/trash").size() == 5);
  CHECK(Collect(store, kNow).deleted == 5);
}

TEST_CASE("gc: stamps of moved blobs go, those of the rest stay") {
  StoreFixture store;
  SimSys sys(store.posix);
  sys.wall_clock_offset_ns = 10'000'000'000;  // stamps need files that are 2 s old
  Store handle = Must(store.TryOpen(sys));
  Must(handle.OpenComposition(store.b, VerifyMode::kFull));
  Must(handle.Activate(store.a, std::nullopt, {.verify = VerifyMode::kFull}));
  const fs::path stamps = store.root() / "veneer/verified";
  REQUIRE(Names(stamps).contains(Hex(kSafetyBytes)));
  Must(handle.CollectGarbage({}));
  CHECK_FALSE(Names(stamps).contains(Hex(kSafetyBytes)));
  CHECK(Names(stamps).contains(Hex(kStyleBytes)));
}

TEST_CASE("gc: what it did is in the log, and the view of the store is made again") {
  StoreFixture store;
  Must(store.Activate(store.a));
  WriteFile(store.root() / "index.json", "{");
  const GcReport report = Collect(store);
  CHECK(report.warnings.empty());
  const auto log = Must(store.Open().ReadLog());
  CHECK(log.back().type() == "gc");
  CHECK(log.back().Number("live") == 4);
  CHECK(log.back().Number("moved") == 4);
  CHECK(log.back().Number("moved_bytes") == report.moved_bytes);
  CHECK(log.back().Number("grace_s") == 86400);
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("gc: while a reader holds its lock nothing is moved: E601 with the remedy; afterwards it works") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const std::string before = store.Snapshot();
  {
    const UniqueFd root = *store.posix.OpenRoot((store.root() / "veneer").string());
    const UniqueFd lock = *store.posix.Open(root.get(), "lock", OpenMode::kReadWrite, 0);
    REQUIRE(*store.posix.TryLock(lock.get(), 1, LockKind::kShared));
    const Error error = store.Open().CollectGarbage({}).error();
    CHECK(error.code == Code::LOCKED);
    CHECK(error.at == "veneer/lock");
    CHECK(error.detail.find("a reader") != std::string::npos);
    CHECK(error.detail.find("try again") != std::string::npos);
    CHECK(store.Snapshot() == before);
  }
  CHECK(Collect(store).moved == 4);
}

TEST_CASE("gc: what cannot be read could need anything, so nothing is moved: name, record, composition") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  REQUIRE(store.Open().PutRef({RefKind::kAdapter, "one", "{}"}));
  store.CopyTo(store.Aside("good"));
  const auto refused = [&] {
    const std::string before = store.Snapshot();
    const Code code = store.Open().CollectGarbage(kNow).error().code;
    CHECK(store.Snapshot() == before);
    store.RestoreFrom(store.Aside("good"));
    return code;
  };
  WriteFile(store.root() / "veneer/refs/adapter/one", "veneer-ref 1\n{}\ncrc 00000000\n");
  CHECK(refused() == Code::STATE_CORRUPT);
  WriteFile(store.root() / "veneer/gen/2", "{}");
  CHECK(refused() == Code::STATE_CORRUPT);
  fs::remove(store.blob(store.a));
  CHECK(refused() == Code::BLOB_MISSING);
  WriteFile(store.blob(store.a), "{}");
  fs::permissions(store.blob(store.a), fs::perms::owner_write, fs::perm_options::remove);
  CHECK(refused() == Code::HASH_MISMATCH);
  WriteFile(store.state(), "");
  CHECK(refused() == Code::STATE_CORRUPT);
}

TEST_CASE("gc: foreign names among the blobs and in trash/ are left alone, and fsck says them") {
  StoreFixture store;
  Must(store.Activate(store.a));
  WriteFile(store.root() / "blobs/sha256/readme.txt", "hello");
  const std::string link = std::string(64, 'a');
  fs::create_symlink("/etc/hostname", store.root() / "blobs/sha256" / link);
  WriteFile(store.root() / "veneer/trash/mine", "hello");
  Collect(store, kNow);
  CHECK(Names(store.root() / "blobs/sha256").contains("readme.txt"));
  CHECK(Names(store.root() / "blobs/sha256").contains(link));
  const std::string said = Text(store.Fsck(false));
  CHECK(said.find("at=blobs/sha256/readme.txt") != std::string::npos);
  CHECK(said.find("E602 STATE_CORRUPT at=veneer/trash/mine") != std::string::npos);
}

TEST_CASE("gc: names in trash/ are a digest and a time and nothing else") {
  const std::string hex(64, 'a');
  CHECK(TrashTime(hex + ".0") == 0);
  CHECK(TrashTime(hex + ".1764512345") == 1764512345);
  for (const std::string& name :
       std::vector<std::string>{hex, hex + ".", hex + ".01", hex + ".-1", hex + ".1x", hex + ".99999999999999999999", "a.1",
                                std::string(64, 'A') + ".1", hex.substr(1) + ".1", hex + "a.1"})
    CHECK(TrashTime(name) == std::nullopt);
}

TEST_CASE("gc: killed at any call, it leaves no needed blob missing, and the next collection ends what it began") {
  UseMemoryDisk();
  StoreFixture store;
  Must(store.Activate(store.b));
  Must(store.Activate(store.a));
  Must(store.Open().PutBlob("unused"));
  store.CopyTo(store.Aside("golden"));
  bool moved_seen = false, deleted_seen = false;
  for (std::uint64_t n = 1;; ++n) {
    store.RestoreFrom(store.Aside("golden"));
    const int status = RunKilledBefore(store, n, [](Store& handle) { return handle.CollectGarbage(kNow).has_value(); });
    INFO(fmt::format("killed before call {}", n));
    REQUIRE((status == 137 || status == 0));
    const bool there = Has(store, "unused") || Has(store, CompositionText({}));
    moved_seen |= Trashed(store).size() == 2;
    deleted_seen |= status == 137 && !there && Trashed(store).size() == 1;
    CHECK(Text(store.Fsck()) == "");  // nothing that gc leaves is a fault
    CHECK(Must(store.Open().OpenActive(VerifyMode::kFull)).opened.id == store.a);
    Collect(store, kNow);
    CHECK_FALSE(Has(store, "unused"));
    CHECK(Trashed(store).empty());
    CHECK(Must(store.Rollback()).composition == store.b);
    CHECK(Text(store.Fsck()) == "");
    if (status == 0) break;
  }
  CHECK(moved_seen);
  CHECK(deleted_seen);
}

TEST_CASE("gc: a failing call anywhere leaves every needed blob in its place") {
  UseMemoryDisk();
  StoreFixture store;
  Must(store.Activate(store.a));
  store.CopyTo(store.Aside("golden"));
  for (const int error : {EIO, ENOSPC}) {
    for (std::uint64_t n = 1;; ++n) {
      store.RestoreFrom(store.Aside("golden"));
      SimSys sys(store.posix);
      {
        Store handle = Must(store.TryOpen(sys));
        sys.Reset();
        sys.FailAt(n, error);
        (void)handle.CollectGarbage(kNow);
      }
      INFO(fmt::format("call {} failed: {}", n, sys.trace().size() >= n ? sys.trace()[n - 1] : "-"));
      CHECK_FALSE(store.Fsck(true, true).problems_left());
      CHECK(Must(store.Open().OpenActive(VerifyMode::kFull)).opened.id == store.a);
      if (n > sys.calls()) break;
    }
  }
}

TEST_CASE("gc: on a disk with no room for a record it still frees what nothing needs, an interrupted activation in the way or not") {
  for (const bool interrupted : {false, true}) {
    StoreFixture store;
    Must(store.Activate(store.a));
    if (interrupted) {
      const int killed = RunInChild([&] {
        SimSys sys(store.posix);
        Store handle = Must(store.TryOpen(sys));
        sys.Reset();
        (void)handle.Activate(store.b, std::nullopt, {.transitions = [](const Transition& t) {
                                if (t.state == ActivationState::kReady) kill(getpid(), SIGKILL);
                              }});
        return 0;
      });
      REQUIRE(killed == 137);
    }
    SimSys sys(store.posix);
    Store handle = Must(store.TryOpen(sys));
    sys.full_until_unlinked = "veneer/trash/";
    const auto waiting = handle.CollectGarbage({});
    if (interrupted) CHECK(waiting.error().code == Code::DISK_FULL);
    if (interrupted) CHECK(waiting.error().detail.find("veneer gc --now") != std::string::npos);
    sys.full_until_unlinked = "veneer/trash/";
    const GcReport report = Must(handle.CollectGarbage(kNow));
    CHECK(report.deleted == 4);
    CHECK(Must(store.Open().Deactivate({})).composition == std::nullopt);
    CHECK(Text(store.Fsck()) == "");
  }
}

TEST_CASE("gc: with readers, importers and activations at work beside it, nobody misses a blob") {
  UseMemoryDisk();
  StoreFixture store;
  Must(store.Activate(store.a));
  REQUIRE(store.Open().PutRef({RefKind::kComposition, "b", fmt::format(R"({{"composition":"{}"}})", store.b.Text())}));
  std::uint64_t collections = 0, moved = 0;
  // A second at least, and on a slow machine until there was something to see.
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&begin](int seconds) { return std::chrono::steady_clock::now() - begin > std::chrono::seconds(seconds); };
  // All children first: one that is forked while the collector holds a lock would hold it too.
  std::vector<pid_t> children;
  const auto start = [&](const std::function<Status(Store&)>& once) {
    children.push_back(StartChild([&] {
      PosixSys sys;
      Store handle = Must(Store::Open(sys, store.root().string(), {std::chrono::seconds(20), "test"}));
      while (!fs::exists(store.Aside("stop")) && !is_late(120)) {
        if (const Status status = once(handle); !status) {
          WriteFile(store.Aside("error"), status.error().Text());
          return 1;
        }
        sys.SleepMs(3);
      }
      return 0;
    }));
  };
  start([](Store& handle) -> Status {
    VENEER_TRY(handle.OpenActive(VerifyMode::kFull));
    return {};
  });
  // The same file again and again, found or added by the transaction that names it.
  start([](Store& handle) -> Status {
    VENEER_ASSIGN(const StagedBlob blob, handle.StageBytes("shared"));
    VENEER_TRY(handle.Import({&blob, 1}, Ref{RefKind::kAdapter, "s", fmt::format(R"({{"file":"{}"}})", blob.digest().Text())}));
    VENEER_TRY(handle.OpenBlob(blob.digest(), std::nullopt, VerifyMode::kFull));
    std::vector<std::string> warnings;
    VENEER_TRY(handle.RemoveRef(RefKind::kAdapter, "s", warnings));
    return {};
  });
  start([&](Store& handle) -> Status {
    VENEER_TRY(handle.Activate(store.b, std::nullopt, {.verify = VerifyMode::kFull}));
    VENEER_TRY(handle.Activate(store.a, std::nullopt, {.verify = VerifyMode::kFull}));
    return {};
  });
  Store collector = Must(store.TryOpen(store.posix, std::chrono::seconds(20)));
  while (!is_late(1) || ((collections <= 3 || moved <= 1) && !is_late(60))) {
    const auto report = collector.CollectGarbage(kNow);
    CHECK((report ? "" : report.error().Text()) == "");
    if (!report) break;
    ++collections;
    moved += report->moved;
    store.posix.SleepMs(15);  // locks are polled: who never lets go shuts the others out
  }
  WriteFile(store.Aside("stop"), "");
  std::vector<int> statuses;
  for (const pid_t child : children) statuses.push_back(WaitForChild(child));
  if (fs::exists(store.Aside("error"))) UNSCOPED_INFO(ReadAll(store.Aside("error")));
  CHECK(statuses == std::vector<int>{0, 0, 0});
  CHECK(collections > 3);
  CHECK(moved > 1);  // the unnamed file was there to be taken in between
  CHECK(Text(store.Fsck()) == "");
}
