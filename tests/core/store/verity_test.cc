// fs-verity: sealed before the hash, measured after it, and trusted by what the kernel measures alone. Simulated; and on the real file
// system of the temporary folder, whatever it supports.
#include <fmt/format.h>

#include <cerrno>

#include "core/store/stamps.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> LinesAbout(const SimSys& sys, const std::string& bytes) {
  std::vector<std::string> calls;
  const std::string file = " blobs/sha256/" + Sha256::Of(bytes).Hex();
  for (const std::string& line : sys.trace())
    if (line.ends_with(file)) calls.push_back(line.substr(0, line.size() - file.size()));
  return calls;
}
Digest Root(const std::string& bytes) { return Sha256::Of("root of " + bytes); }
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE(
    "verity: a file is sealed, hashed and measured in this order; afterwards the measurement saves the hash, however new the file is") {
  StoreFixture store;
  SimSys sys(store.posix);
  sys.verity = true;
  Store handle = Must(store.TryOpen(sys));
  sys.Reset();
  const OpenedBlob first = Must(handle.OpenBlob(Sha256::Of(kStyleBytes)));
  CHECK(first.verity == Root(kStyleBytes));
  CHECK(LinesAbout(sys, kStyleBytes) == Lines{"open", "stat", "enable verity", "stat", "read", "read", "stat", "measure verity"});
  sys.Reset();
  CHECK(Must(handle.OpenBlob(Sha256::Of(kStyleBytes))).verity == Root(kStyleBytes));
  CHECK(LinesAbout(sys, kStyleBytes) == Lines{"open", "stat", "measure verity"});
  sys.Reset();
  Must(handle.OpenBlob(Sha256::Of(kStyleBytes), std::nullopt, VerifyMode::kFull));  // sealed already
  CHECK(LinesAbout(sys, kStyleBytes) == Lines{"open", "stat", "enable verity", "stat", "read", "read", "stat", "measure verity"});
}

TEST_CASE("verity: a stamp whose digest the kernel does not measure is worth nothing, old and unchanged as the file may be") {
  StoreFixture store;
  const Digest digest = Sha256::Of(kStyleBytes);
  {
    SimSys sys(store.posix);
    sys.verity = true;
    Must(Must(store.TryOpen(sys)).OpenBlob(digest));
  }
  SimSys other(store.posix);  // the same file, not sealed: as after a copy to another disk
  other.wall_clock_offset_ns = 60'000'000'000;
  Store handle = Must(store.TryOpen(other));
  other.Reset();
  CHECK(Must(handle.OpenBlob(digest)).verity == std::nullopt);
  CHECK(std::ranges::count(LinesAbout(other, kStyleBytes), "read") == 2);
  other.Reset();
  Must(handle.OpenBlob(digest));  // its new stamp goes by the times
  CHECK(LinesAbout(other, kStyleBytes) == Lines{"open", "stat"});
}

TEST_CASE("verity: where sealing is refused, the hash goes on without, and says nothing") {
  for (const int error : {EOPNOTSUPP, ENOTTY, EPERM, ETXTBSY, EINTR, EACCES}) {
    CAPTURE(error);
    StoreFixture store;
    SimSys sys(store.posix);
    sys.verity = true;
    sys.verity_error = error;
    Store handle = Must(store.TryOpen(sys));
    sys.Reset();
    CHECK(Must(handle.OpenBlob(Sha256::Of(kStyleBytes))).verity == std::nullopt);
    CHECK(LinesAbout(sys, kStyleBytes) == Lines{"open", "stat", "enable verity", "read", "read", "stat"});
    const Activation done = Must(handle.Activate(store.a, std::nullopt, {}));
    CHECK(done.warnings.empty());
    CHECK(Must(handle.ReadGeneration(2)).verity.empty());
    CHECK(Must(handle.Fsck({true, false, {}})).verity_blobs == 0);
  }
}

TEST_CASE("verity: the record of a generation holds the kernel's digest of each sealed blob beside its own, and reads back") {
  StoreFixture store;
  SimSys sys(store.posix);
  sys.verity = true;
  Store handle = Must(store.TryOpen(sys));
  Must(handle.Activate(store.a, std::nullopt, {}));
  std::map<Digest, Digest> expected;
  for (const std::string& bytes : {kBaseBytes, kTokenizerBytes, kStyleBytes}) expected[Sha256::Of(bytes)] = Root(bytes);
  CHECK(Must(handle.ReadGeneration(2)).verity == expected);
  const std::string text = ReadAll(store.root() / "veneer/gen/2");
  CHECK(text.find(fmt::format(R"("{}":"{}")", Sha256::Of(kStyleBytes).Text(), Root(kStyleBytes).Text())) != std::string::npos);
  CHECK(Must(handle.Fsck({true, false, {}})).verity_blobs == 8);
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("verity: rot under a seal is found by the full check") {
  StoreFixture store;
  SimSys sys(store.posix);
  sys.verity = true;
  Store handle = Must(store.TryOpen(sys));
  Must(handle.OpenBlob(Sha256::Of(kStyleBytes)));
  std::string rotten = kStyleBytes;
  rotten[3] ^= 1;
  WriteFile(store.blob(kStyleBytes), rotten);
  fs::permissions(store.blob(kStyleBytes), fs::perms::owner_write, fs::perm_options::remove);
  CHECK(handle.OpenBlob(Sha256::Of(kStyleBytes), std::nullopt, VerifyMode::kFull).error().code == Code::HASH_MISMATCH);
}

TEST_CASE("verity: the real file system seals or refuses, and the store works either way") {
  StoreFixture store;
  Store handle = store.Open();
  Must(handle.Activate(store.a, std::nullopt, {.verify = VerifyMode::kFull}));
  const std::uint64_t sealed = Must(handle.Fsck({true, false, {}})).verity_blobs;
  if (sealed == 0) WARN("SKIP: the file system of the temporary folder has no fs-verity, so only its refusal was seen");
  CHECK((sealed == 0 || sealed == 8));
  CHECK(Must(handle.OpenActive()).opened.id == store.a);
}
