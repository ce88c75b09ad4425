// The simulated disk itself: what each pattern of writing a file can leave, as the table of patterns says it of real file systems.
#include <fmt/format.h>

#include <set>

#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/sim_disk.h"

using namespace veneer;

namespace {

constexpr const char* kOld = "the old bytes of the file\n";
constexpr const char* kNew = "NEW BYTES, longer than the old ones\n";

// A disk with one durable file, and its directory open.
struct OneFile {
  OneFile() : disk(WithFile()), dir(*disk.OpenRoot("")) {}
  static SimImage WithFile() {
    SimImage image;
    image.Write("file", kOld);
    return image;
  }
  UniqueFd Create(const std::string& name) { return *disk.Open(dir.get(), name, OpenMode::kCreate, 0600); }
  void Put(const UniqueFd& fd, const std::string& text) { (void)disk.Write(fd.get(), std::as_bytes(std::span(text))); }
  SimDisk disk;
  UniqueFd dir;
};

// What "file" can hold after a cut: nothing stands for an absent file.
std::set<std::optional<std::string>> Left(const SimImage& image, CutOrder order) {
  std::set<std::optional<std::string>> left;
  for (std::uint64_t choice = 0; choice < image.Cuts(order); ++choice) left.insert(image.PowerCut(order, choice).Read("file"));
  return left;
}

using Contents = std::set<std::optional<std::string>>;

}  // namespace

TEST_CASE("model: a file that is truncated and written in place may be empty, torn or zeros after a power cut") {
  OneFile f;
  const UniqueFd fd = *f.disk.Open(f.dir.get(), "file", OpenMode::kReadWrite, 0);
  REQUIRE(f.disk.Truncate(fd.get(), 0));
  CHECK(Left(f.disk.image(), CutOrder::kOrdered) == Contents{kOld, ""});
  f.Put(fd, kNew);
  const Contents left = Left(f.disk.image(), CutOrder::kOrdered);
  CHECK(left.contains(kOld));
  CHECK(left.contains(kNew));
  CHECK(left.contains(std::string(kNew).substr(0, std::string(kNew).size() / 2)));
  CHECK(left.contains(std::string(std::string(kNew).size(), '\0')));
  CHECK(left.size() == 6);
  REQUIRE(f.disk.Fsync(fd.get()));
  CHECK(Left(f.disk.image(), CutOrder::kSubset) == Contents{kNew});
}

TEST_CASE("model: temp and rename without a sync leave a torn file, in order or not") {
  for (const CutOrder order : {CutOrder::kOrdered, CutOrder::kSubset}) {
    OneFile f;
    f.Put(f.Create("temp"), kNew);
    REQUIRE(f.disk.Rename(f.dir.get(), "temp", f.dir.get(), "file"));
    const Contents left = Left(f.disk.image(), order);
    CHECK(left.contains(""));
    CHECK(left.contains(std::string(std::string(kNew).size(), '\0')));
    CHECK(left.contains(kOld));
    CHECK(left.contains(kNew));
  }
}

TEST_CASE("model: temp, sync and rename leave a whole file, but maybe the old one") {
  OneFile f;
  const UniqueFd fd = f.Create("temp");
  f.Put(fd, kNew);
  REQUIRE(f.disk.Fsync(fd.get()));
  REQUIRE(f.disk.Rename(f.dir.get(), "temp", f.dir.get(), "file"));
  CHECK(Left(f.disk.image(), CutOrder::kOrdered) == Contents{kOld, kNew});
  CHECK(Left(f.disk.image(), CutOrder::kSubset) == Contents{kOld, kNew});
}

TEST_CASE("model: temp, sync, rename and sync of the directory leave the new file and nothing else") {
  OneFile f;
  const UniqueFd fd = f.Create("temp");
  f.Put(fd, kNew);
  REQUIRE(f.disk.Fsync(fd.get()));
  REQUIRE(f.disk.Rename(f.dir.get(), "temp", f.dir.get(), "file"));
  REQUIRE(f.disk.Fsync(f.dir.get()));
  for (const CutOrder order : {CutOrder::kOrdered, CutOrder::kSubset}) {
    CHECK(f.disk.image().Cuts(order) == 1);
    CHECK(Left(f.disk.image(), order) == Contents{kNew});
    CHECK(f.disk.image().PowerCut(order, 0).List("") == std::vector<std::string>{"file"});
  }
}

TEST_CASE("model: without a sync of the directory changes survive up to a point, or any of them alone") {
  OneFile f;
  for (const char* name : {"a", "b"}) REQUIRE(f.disk.MakeDirectory(f.dir.get(), name, 0700));
  const auto names = [&](CutOrder order) {
    std::set<std::vector<std::string>> all;
    for (std::uint64_t i = 0; i < f.disk.image().Cuts(order); ++i) all.insert(f.disk.image().PowerCut(order, i).List(""));
    return all;
  };
  using Names = std::set<std::vector<std::string>>;
  CHECK(names(CutOrder::kOrdered) == Names{{"file"}, {"a", "file"}, {"a", "b", "file"}});
  CHECK(names(CutOrder::kSubset) == Names{{"file"}, {"a", "file"}, {"b", "file"}, {"a", "b", "file"}});
}

