#include "core/store/transaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

// What reaches the disk, in order: without opens, reads, locks and the like.
std::vector<std::string> Barriers(const std::vector<std::string>& trace) {
  std::vector<std::string> lines;
  for (const std::string& line : trace) {
    const std::string call = line.substr(0, line.find(' '));
    for (const char* kept : {"write", "fsync", "link", "rename", "unlink", "truncate"})
      if (call == kept && line.find("verified") == std::string::npos) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("transaction: a new store has generation 1 and nothing active; rollback from there has no target") {
  StoreFixture store;
  CHECK(store.Current().generation == 1);
  CHECK(!store.Current().composition);
  CHECK(store.Rollback().error().code == Code::NO_ROLLBACK_TARGET);
  CHECK(store.Open().OpenActive().error().code == Code::NO_ACTIVE);
}

TEST_CASE("transaction: two rollbacks go two generations back and never forward again") {
  StoreFixture store;
  REQUIRE(Must(store.Activate(store.a)).generation == 2);
  REQUIRE(Must(store.Activate(store.b)).generation == 3);
  REQUIRE(Must(store.Activate(store.none)).generation == 4);
  CHECK(Must(store.Rollback()).composition == store.b);
  CHECK(Must(store.Rollback()).composition == store.a);
  CHECK(Must(store.Rollback()).composition == std::nullopt);
  CHECK(store.Current().generation == 7);
  CHECK(store.Rollback().error().code == Code::NO_ROLLBACK_TARGET);
  CHECK(Text(store.Fsck()).empty());
}

TEST_CASE("transaction: rollback to a generation goes there, and the next rollback goes before it") {
  StoreFixture store;
  for (const Digest& composition : {store.a, store.b, store.none}) Must(store.Activate(composition));
  CHECK(Must(store.Open().Rollback(3, {})).composition == store.b);
  CHECK(Must(store.Rollback()).composition == store.a);
  CHECK(store.Open().Rollback(7, {}).error().code == Code::NO_ROLLBACK_TARGET);
  CHECK(store.Open().Rollback(0, {}).error().code == Code::NO_ROLLBACK_TARGET);
}

TEST_CASE("transaction: activating the active composition again makes no generation, with --expect of the old one too") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  const auto again = Must(store.Open().Activate(store.b, std::nullopt, {.expect = ExpectedCurrent{store.a}}));
  CHECK(!again.changed);
  CHECK(again.generation == 3);
  CHECK(Must(store.Rollback()).composition == store.a);
}

TEST_CASE("transaction: another composition than the expected one is E613 and changes nothing") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const std::string before = store.Snapshot();
  CHECK(store.Open().Activate(store.b, std::nullopt, {.expect = ExpectedCurrent{std::nullopt}}).error().code == Code::EXPECTED_CURRENT);
  CHECK(store.Snapshot() == before);
  CHECK(Must(store.Open().Activate(store.b, std::nullopt, {.expect = ExpectedCurrent{store.a}})).changed);
}

TEST_CASE("transaction: deactivation leaves no active composition, and rollback brings it back") {
  StoreFixture store;
  Must(store.Activate(store.a));
  CHECK(Must(store.Open().Deactivate({})).composition == std::nullopt);
  CHECK(store.Open().OpenActive().error().code == Code::NO_ACTIVE);
  CHECK(!Must(store.Open().Deactivate({})).changed);
  CHECK(Must(store.Rollback()).composition == store.a);
}

TEST_CASE("transaction: what the caller's validation refuses changes no byte of the store") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const std::string before = store.Snapshot();
  const auto refuse = [](const OpenedComposition&) -> Status { return Fail(Code::TOKENIZER_MISMATCH, "/tokenizer_id", "no"); };
  CHECK(store.Open().Activate(store.b, std::nullopt, {.validate = refuse}).error().code == Code::TOKENIZER_MISMATCH);
  CHECK(store.Snapshot() == before);
  CHECK(store.Open().Rollback(std::nullopt, {.validate = refuse}).has_value());  // to none: nothing to validate
}

