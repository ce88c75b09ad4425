// A large blob is proven part by part on several threads, and what is kept for that is never believed.
#include "core/store/midstates.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>

#include "core/store/counting_sys.h"
#include "core/store/crc32c.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/crowd_sys.h"

using namespace veneer;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::string Noise(std::uint64_t size, std::uint64_t seed = 1) {
  std::string bytes(size, '\0');
  for (std::uint64_t i = 0; i < size; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = static_cast<char>(seed >> 56);
  }
  return bytes;
}

// Six parts, the last of five bytes.
const std::string& Large() {
  static const std::string bytes = Noise(20 * kMiB + 5);
  return bytes;
}
const Digest& LargeDigest() {
  static const Digest digest = Sha256::Of(Large());
  return digest;
}

Midstates MidstatesFor(const std::string& bytes) {
  MidstateHasher hash;
  hash.Update(bytes);
  (void)hash.Finish();
  return hash.midstates();
}

class LargeFixture : public StoreFixture {
 public:
  explicit LargeFixture(const std::string& bytes = Large()) { Must(OpenOn(posix).PutBlob(bytes)); }

  [[nodiscard]] Store OpenOn(Sys& sys, std::uint32_t threads = 3) const {
    return Must(Store::Open(sys, root().string(), {.build = "test", .threads = threads}));
  }
  [[nodiscard]] fs::path midstates(const std::string& bytes = Large()) const {
    return root() / "veneer/verified" / MidstatesName(Sha256::Of(bytes));
  }
  // Without a stamp, so it is proven again.
  [[nodiscard]] Result<OpenedBlob> Prove(VerifyMode mode = VerifyMode::kStamp, const Progress& progress = {}) {
    fs::remove(root() / "veneer/verified" / LargeDigest().Hex());
    return OpenOn(posix).OpenBlob(LargeDigest(), std::nullopt, mode, progress);
  }
  void Overwrite(const std::string& bytes) const {  // the bytes of the blob, in place
    WriteFile(blob(Large()), bytes);
    fs::permissions(blob(Large()), fs::perms::owner_write, fs::perm_options::remove);
  }
};

// Fails, interrupts and shortens reads of the blob.
class RoughSys final : public CountingSys {
 public:
  using CountingSys::CountingSys;
  SysResult<std::size_t> Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) override {
    if (offset >= 5 * kMiB && failures > 0 && failures-- > 0) return std::unexpected(error);
    return CountingSys::Pread(fd, shorten && buffer.size() > 1000 ? buffer.first(buffer.size() - 777) : buffer, offset);
  }
  std::atomic<int> failures{0};
  int error = EIO;
  bool shorten = false;
};

}  // namespace

TEST_CASE("midstates: the hasher keeps the state after each step however the bytes come, and none at the end of the file") {
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, kMidstateStep, kMidstateStep + 1, 2 * kMidstateStep, 2 * kMidstateStep + 9}) {
    CAPTURE(size);
    const std::string bytes = Noise(size, 7);
    MidstateHasher hash;
    for (std::uint64_t at = 0, n = 1; at < size; at += n, n = n * 3 + 1) hash.Update(std::string_view(bytes).substr(at, n));
    CHECK(hash.Finish() == Sha256::Of(bytes));
    REQUIRE(hash.midstates().size() == (size == 0 ? 0 : (size - 1) / kMidstateStep));
    for (std::uint64_t i = 0; i < hash.midstates().size(); ++i) {
      ResumableSha256 rest(hash.midstates()[i], (i + 1) * kMidstateStep);
      rest.Update(std::as_bytes(std::span(bytes)).subspan((i + 1) * kMidstateStep));
      CHECK(rest.Finish() == Sha256::Of(bytes));
    }
  }
}

TEST_CASE("midstates: an import keeps them for a file above 8 MiB and makes no call for one of 8 MiB") {
  const std::string small = Noise(8 * kMiB, 2), large = Noise(8 * kMiB + 1, 3);
  StoreFixture store;
  SimSys sys(store.posix);
  Store handle = Must(store.TryOpen(sys));
  const auto names_them = [&sys] {
    return std::ranges::any_of(sys.trace(), [](const std::string& line) { return line.find(".midstates") != std::string::npos; });
  };
  Must(handle.PutBlob(small));
  Must(handle.OpenBlob(Sha256::Of(small)));
  Must(handle.CollectGarbage({.grace = std::chrono::seconds(0)}));
  CHECK_FALSE(names_them());
  Must(handle.PutBlob(large));
  CHECK(names_them());
  CHECK(Must(store.Open().OpenBlob(Sha256::Of(large))).size == large.size());
  CHECK(fs::exists(store.root() / "veneer/verified" / MidstatesName(Sha256::Of(large))));
}

