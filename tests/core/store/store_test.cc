// Blobs, names, locks and the places a store may lie in.
#include "core/store/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "core/store/lock.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;
namespace fs = std::filesystem;
using std::chrono::milliseconds;

namespace {

Ref Adapter(const std::string& name, const std::string& record) { return {RefKind::kAdapter, name, record}; }

std::ptrdiff_t ReadsOf(const SimSys& sys, const Digest& digest) {
  return std::ranges::count(sys.trace(), "read blobs/sha256/" + digest.Hex());
}

}  // namespace

TEST_CASE("store: a blob is its bytes, mode 0444, once; the same bytes again add nothing") {
  StoreFixture store;
  Store handle = store.Open();
  const Digest digest = Must(handle.PutBlob("some bytes"));
  CHECK(digest == Sha256::Of("some bytes"));
  CHECK(ReadAll(store.blob(digest)) == "some bytes");
  struct stat info{};
  REQUIRE(stat(store.blob(digest).c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0444);
  CHECK(info.st_nlink == 1);
  const StagedBlob again = Must(handle.StageBytes("some bytes"));
  const ImportOutcome outcome = Must(handle.Import({&again, 1}));
  CHECK(outcome.present == std::vector<Digest>{digest});
  CHECK(outcome.added.empty());
}

TEST_CASE("store: a file is streamed with progress to its last byte; a FIFO, a directory and a missing file are refused") {
  StoreFixture store;
  Store handle = store.Open();
  const std::string bytes((3 << 20) + 17, 'z');
  WriteFile(store.Aside("big"), bytes);
  std::vector<std::uint64_t> seen;
  const UniqueFd fd(open(store.Aside("big").c_str(), O_RDONLY));
  const Digest digest = Must(handle.PutBlob(fd, "big", [&](std::uint64_t done, std::uint64_t total) {
    CHECK(total == bytes.size());
    seen.push_back(done);
  }));
  CHECK(digest == Sha256::Of(bytes));
  CHECK(std::ranges::is_sorted(seen));
  CHECK(seen.back() == bytes.size());
  const UniqueFd folder(open(store.root().c_str(), O_RDONLY));
  CHECK(handle.StageFile(folder, "folder").error().code == Code::BLOB_NOT_REGULAR);
}

TEST_CASE("store: a bad file under the right name goes to quarantine when the good bytes are imported") {
  StoreFixture store;
  Store handle = store.Open();
  const Digest digest = Sha256::Of("good bytes");
  WriteFile(store.blob(digest), "torn");
  const StagedBlob blob = Must(handle.StageBytes("good bytes"));
  CHECK(Must(handle.Import({&blob, 1})).repaired == std::vector<Digest>{digest});
  CHECK(ReadAll(store.blob(digest)) == "good bytes");
  const auto kept = fs::directory_iterator(store.root() / "veneer/quarantine");
  CHECK(ReadAll(kept->path()) == "torn");
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("store: blobs are durable before the name that needs them, those that were there already too") {
  StoreFixture store;
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  for (const std::string& bytes : {std::string("new"), kStyleBytes}) {
    const StagedBlob blob = Must(handle.StageBytes(bytes));
    sys.Reset();
    Must(handle.Import({&blob, 1}, Adapter("x", "{}")));
    const auto synced = std::ranges::find(sys.trace(), "fsync blobs/sha256");
    CHECK(synced < std::ranges::find(sys.trace(), "rename veneer/refs/adapter/x"));
    CHECK(synced != sys.trace().end());
  }
}

TEST_CASE("store: a reader makes the pointer durable before it adopts it, so that no power cut takes back what it serves") {
  StoreFixture store;
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  Must(handle.OpenActive());
  const auto& trace = sys.trace();
  CHECK(std::ranges::find(trace, "fsync veneer/state") < std::ranges::find(trace, "open veneer/state/CURRENT"));
  CHECK(std::ranges::find(trace, "fsync veneer/state") != trace.end());
}

TEST_CASE("store: where O_TMPFILE is missing, named temporary files do the same and leave nothing") {
  StoreFixture store;
  SimSys sys(store.posix);
  sys.unnamed_files = false;
  Store handle = Must(store.TryOpen(sys));
  Must(handle.PutBlob("some bytes"));
  Must(handle.Activate(store.a, std::nullopt, {}));
  CHECK(fs::is_empty(store.root() / "veneer/staging"));
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("store: opening a blob proves size and hash and names the blob") {
  StoreFixture store;
  Store handle = store.Open();
  const Digest style = Sha256::Of(kStyleBytes);
  CHECK(Must(handle.OpenBlob(style)).size == kStyleBytes.size());
  CHECK(handle.OpenBlob(style, 7).error().code == Code::SIZE_MISMATCH);
  CHECK(handle.OpenBlob(style, 7, VerifyMode::kFull, {}, "/adapters/0/file_hash").error().at == "/adapters/0/file_hash");
  CHECK(handle.OpenBlob(Sha256::Of("nothing")).error().code == Code::BLOB_MISSING);
  CHECK(Must(handle.ReadBlob(style, 100)) == kStyleBytes);
  CHECK(handle.ReadBlob(style, 10).error().code == Code::INPUT_TOO_LARGE);
  fs::remove(store.blob(style));
  REQUIRE(mkfifo(store.blob(style).c_str(), 0444) == 0);
  CHECK(handle.OpenBlob(style).error().code == Code::BLOB_NOT_REGULAR);  // and does not block
}

TEST_CASE("store: a stamp saves the second hash; a write, a copy and a torn stamp cost a full one") {
  StoreFixture store;
  const Digest base = Sha256::Of(kBaseBytes);
  SimSys sys(store.posix);
  sys.wall_clock_offset_ns = 3'000'000'000;  // three seconds after the import
  Store handle = Must(store.TryOpen(sys));
  const auto reads = [&](VerifyMode mode) {
    sys.Reset();
    Must(handle.OpenBlob(base, std::nullopt, mode));
    return ReadsOf(sys, base);
  };
  CHECK(reads(VerifyMode::kStamp) > 0);
  CHECK(reads(VerifyMode::kStamp) == 0);
  CHECK(reads(VerifyMode::kFull) > 0);
  const fs::path stamp = store.root() / "veneer/verified" / base.Hex();
  WriteFile(stamp, ReadAll(stamp).substr(0, 40));
  CHECK(reads(VerifyMode::kStamp) > 0);
  CHECK(reads(VerifyMode::kStamp) == 0);
  // Owner and root can write in place; any trace in size or times costs a full hash, which finds it.
  WriteFile(store.blob(base), std::string(4095, 'b') + 'X');
  fs::permissions(store.blob(base), fs::perms::owner_write, fs::perm_options::remove);
  CHECK(handle.OpenBlob(base).error().code == Code::HASH_MISMATCH);
}

TEST_CASE("store: a stamp made within two seconds of the file's change is not written") {
  StoreFixture store;
  Must(store.Open().OpenBlob(Sha256::Of(kBaseBytes)));
  CHECK(fs::is_empty(store.root() / "veneer/verified"));
}

TEST_CASE("store: a copy of a store is usable, and its stamps do not count") {
  StoreFixture store;
  const Digest base = Sha256::Of(kBaseBytes);
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  sys.wall_clock_offset_ns = 3'000'000'000;
  Must(Must(store.TryOpen(sys)).OpenBlob(base));
  store.CopyTo(store.Aside("copy"));
  Store copy = Must(Store::Open(sys, store.Aside("copy").string()));
  sys.Reset();
  CHECK(Must(copy.OpenActive()).opened.id == store.a);
  CHECK(ReadsOf(sys, base) > 0);
  CHECK(Text(Must(copy.Fsck({true, false, {}}))) == "");
  CHECK(Must(copy.Activate(store.b, std::nullopt, {})).changed);
}

TEST_CASE("store: an activation hashes each file once, not again under the lock") {
  StoreFixture store;
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  Must(handle.Activate(store.a, std::nullopt, {}));
  CHECK(ReadsOf(sys, Sha256::Of(kBaseBytes)) == 2);  // its bytes, and the end
}

TEST_CASE("store: what is opened stays readable when the name goes; the active composition comes with all its files") {
  StoreFixture store;
  Must(store.Activate(store.b));
  const OpenedActive active = Must(store.Open().OpenActive());
  CHECK(active.current.generation == 2);
  fs::remove_all(store.root() / "blobs");
  const OpenedBlob* safety = active.opened.Find(Sha256::Of(kSafetyBytes));
  REQUIRE(safety != nullptr);
  CHECK(Must(ReadAll(store.posix, safety->fd, 100, "")) == kSafetyBytes);
}

TEST_CASE("store: names read back, are replaced whole and are listed in order") {
  StoreFixture store;
  Store handle = store.Open();
  CHECK(handle.PutRef(Adapter("zeta", R"({"kind":"test"})")));
  CHECK(handle.PutRef(Adapter("alpha", R"({"n":1})")));
  CHECK(handle.PutRef(Adapter("alpha", R"({"n":2})")));
  const auto refs = Must(handle.ListRefs(RefKind::kAdapter));
  REQUIRE(refs.size() == 2);
  CHECK(refs[0] == Adapter("alpha", R"({"n":2})"));
  CHECK(refs[1].name == "zeta");
  CHECK(Must(handle.ListRefs(RefKind::kBase)).empty());
  CHECK(handle.GetRef(RefKind::kBase, "alpha").error().code == Code::BLOB_MISSING);
}

TEST_CASE("store: a removed name is gone, the log says so, and what it named stays") {
  StoreFixture store;
  Store handle = store.Open();
  const Digest blob = Must(handle.PutBlob("kept"));
  REQUIRE(handle.PutRef(Adapter("old", fmt::format(R"({{"file_hash":"{}"}})", blob.Text()))));
  std::vector<std::string> warnings;
  CHECK(Must(handle.RemoveRef(RefKind::kAdapter, "old", warnings)));
  CHECK(warnings.empty());
  CHECK(handle.GetRef(RefKind::kAdapter, "old").error().code == Code::BLOB_MISSING);
  CHECK(handle.OpenBlob(blob));
  const auto log = Must(handle.ReadLog());
  CHECK(log.back().type() == "unref");
  CHECK_FALSE(Must(handle.RemoveRef(RefKind::kAdapter, "old", warnings)));
  CHECK(Must(handle.ReadLog()).size() == log.size());
  CHECK(handle.RemoveRef(RefKind::kAdapter, "../x", warnings).error().code == Code::NAME_INVALID);
}

TEST_CASE("store: names outside the grammar are E205, records that are not canonical E212, compositions without an id E203") {
  StoreFixture store;
  Store handle = store.Open();
  for (const std::string name : {"", ".", "..", "../x", "a/b", "-rf", "A", "a.", "a~b", "a b", "\xd0\xb0"}) {
    INFO(name);
    CHECK(handle.PutRef(Adapter(name, "{}")).error().code == Code::NAME_INVALID);
    CHECK(handle.GetRef(RefKind::kAdapter, name).error().code == Code::NAME_INVALID);
  }
  CHECK(handle.PutRef(Adapter(std::string(65, 'a'), "{}")).error().code == Code::NAME_INVALID);
  CHECK(handle.PutRef(Adapter(std::string(64, 'a'), "{}")));
  CHECK(handle.PutRef(Adapter("a", R"({ "n":1})")).error().code == Code::NOT_CANONICAL);
  CHECK(handle.PutRef(Adapter("a", R"({"b":1,"a":1})")).error().code == Code::NOT_CANONICAL);
  CHECK(handle.PutRef({RefKind::kComposition, "a", "{}"}).error().code == Code::FIELD_MISSING);
}

TEST_CASE("store: a name that is visible and perhaps not durable is E604, not a failure that changed nothing") {
  StoreFixture store;
  const Ref name{RefKind::kComposition, "n", fmt::format(R"({{"composition":"{}"}})", store.a.Text())};
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.FailOn("fsync veneer/refs/composition", EIO);
  CHECK(handle.PutRef(name).error().code == Code::DURABILITY_UNKNOWN);
  CHECK(store.Open().GetRef(RefKind::kComposition, "n"));
  std::vector<std::string> warnings;
  sys.FailOn("fsync veneer/refs/composition", EIO);
  CHECK(handle.RemoveRef(RefKind::kComposition, "n", warnings).error().code == Code::DURABILITY_UNKNOWN);
  CHECK_FALSE(store.Open().GetRef(RefKind::kComposition, "n"));
}

TEST_CASE("store: a name with a flipped byte is E602 and named by fsck") {
  StoreFixture store;
  CHECK(store.Open().PutRef(Adapter("alpha", R"({"n":1})")));
  const fs::path file = store.root() / "veneer/refs/adapter/alpha";
  std::string bytes = ReadAll(file);
  bytes[bytes.find("\"n\"") + 1] = 'm';
  WriteFile(file, bytes);
  CHECK(store.Open().GetRef(RefKind::kAdapter, "alpha").error().code == Code::STATE_CORRUPT);
  CHECK(Text(store.Fsck()).starts_with("E602 STATE_CORRUPT at=veneer/refs/adapter/alpha"));
}

TEST_CASE("store: two processes that activate at once both succeed, one after the other") {
  StoreFixture store;
  Must(store.Activate(store.none));
  const auto run = [&](const Digest& composition) {
    Store handle = Must(store.TryOpen(store.posix, milliseconds(20'000)));
    return handle.Activate(composition, std::nullopt, {}) ? 0 : 1;
  };
  int second = -1;
  std::thread other([&] { second = RunInChild([&] { return run(store.b); }); });
  const int first = RunInChild([&] { return run(store.a); });
  other.join();
  CHECK(first == 0);
  CHECK(second == 0);
  CHECK(store.Current().generation == 4);
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("store: a writer waits no longer than its timeout, in the same process too: E601 and nothing changed; readers go on") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const auto hold = [&](const OpenedComposition&) -> Status {
    Store other = Must(store.TryOpen(store.posix, milliseconds(30)));
    CHECK(other.Activate(store.none, std::nullopt, {}).error().code == Code::LOCKED);
    CHECK(other.PutBlob("x").error().code == Code::LOCKED);
    CHECK(Must(other.OpenActive()).opened.id == store.a);
    return {};
  };
  CHECK(Must(store.Open().Activate(store.b, std::nullopt, {.validate = hold})).generation == 3);
}

TEST_CASE("store: readers share byte 1, and who holds it alone keeps them out") {
  StoreFixture store;
  const fs::path lock = store.root() / "veneer/lock";
  const UniqueFd fd(open(lock.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(store.posix.TryLock(fd.get(), 1, LockKind::kShared).value());
  CHECK(store.Open().OpenBlob(Sha256::Of(kStyleBytes)));
  const UniqueFd other(open(lock.c_str(), O_RDWR | O_CLOEXEC));
  CHECK(store.posix.TryLock(other.get(), 1, LockKind::kExclusive).value() == false);
  REQUIRE(store.posix.TryLock(fd.get(), 1, LockKind::kExclusive).value());
  CHECK(store.Open().OpenBlob(Sha256::Of(kStyleBytes)).error().code == Code::LOCKED);
}

TEST_CASE("store: many threads on one handle activate and read without harm") {
  StoreFixture store;
  Store handle = Must(store.TryOpen(store.posix, milliseconds(60'000)));
  Must(handle.Activate(store.none, std::nullopt, {}));
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (const Digest& composition : {store.a, store.b, store.none}) {
    threads.emplace_back([&, composition] {
      for (int i = 0; i < 5; ++i) failures += !handle.Activate(composition, std::nullopt, {});
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) failures += !handle.OpenActive();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("store: network and user-space file systems are E608; a memory disk is a warning") {
  StoreFixture store;
  SimSys sys(store.posix);
  for (const std::uint64_t magic : {0x6969u, 0x517bu, 0xff534d42u, 0xfe534d42u, 0x01021997u, 0x65735546u}) {
    sys.file_system_magic = magic;
    CHECK(store.TryOpen(sys).error().code == Code::FS_UNSUPPORTED);
  }
  for (const std::uint64_t magic : {0x01021994u, 0x794c7630u}) {
    sys.file_system_magic = magic;
    const auto opened = store.TryOpen(sys);
    REQUIRE(opened);
    REQUIRE(opened->warnings().size() == 1);
    CHECK(opened->warnings()[0].starts_with("W4 VOLATILE_STORE"));
  }
  sys.file_system_magic = 0xef53;
  CHECK(Must(store.TryOpen(sys)).warnings().empty());
}

TEST_CASE("store: a store of another user, or one that others can write, is E609") {
  StoreFixture store;
  SimSys sys(store.posix);
  sys.user_offset = 1;
  CHECK(store.TryOpen(sys).error().code == Code::STORE_PERMISSIONS);
  const auto refused_with = [&](const fs::path& path, fs::perms bits) {
    fs::permissions(path, bits, fs::perm_options::add);
    const auto opened = store.TryOpen(store.posix);
    fs::permissions(path, bits, fs::perm_options::remove);
    return !opened && opened.error().code == Code::STORE_PERMISSIONS;
  };
  CHECK(refused_with(store.root(), fs::perms::others_write));
  CHECK(refused_with(store.root(), fs::perms::group_write));
  CHECK(refused_with(store.root() / "blobs/sha256", fs::perms::others_write));
  CHECK(refused_with(store.root() / "veneer", fs::perms::group_read));
  CHECK(store.TryOpen(store.posix));
}

TEST_CASE("store: no store, a later format, a foreign folder and a second init are E607 with a remedy") {
  StoreFixture store;
  const auto code = [&](const fs::path& path) { return Store::Open(store.posix, path.string()).error().code; };
  CHECK(code(store.Aside("nothing")) == Code::STORE_FORMAT);
  fs::create_directory(store.Aside("folder"));
  WriteFile(store.Aside("folder") / "notes.txt", "mine");
  CHECK(code(store.Aside("folder")) == Code::STORE_FORMAT);
  CHECK(Store::Init(store.posix, store.Aside("folder").string()).error().code == Code::STORE_FORMAT);
  CHECK(std::distance(fs::directory_iterator(store.Aside("folder")), fs::directory_iterator()) == 1);
  CHECK(Store::Init(store.posix, store.root().string()).error().code == Code::STORE_FORMAT);
  WriteFile(store.root() / "veneer/FORMAT", "veneer-store 2\nuuid 0\n");
  CHECK(code(store.root()) == Code::STORE_FORMAT);
}

TEST_CASE("store: a store that lost its FORMAT and its pointer after use is not made new by init") {
  StoreFixture store;
  Must(store.Activate(store.a));
  fs::remove(store.root() / "veneer/FORMAT");
  fs::remove(store.state());
  CHECK(Store::Init(store.posix, store.root().string()).error().code == Code::STATE_CORRUPT);
  CHECK(fs::exists(store.root() / "veneer/gen/2"));
}

TEST_CASE("store: links inside the store are not followed") {
  StoreFixture store;
  fs::rename(store.root() / "veneer/gen", store.Aside("gen"));
  fs::create_directory_symlink(store.Aside("gen"), store.root() / "veneer/gen");
  CHECK(!store.TryOpen(store.posix));
}

TEST_CASE("store: no descriptors available is E503, and nothing changes") {
  StoreFixture store;
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  const std::string before = store.Snapshot();
  sys.FailOn("open veneer/lock", EMFILE, 2);  // the first is of the hash ahead, which is best effort
  CHECK(handle.Activate(store.a, std::nullopt, {}).error().code == Code::FD_LIMIT);
  CHECK(store.Snapshot() == before);
}

TEST_CASE("store: a file that is being hashed is not collected meanwhile, so that it never looks changed") {
  StoreFixture store;
  Store handle = store.Open();
  const Digest digest = Must(handle.PutBlob("needed by nothing"));
  std::optional<Code> collected;
  const auto collect = [&](std::uint64_t, std::uint64_t) {
    if (!collected) collected = store.Open().CollectGarbage({.grace = std::chrono::seconds(0)}).error().code;
  };
  CHECK(handle.OpenBlob(digest, std::nullopt, VerifyMode::kFull, collect));
  CHECK(collected == Code::LOCKED);
}

TEST_CASE("store: on a file system for reading only, what is active can be opened and nothing changed: E603 with the reason") {
  class ReadOnlySys final : public PosixSys {
   public:
    SysResult<UniqueFd> Open(int dir, const std::string& name, OpenMode mode, std::uint32_t permissions) override {
      if (mode != OpenMode::kRead && mode != OpenMode::kDirectory) return std::unexpected(EROFS);
      return PosixSys::Open(dir, name, mode, permissions);
    }
    SysStatus MakeDirectory(int, const std::string&, std::uint32_t) override { return std::unexpected(EROFS); }
    SysStatus Unlink(int, const std::string&) override { return std::unexpected(EROFS); }
  };
  StoreFixture store;
  Must(store.Activate(store.a));
  const std::string before = store.Snapshot();
  ReadOnlySys sys;
  Store handle = Must(store.TryOpen(sys));
  CHECK(Must(handle.OpenActive(VerifyMode::kFull)).current.composition == store.a);
  const Error error = handle.Activate(store.b, std::nullopt, {}).error();
  CHECK(error.code == Code::IO);
  CHECK(error.at == "veneer/lock");
  CHECK(error.detail.find("for reading only") != std::string::npos);
  CHECK(store.Snapshot() == before);
}