TEST_CASE("transaction: validation sees the files of the composition, open and with their digests") {
  StoreFixture store;
  bool seen = false;
  const auto look = [&](const OpenedComposition& opened) -> Status {
    seen = true;
    CHECK(opened.id == store.b);
    CHECK(opened.blobs.size() == 4);
    for (const std::string& bytes : {kBaseBytes, kTokenizerBytes, kSafetyBytes, kConfigBytes}) {
      const OpenedBlob* blob = opened.Find(Sha256::Of(bytes));
      REQUIRE(blob != nullptr);
      CHECK(Must(ReadAll(store.posix, blob->fd, 10'000, "")) == bytes);
    }
    return {};
  };
  Must(store.Open().Activate(store.b, std::nullopt, {.validate = look}));
  CHECK(seen);
}

TEST_CASE("transaction: a missing, short, changed, linked or writable blob is refused with its code and place") {
  StoreFixture store;
  namespace fs = std::filesystem;
  Must(store.Activate(store.none));
  const fs::path style = store.blob(kStyleBytes);
  const auto refused = [&] {
    const Error error = store.Activate(store.a).error();
    CHECK(error.at == "/adapters/0/file_hash");
    CHECK(store.Current().generation == 2);
    return error.code;
  };
  fs::permissions(style, fs::perms::owner_write, fs::perm_options::add);
  CHECK(refused() == Code::BLOB_CHANGED);
  WriteFile(style, "veneer test adapter 9\n");
  fs::permissions(style, fs::perms::owner_write, fs::perm_options::remove);
  CHECK(refused() == Code::HASH_MISMATCH);
  WriteFile(style, "short");
  CHECK(refused() == Code::SIZE_MISMATCH);
  fs::remove(style);
  CHECK(refused() == Code::BLOB_MISSING);
  fs::create_symlink(store.blob(kSafetyBytes), style);
  CHECK(refused() == Code::BLOB_NOT_REGULAR);
  fs::remove(style);
  fs::create_directory(style);
  CHECK(refused() == Code::BLOB_NOT_REGULAR);
}

TEST_CASE("transaction: rollback to a composition whose blob is gone is E301, and the current one stays") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  std::filesystem::remove(store.blob(kStyleBytes));
  CHECK(store.Rollback().error().code == Code::BLOB_MISSING);
  CHECK(store.Current().composition == store.b);
}

TEST_CASE("transaction: the barriers of an activation come in the order of the protocol") {
  StoreFixture store;
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  Must(handle.Activate(store.b, std::nullopt, {}));
  const std::vector<std::string> expected{"fsync blobs/sha256",              // 4: what is activated has its names for good
                                          "fsync veneer/audit/seg-1",        // 7: what was read of the log, before more follows
                                          "write veneer/audit/seg-1",        //    begin
                                          "fsync veneer/audit/seg-1",        //    durable before anything is visible
                                          "write veneer/staging/(unnamed)",  // 8: the record
                                          "fsync veneer/staging/(unnamed)",  //    whole before it has a name
                                          "link veneer/gen/3",               //    write-once
                                          "fsync veneer/gen",                //    its name durable before a pointer names it
                                          "write veneer/state/CURRENT~",     // 9: the pointer
                                          "fsync veneer/state/CURRENT~",     //    whole before the rename
                                          "rename veneer/state/CURRENT",     // 10: commit point
                                          "fsync veneer/state",              // 11: durable
                                          "write veneer/audit/seg-1",        // 12: commit
                                          "fsync veneer/audit/seg-1",        //
                                          "write index.json~",               // 13: the view
                                          "fsync index.json~",               //
                                          "rename index.json",               //
                                          "fsync root"};
  std::vector<std::string> barriers = Barriers(sys.trace());
  std::ranges::replace(barriers, "fsync ", "fsync root");
  CHECK(barriers == expected);
}

TEST_CASE("transaction: states come in order, with the composition and the time; a refusal ends with its code") {
  StoreFixture store;
  std::vector<std::string> states;
  const auto log = [&](const Transition& t) {
    CHECK(t.composition == store.a);
    CHECK(t.time_utc.size() == 20);
    states.push_back(std::string(ActivationStateName(t.state)) + (t.code ? fmt::format(" E{}", static_cast<int>(*t.code)) : ""));
  };
  Must(store.Open().Activate(store.a, std::nullopt, {.transitions = log}));
  CHECK(states == std::vector<std::string>{"Requested", "Validating", "Staging", "Ready", "Swapped", "Committed"});
  states.clear();
  Must(store.Open().Activate(store.a, std::nullopt, {.transitions = log}));
  CHECK(states == std::vector<std::string>{"Requested", "Committed"});
  states.clear();
  Must(store.Open().Deactivate({}));
  std::filesystem::remove(store.blob(kStyleBytes));
  CHECK(!store.Open().Activate(store.a, std::nullopt, {.transitions = log}));
  CHECK(states == std::vector<std::string>{"Requested", "Validating", "Aborted E301"});
}

TEST_CASE("transaction: steps backwards, over a state, or an abort after the swap are not legal") {
  using enum ActivationState;
  CHECK(!IsLegal(kRequested, kStaging));
  CHECK(!IsLegal(kStaging, kSwapped));
  CHECK(!IsLegal(kSwapped, kAborted));
  CHECK(!IsLegal(kCommitted, kAborted));
  CHECK(!IsLegal(kAborted, kValidating));
  CHECK(!IsLegal(kReady, kRequested));
  CHECK(IsLegal(kReady, kAborted));
}

TEST_CASE("transaction: a failed sync of state/ after the rename is E604; the handle is closed; the next one knows the outcome") {
  StoreFixture store;
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  sys.FailOn("fsync veneer/state", EIO);
  CHECK(handle.Activate(store.b, std::nullopt, {}).error().code == Code::DURABILITY_UNKNOWN);
  CHECK(std::ranges::count(sys.trace(), "fsync veneer/state") == 1);  // never again
  CHECK(handle.Activate(store.a, std::nullopt, {}).error().code == Code::HANDLE_CLOSED);
  CHECK(Must(handle.ReadCurrent()).composition == store.b);
  const auto retried = Must(store.Activate(store.b));
  CHECK(!retried.changed);
  CHECK(retried.generation == 3);
  CHECK(Must(store.Open().ReadLog()).back().Get("recovered") == "1");
  CHECK(Text(store.Fsck()).empty());
}

TEST_CASE("transaction: a failed sync of the new pointer is E603, is not tried again, and the old composition stays") {
  StoreFixture store;
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  sys.FailOn("fsync veneer/state/CURRENT~", EIO);
  CHECK(handle.Activate(store.b, std::nullopt, {}).error().code == Code::IO);
  CHECK(std::ranges::count(sys.trace(), "fsync veneer/state/CURRENT~") == 1);
  CHECK(store.Current().composition == store.a);
  CHECK(Must(store.Open().ReadLog()).back().Get("code") == "E603");
  CHECK(Text(store.Fsck()).empty());
  CHECK(Must(handle.Activate(store.b, std::nullopt, {})).generation == 3);  // the number is used again
}

TEST_CASE("transaction: a rename that reports an error after it worked is decided by reading the pointer") {
  StoreFixture store;
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  sys.FailAfter("rename veneer/state/CURRENT", EIO);
  CHECK(Must(handle.Activate(store.b, std::nullopt, {})).changed);
  CHECK(store.Current().composition == store.b);
  sys.FailOn("rename veneer/state/CURRENT", EIO);
  CHECK(handle.Activate(store.a, std::nullopt, {}).error().code == Code::IO);
  CHECK(store.Current().composition == store.b);
  CHECK(Text(store.Fsck()).empty());
}

TEST_CASE("transaction: a full disk at the commit record is a success with W1, and the next writer completes the log") {
  StoreFixture store;
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  sys.FailOn("write veneer/audit/seg-1", ENOSPC, 2);
  const auto done = Must(handle.Activate(store.b, std::nullopt, {}));
  REQUIRE(done.warnings.size() == 1);
  CHECK(done.warnings[0].starts_with("W1 AUDIT_DEFERRED"));
  CHECK(!Must(store.Activate(store.b)).changed);
  CHECK(Must(store.Open().ReadLog()).back().Get("recovered") == "1");
  CHECK(Text(store.Fsck()).empty());
}

TEST_CASE("transaction: a view that cannot be written is a success with W2, and the next writer makes it") {
  StoreFixture store;
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  sys.FailOn("write index.json~", ENOSPC);
  const auto done = Must(handle.Activate(store.a, std::nullopt, {}));
  REQUIRE(done.warnings.size() == 1);
  CHECK(done.warnings[0].starts_with("W2 INDEX_STALE"));
  CHECK(Text(store.Fsck()).starts_with("W2 INDEX_STALE at=index.json"));
  Must(store.Activate(store.b));
  CHECK(Text(store.Fsck()).empty());
}

TEST_CASE("transaction: a clock that goes backwards has no effect on the order") {
  StoreFixture store;
  Must(store.Activate(store.a));
  SimSys sys(store.posix);
  sys.wall_clock_offset_ns = -86'400'000'000'000;
  Must(Must(store.TryOpen(sys)).Activate(store.b, std::nullopt, {}));
  CHECK(store.Current().composition == store.b);
  CHECK(Must(store.Rollback()).composition == store.a);
  CHECK(Text(store.Fsck()).empty());
}

TEST_CASE("transaction: the statement is kept with the generation, must be in the store, and comes back with a rollback") {
  StoreFixture store;
  Store handle = store.Open();
  CHECK(handle.Activate(store.a, Sha256::Of("no such statement"), {}).error().at == "/statement");
  const Digest statement = Must(handle.PutBlob("a statement"));
  Must(handle.Activate(store.a, statement, {}));
  Must(handle.Activate(store.b, std::nullopt, {}));
  CHECK(Must(handle.ReadGeneration(2)).statement == statement);
  const auto back = Must(handle.Rollback(std::nullopt, {}));
  CHECK(Must(handle.ReadGeneration(back.generation)).statement == statement);
}

TEST_CASE("transaction: what is placed with an activation is there although no name protected it from a collection just before") {
  StoreFixture store;
  Store handle = store.Open();
  std::vector<StagedBlob> blobs;
  blobs.push_back(Must(handle.StageBytes(CompositionText({"safety", "style"}))));
  blobs.push_back(Must(handle.StageBytes("{}")));
  REQUIRE(
      handle.PutRef({RefKind::kAdapter, "files",
                     fmt::format(R"({{"f":["{}","{}","{}","{}","{}"]}})", Sha256::Of(kBaseBytes).Text(), Sha256::Of(kTokenizerBytes).Text(),
                                 Sha256::Of(kStyleBytes).Text(), Sha256::Of(kSafetyBytes).Text(), Sha256::Of(kConfigBytes).Text())}));
  Must(handle.CollectGarbage({.grace = std::chrono::seconds(0)}));
  const Digest id = blobs[0].digest();
  CHECK(handle.Activate(id, blobs[1].digest(), {}).error().code == Code::BLOB_MISSING);
  CHECK(Must(handle.Activate(id, blobs[1].digest(), {.place = blobs})).composition == id);
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("transaction: a refused switch takes out what it brought along, and nothing that was there before") {
  StoreFixture store;
  Store handle = store.Open();
  std::vector<StagedBlob> blobs;
  blobs.push_back(Must(handle.StageBytes(CompositionText({"safety", "style"}))));
  blobs.push_back(Must(handle.StageBytes("{}")));
  const Digest present = Must(handle.PutBlob("{}"));
  const std::string before = store.Snapshot();
  const auto refuse = [](const OpenedComposition&) -> Status { return Fail(Code::MEMORY_BUDGET, "test", "refused"); };
  CHECK(handle.Activate(blobs[0].digest(), present, {.validate = refuse, .place = blobs}).error().code == Code::MEMORY_BUDGET);
  blobs.clear();  // staged files are the caller's
  CHECK(store.Snapshot() == before);
}