TEST_CASE("midstates: the text names its file, has a state a line, and reads back only for that file") {
  const Midstates states = MidstatesFor(Large());
  const std::string text = PrintMidstates(LargeDigest(), Large().size(), states);
  CHECK(text.starts_with(fmt::format("veneer-midstates 1\nfile {}\nsize 20971525\nstep 4194304\n", LargeDigest().Text())));
  CHECK(std::ranges::count(text, '\n') == 4 + 5 + 1);
  CHECK(ParseMidstates(text, LargeDigest(), Large().size()) == states);
  CHECK_FALSE(ParseMidstates(text, Sha256::Of("other"), Large().size()));
  CHECK_FALSE(ParseMidstates(text, LargeDigest(), Large().size() + 1));
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    if (ParseMidstates(flipped, LargeDigest(), Large().size())) FAIL("a flipped bit in byte " << at << " is not seen");
    if (ParseMidstates(text.substr(0, at), LargeDigest(), Large().size())) FAIL("a cut at byte " << at << " is not seen");
  }
  CHECK(DigestOfMidstates(MidstatesName(LargeDigest())) == LargeDigest());
  for (const char* name : {"", ".midstates", "midstates", "0123.midstates"}) CHECK_FALSE(DigestOfMidstates(name));
  CHECK_FALSE(DigestOfMidstates(LargeDigest().Hex()));
}

TEST_CASE("midstates: as many threads as allowed read a blob at once, every byte of it once; without midstates it is one") {
  LargeFixture store;
  for (const std::uint32_t threads : {1u, 2u, 4u}) {
    CAPTURE(threads);
    CrowdSys sys(store.posix, threads);
    const Store handle = store.OpenOn(sys, threads);
    sys.Reset();
    Must(handle.OpenBlob(LargeDigest(), std::nullopt, VerifyMode::kFull));
    CHECK(sys.most() == threads);
    CHECK(sys.counts().blob_bytes_read == Large().size());
  }
  fs::remove(store.midstates());
  CrowdSys sys(store.posix, 1);
  Must(store.OpenOn(sys, 4).OpenBlob(LargeDigest(), std::nullopt, VerifyMode::kFull));
  CHECK(sys.most() == 1);
  CHECK(fs::exists(store.midstates()));
}

TEST_CASE("midstates: a flipped bit in any part, its first byte or its last, is the E303 that one thread gives") {
  LargeFixture store;
  const std::string kept = ReadAll(store.midstates());
  std::vector<std::uint64_t> places;
  for (std::uint64_t begin = 0; begin < Large().size(); begin += kMidstateStep)
    places.insert(places.end(), {begin, std::min<std::uint64_t>(begin + kMidstateStep, Large().size()) - 1});
  REQUIRE(places.size() == 12);
  for (const std::uint64_t at : places) {
    CAPTURE(at);
    std::string bytes = Large();
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    store.Overwrite(bytes);
    for (const VerifyMode mode : {VerifyMode::kStamp, VerifyMode::kFull}) {
      const auto opened = store.Prove(mode);
      REQUIRE_FALSE(opened);
      CHECK(opened.error().code == Code::HASH_MISMATCH);
      CHECK(opened.error().detail ==
            fmt::format("blob {} holds {} bytes that hash to {}; run `veneer fsck --repair`, then import the file again",
                        LargeDigest().Text(), bytes.size(), Sha256::Of(bytes).Text()));
    }
  }
  CHECK(ReadAll(store.midstates()) == kept);
  store.Overwrite(Large());
  CHECK(store.Prove());
}

