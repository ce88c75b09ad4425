#include "core/store/fsck.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;
namespace fs = std::filesystem;

namespace {

// What fsck says, per line "CODE at=PLACE".
std::vector<std::string> Codes(const FsckReport& report) {
  std::vector<std::string> codes;
  for (const Finding& finding : report.findings)
    codes.push_back(
        fmt::format("{} at={}{}", finding.code.substr(0, finding.code.find(' ')), finding.at, finding.repaired ? " repaired" : ""));
  return codes;
}
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("fsck: a store in use is clean, quick and full, and fsck without repair changes no byte") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  const std::string before = store.Snapshot();
  const FsckReport report = store.Fsck(true, false);
  CHECK(report.clean());
  CHECK(report.blobs == 8);
  CHECK(report.generations == 3);
  CHECK(store.Snapshot() == before);
}

TEST_CASE("fsck: rot of a blob is found by the full check alone; repair moves it away and says what is missing then") {
  StoreFixture store;
  Must(store.Activate(store.a));
  std::string rotten = kStyleBytes;
  rotten[3] ^= 1;
  WriteFile(store.blob(kStyleBytes), rotten);
  fs::permissions(store.blob(kStyleBytes), fs::perms::owner_write, fs::perm_options::remove);
  const std::string place = "blobs/sha256/" + Sha256::Of(kStyleBytes).Hex();
  CHECK(store.Fsck(false, false).clean());
  CHECK(Codes(store.Fsck(true, false)) == Lines{"E303 at=" + place});
  const FsckReport repaired = store.Fsck(true, true);
  CHECK(Codes(repaired) == Lines{"E303 at=" + place + " repaired", "E301 at=" + place});
  CHECK(repaired.problems_left());
  CHECK(store.Current().composition == store.a);  // it stays: nobody chooses another
  Must(store.Open().PutBlob(kStyleBytes));
  CHECK(store.Fsck().clean());
}

TEST_CASE("fsck: missing, short and writable blobs of the current and the retained generations are named") {
  StoreFixture store;
  Must(store.Activate(store.b));
  Must(store.Activate(store.a));
  fs::remove(store.blob(kSafetyBytes));
  WriteFile(store.blob(kStyleBytes), "short");
  fs::permissions(store.blob(kStyleBytes), fs::perms::owner_write, fs::perm_options::remove);
  fs::permissions(store.blob(kBaseBytes), fs::perms::owner_write, fs::perm_options::add);
  const auto codes = Codes(store.Fsck(false, false));
  const auto has = [&](const char* code, const std::string& bytes) {
    return std::ranges::count(codes, fmt::format("{} at=blobs/sha256/{}", code, Sha256::Of(bytes).Hex())) == 1;
  };
  CHECK(has("E301", kSafetyBytes));
  CHECK(has("E302", kStyleBytes));
  CHECK(has("E305", kBaseBytes));
  CHECK(codes.size() == 3);
}

TEST_CASE("fsck: what a name needs must be there") {
  StoreFixture store;
  const Digest missing = Sha256::Of("missing");
  CHECK(store.Open().PutRef({RefKind::kBase, "x", fmt::format(R"({{"file":"{}"}})", missing.Text())}));
  CHECK(Codes(store.Fsck(false, false)) == Lines{"E301 at=blobs/sha256/" + missing.Hex()});
}

TEST_CASE("fsck: a foreign, torn or missing index is W2 and is made again by repair; activation does not care") {
  StoreFixture store;
  Must(store.Activate(store.a));
  CHECK(store.Open().PutRef({RefKind::kComposition, "mine", fmt::format(R"({{"composition":"{}"}})", store.b.Text())}));
  const std::string index = ReadAll(store.root() / "index.json");
  CHECK(index == fmt::format(R"({{"manifests":[{{"annotations":{{"org.opencontainers.image.ref.name":"mine"}},"digest":"{}",)"
                             R"("mediaType":"application/vnd.veneer.composition.v1+json","size":{}}},)"
                             R"({{"annotations":{{"veneer.generation":"2"}},"digest":"{}",)"
                             R"("mediaType":"application/vnd.veneer.composition.v1+json","size":{}}}],)"
                             R"("mediaType":"application/vnd.oci.image.index.v1+json","schemaVersion":2}})",
                             store.b.Text(), CompositionText({"safety"}).size(), store.a.Text(), CompositionText({"style"}).size()));
  CHECK(ReadAll(store.root() / "oci-layout") == R"({"imageLayoutVersion":"1.0.0"})");
  for (const std::string bytes : {"", "{\"manifests\":[", "{}"}) {
    WriteFile(store.root() / "index.json", bytes);
    CHECK(Codes(store.Fsck(false, false)) == Lines{"W2 at=index.json"});
    CHECK(Codes(store.Fsck(false, true)) == Lines{"W2 at=index.json repaired"});
    CHECK(ReadAll(store.root() / "index.json") == index);
  }
  WriteFile(store.root() / "index.json", "{");
  CHECK(Must(store.Activate(store.b)).changed);
  CHECK(store.Fsck().clean());
}