TEST_CASE("model: a rename between directories survives whole or not at all, and needs both directories synced") {
  OneFile f;
  REQUIRE(f.disk.MakeDirectory(f.dir.get(), "sub", 0700));
  REQUIRE(f.disk.Fsync(f.dir.get()));
  const UniqueFd sub = *f.disk.Open(f.dir.get(), "sub", OpenMode::kDirectory, 0);
  REQUIRE(f.disk.Rename(f.dir.get(), "file", sub.get(), "moved"));
  REQUIRE(f.disk.Fsync(sub.get()));
  REQUIRE(f.disk.image().Cuts(CutOrder::kSubset) == 2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const SimImage image = f.disk.image().PowerCut(CutOrder::kSubset, i);
    CHECK(image.Read("file").has_value() != image.Read("sub/moved").has_value());
  }
  REQUIRE(f.disk.Fsync(f.dir.get()));
  CHECK(f.disk.image().Cuts(CutOrder::kSubset) == 1);
}

TEST_CASE("model: after a failed sync the bytes are still seen, never written, and the next sync says it worked") {
  OneFile f;
  const UniqueFd fd = *f.disk.Open(f.dir.get(), "file", OpenMode::kAppend, 0);
  f.Put(fd, "lost\n");
  f.disk.sync_error = EIO;
  CHECK(f.disk.Fsync(fd.get()).error() == EIO);
  f.disk.sync_error = 0;
  CHECK(f.disk.image().Read("file") == std::string(kOld) + "lost\n");
  CHECK(f.disk.Fsync(fd.get()));
  CHECK(Left(f.disk.image(), CutOrder::kSubset) == Contents{kOld});
  f.Put(fd, "kept\n");
  CHECK(f.disk.Fsync(fd.get()));
  CHECK(Left(f.disk.image(), CutOrder::kSubset) == Contents{std::string(kOld) + std::string(5, '\0') + "kept\n"});
}

TEST_CASE("model: an unnamed file lives as long as its descriptor, and longer once it is linked") {
  OneFile f;
  const std::uint64_t before = f.disk.image().Fingerprint();
  {
    const UniqueFd fd = *f.disk.Open(f.dir.get(), "", OpenMode::kUnnamed, 0444);
    f.Put(fd, kNew);
    CHECK(f.disk.image().Fingerprint() == before);
    CHECK(f.disk.Stat(fd.get())->links == 0);
    REQUIRE(f.disk.Fsync(fd.get()));
    REQUIRE(f.disk.LinkUnnamed(fd.get(), f.dir.get(), "linked"));
    CHECK(f.disk.LinkUnnamed(fd.get(), f.dir.get(), "file").error() == EEXIST);
    CHECK(f.disk.Stat(fd.get())->links == 1);
    CHECK(f.disk.open_descriptors() == 2);
  }
  CHECK(f.disk.open_descriptors() == 1);
  CHECK(f.disk.image().Read("linked") == kNew);
  CHECK(f.disk.image().PowerCut(CutOrder::kSubset, 0).Read("linked") == std::nullopt);
}

TEST_CASE("model: locks belong to the open file, exclude as on Linux and end with it or with its process") {
  OneFile f;
  const auto open = [&](int process) {
    f.disk.process = process;
    return *f.disk.Open(f.dir.get(), "file", OpenMode::kReadWrite, 0);
  };
  const UniqueFd first = open(1);
  {
    const UniqueFd second = open(2);
    CHECK(f.disk.TryLock(first.get(), 0, LockKind::kShared) == true);
    CHECK(f.disk.TryLock(second.get(), 0, LockKind::kShared) == true);
    CHECK(f.disk.TryLock(first.get(), 0, LockKind::kExclusive) == false);
    CHECK(f.disk.TryLock(first.get(), 1, LockKind::kExclusive) == true);
    CHECK(f.disk.TryLock(second.get(), 1, LockKind::kExclusive) == false);
  }
  CHECK(f.disk.TryLock(first.get(), 0, LockKind::kExclusive) == true);
  const UniqueFd third = open(3);
  CHECK(f.disk.TryLock(third.get(), 0, LockKind::kExclusive) == false);
  f.disk.Kill(1);
  CHECK(f.disk.TryLock(third.get(), 0, LockKind::kExclusive) == true);
  CHECK(f.disk.Fsync(first.get()).error() == EBADF);
}

TEST_CASE("model: the same calls from the same seed give the same bytes, another seed gives others") {
  const auto bytes = [](std::uint64_t seed) {
    SimDisk disk{SimImage(seed)};
    std::vector<std::byte> some(64);
    REQUIRE(disk.Random(some));
    return some;
  };
  CHECK(bytes(1) == bytes(1));
  CHECK(bytes(1) != bytes(2));
}