TEST_CASE("midstates: absent, torn, flipped, swapped or foreign ones cost speed alone, are not spoken of, and are made again") {
  LargeFixture store;
  const std::string right = ReadAll(store.midstates());
  const std::string other = Noise(20 * kMiB + 5, 9);
  const Midstates states = MidstatesFor(Large());
  Midstates swapped = states, last = states, few = states;
  std::swap(swapped[1], swapped[3]);
  last.back()[0] ^= 1;
  few.pop_back();
  const auto print = [](const Midstates& these) { return PrintMidstates(LargeDigest(), Large().size(), these); };
  std::string flipped = right;
  flipped[flipped.size() / 2] ^= 1;
  const std::pair<const char*, std::string> cases[] = {
      {"empty", ""},
      {"torn", right.substr(0, right.size() / 2)},
      {"flipped", flipped},
      {"of another file", PrintMidstates(Sha256::Of(other), other.size(), MidstatesFor(other))},
      {"another file's under this one's name", print(MidstatesFor(other))},
      {"swapped", print(swapped)},
      {"the last one wrong", print(last)},
      {"one missing", print(few)},
      {"very long", right + std::string(100'000, ' ')},
  };
  for (const auto& [name, text] : cases) {
    CAPTURE(name);
    WriteFile(store.midstates(), text);
    std::vector<std::uint64_t> progress;
    CHECK(store.Prove(VerifyMode::kStamp, [&](std::uint64_t done, std::uint64_t total) {
      CHECK(total == Large().size());
      progress.push_back(done);
    }));
    CHECK(std::ranges::is_sorted(progress));
    CHECK(progress.back() == Large().size());
    CHECK(ReadAll(store.midstates()) == right);
  }
  fs::remove(store.midstates());
  CHECK(store.Prove());
  CHECK(ReadAll(store.midstates()) == right);
  fs::remove(store.midstates());
  fs::create_directory(store.midstates());  // cannot be made again
  CHECK(store.Prove());
}

TEST_CASE("midstates: whoever writes other bytes into a blob and their midstates beside it gains nothing") {
  LargeFixture store;
  const std::string other = Noise(Large().size(), 4);
  store.Overwrite(other);
  WriteFile(store.midstates(), PrintMidstates(LargeDigest(), other.size(), MidstatesFor(other)));
  REQUIRE_FALSE(store.Prove());
  CHECK(store.Prove().error().code == Code::HASH_MISMATCH);
  // The bytes of one part, and the states that they lead from and to; all others are right.
  for (const std::uint64_t part : {0u, 2u, 5u}) {
    CAPTURE(part);
    std::string mixed = Large();
    const std::uint64_t begin = part * kMidstateStep, n = std::min(kMidstateStep, Large().size() - begin);
    mixed.replace(begin, n, other, begin, n);
    Midstates states = MidstatesFor(Large());
    if (part < states.size()) states[part] = MidstatesFor(mixed)[part];
    store.Overwrite(mixed);
    WriteFile(store.midstates(), PrintMidstates(LargeDigest(), mixed.size(), states));
    CHECK_FALSE(store.Prove());
  }
}

TEST_CASE("midstates: a read that fails is tried by the hash of the whole; interrupted and short ones go on") {
  LargeFixture store;
  RoughSys sys(store.posix);
  const Store handle = store.OpenOn(sys);
  const auto prove = [&] { return handle.OpenBlob(LargeDigest(), std::nullopt, VerifyMode::kFull); };
  sys.failures = 1;
  CHECK(prove());
  sys.failures = 1'000'000;
  REQUIRE_FALSE(prove());
  CHECK(prove().error().code == Code::IO);
  sys.failures = 20;
  sys.error = EINTR;
  sys.shorten = true;
  sys.Reset();
  CHECK(prove());
  CHECK(sys.counts().blob_bytes_read == Large().size());  // so the parts were enough
}

TEST_CASE("midstates: a blob that became shorter or longer is refused, with them or without") {
  LargeFixture store;
  for (const std::string& bytes : {Large().substr(0, 17 * kMiB), Large().substr(0, kMiB), Large() + "x"}) {
    CAPTURE(bytes.size());
    store.Overwrite(bytes);
    REQUIRE_FALSE(store.Prove());
    CHECK(store.Prove().error().code == Code::HASH_MISMATCH);
  }
}

TEST_CASE("midstates: a collection takes them with their blob, and an import from the trash keeps them again") {
  LargeFixture store;
  Store handle = store.Open();
  CHECK(fs::exists(store.midstates()));
  Must(handle.CollectGarbage({}));
  CHECK_FALSE(fs::exists(store.midstates()));
  CHECK(Text(store.Fsck()) == "");
  Must(handle.PutBlob(Large()));
  CHECK(fs::exists(store.midstates()));
}

TEST_CASE("midstates: an import over a bad file keeps them, and one of a file that is there makes those that are missing") {
  LargeFixture store;
  const std::string right = ReadAll(store.midstates());
  fs::remove(store.midstates());
  Must(store.Open().PutBlob(Large()));
  CHECK(ReadAll(store.midstates()) == right);
  store.Overwrite(Noise(Large().size(), 5));
  Must(store.Open().PutBlob(Large()));
  CHECK(ReadAll(store.midstates()) == right);
  CHECK(Text(store.Fsck(true)) == "");
  CHECK(store.Prove());
}

TEST_CASE("midstates: fsck names damaged ones and those without a blob, and --repair removes both; the full check mends wrong ones") {
  LargeFixture store;
  const std::string right = ReadAll(store.midstates());
  const fs::path orphan = store.midstates("no blob");
  WriteFile(store.midstates(), right.substr(1));
  WriteFile(orphan, right);
  const std::string at = "veneer/verified/";
  const FsckReport found = store.Fsck(false);
  REQUIRE(found.findings.size() == 2);
  for (const Finding& finding : found.findings) {
    CHECK(finding.code == "E602 STATE_CORRUPT");
    CHECK_FALSE(finding.repaired);
    const bool is_orphan = finding.at == at + orphan.filename().string();
    CHECK((is_orphan || finding.at == at + store.midstates().filename().string()));
    CHECK((finding.detail.find("not there") != std::string::npos) == is_orphan);
  }
  CHECK_FALSE(store.Fsck(false, true).problems_left());
  CHECK_FALSE(fs::exists(store.midstates()));
  CHECK_FALSE(fs::exists(orphan));
  CHECK(Text(store.Fsck(true)) == "");
  CHECK(ReadAll(store.midstates()) == right);

  Midstates wrong = MidstatesFor(Large());
  wrong[2][2] ^= 4;
  WriteFile(store.midstates(), PrintMidstates(LargeDigest(), Large().size(), wrong));
  CHECK(Text(store.Fsck(true)) == "");
  CHECK(ReadAll(store.midstates()) == right);

  store.Overwrite(Noise(Large().size(), 6));
  CHECK_FALSE(store.Fsck(true, true).problems_left());  // the blob goes into quarantine, and what was kept for it away
  CHECK_FALSE(fs::exists(store.midstates()));
}