TEST_CASE("fsck: an old record that was changed breaks the chain of generations, and repair leaves it") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  const fs::path record = store.root() / "veneer/gen/2";
  std::string bytes = ReadAll(record);
  bytes.replace(bytes.find("\"build\":\"test\""), 14, "\"build\":\"tesT\"");
  WriteFile(record, bytes);
  CHECK(Codes(store.Fsck(false, true)) == Lines{"E602 at=veneer/gen/3"});
  fs::remove(record);
  CHECK(Codes(store.Fsck(false, true)) == Lines{"E602 at=veneer/gen/2"});
}

TEST_CASE("fsck: foreign names among the blobs and beside the pointer are said and left alone") {
  StoreFixture store;
  WriteFile(store.root() / "blobs/sha256/readme.txt", "hello");
  WriteFile(store.root() / "veneer/state/CURRENT.bak", "hello");
  CHECK(Codes(store.Fsck(false, true)) == Lines{"E602 at=blobs/sha256/readme.txt", "E602 at=veneer/state/CURRENT.bak"});
  CHECK(fs::exists(store.root() / "blobs/sha256/readme.txt"));
}

TEST_CASE("fsck: progress reaches the number of bytes of all blobs") {
  StoreFixture store;
  std::uint64_t last = 0, all = 0;
  const auto progress = [&](std::uint64_t done, std::uint64_t total) {
    last = done;
    all = total;
  };
  const FsckReport report = Must(store.Open().Fsck({true, false, progress}));
  CHECK(last == all);
  CHECK(all == report.blob_bytes);
}

TEST_CASE("fsck: foreign names in each folder of the store, and a second name of a blob, are found") {
  StoreFixture store;
  for (const char* name : {"veneer/notes", "veneer/audit/seg-01", "veneer/verified/x", "veneer/trash/x", "veneer/state/x"})
    WriteFile(store.root() / name, "x");
  fs::create_hard_link(store.blob(kStyleBytes), store.Aside("second"));
  CHECK(Codes(store.Fsck(false)) == Lines{"E305 at=blobs/sha256/" + Sha256::Of(kStyleBytes).Hex(), "E602 at=veneer/notes",
                                          "E602 at=veneer/state/x", "E602 at=veneer/audit/seg-01", "E602 at=veneer/trash/x",
                                          "E602 at=veneer/verified/x"});
}

TEST_CASE("fsck: modes that let others write, blobs of another mode, and what is no file where the store has files, are named") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const auto said = [&] { return Codes(store.Fsck(false, false)); };
  const std::string blob = "blobs/sha256/" + Sha256::Of(kStyleBytes).Hex();
  for (const int mode : {0, 04444, 0440}) {
    fs::permissions(store.blob(kStyleBytes), static_cast<fs::perms>(mode));
    const Lines found = said();
    CHECK(std::ranges::count(found, "E305 at=" + blob) == 1);
  }
  fs::permissions(store.blob(kStyleBytes), static_cast<fs::perms>(0444));
  CHECK(said() == Lines{});
  for (const char* file : {"state/CURRENT", "gen/2", "audit/seg-1", "FORMAT", "lock"}) {
    fs::permissions(store.root() / "veneer" / file, static_cast<fs::perms>(0666));
    CHECK(said() == Lines{std::string("E609 at=veneer/") + file});
    fs::permissions(store.root() / "veneer" / file, static_cast<fs::perms>(0600));
  }
  fs::create_directory(store.root() / "veneer/refs/other");
  fs::create_directory(store.root() / "veneer/refs/base/folder");
  const Lines found = said();
  CHECK(std::ranges::count(found, "E602 at=veneer/refs/other") == 1);
  CHECK(std::ranges::count(found, "E602 at=veneer/refs/base/folder") == 1);
  fs::remove(store.root() / "veneer/refs/other");
  fs::remove(store.root() / "veneer/refs/base/folder");
  fs::remove(store.root() / "veneer/lock");
  REQUIRE(mkfifo((store.root() / "veneer/lock").c_str(), 0600) == 0);
  CHECK(said() == Lines{"E602 at=veneer/lock"});
}
