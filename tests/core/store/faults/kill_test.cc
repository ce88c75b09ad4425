// L3: a real SIGKILL around every call of every operation that changes anything, in a child process on the real file system. The
// disk that is left is read back into memory and judged like all others.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/store/posix_sys.h"
#include "tests/core/store/faults/harness.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace veneer;
namespace fs = std::filesystem;

namespace {

constexpr int kKilled = 128 + SIGKILL;
constexpr std::int64_t kSecondNs = 1'000'000'000;

void WriteOut(const SimImage& image, const std::string& path, const fs::path& to) {
  for (const std::string& name : image.List(path)) {
    const std::string below = path.empty() ? name : path + "/" + name;
    const auto permissions = static_cast<fs::perms>(*image.Permissions(below));
    if (image.IsDirectory(below)) {
      fs::create_directory(to / name);
      WriteOut(image, below, to / name);
    } else {
      WriteFile(to / name, *image.Read(below));
    }
    fs::permissions(to / name, permissions);
  }
}

void ReadBack(const fs::path& from, const std::string& path, SimImage& image) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    const std::string below = path.empty() ? name : path + "/" + name;
    const auto permissions = static_cast<std::uint32_t>(entry.status().permissions());
    if (entry.is_directory()) {
      image.MakeDirectory(below, permissions);
      ReadBack(entry.path(), below, image);
    } else {
      image.Write(below, ReadAll(entry.path()), permissions);
    }
  }
}

// Does the operation in this folder, in a child. Exit status: 0 success, 1 an error, kKilled.
int RunInFolder(
    const Operation& operation, const fs::path& folder, const std::function<void(SimSys& sys)>& arm,
    const std::function<void(SimSys& sys)>& done = [](SimSys&) {}) {
  return RunInChild([&] {
    if (chdir(folder.c_str()) != 0) return 98;
    PosixSys posix;
    SimSys sys(posix);
    sys.unnamed_files = operation.unnamed_files;
    const Running run = operation.start(sys);
    sys.Reset();
    arm(sys);
    Ack ack = Ack::kNone;
    const int status = run(ack) ? 0 : 1;
    done(sys);
    return status;
  });
}

void MakeFolder(const Operation& operation, const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directory(folder);
  WriteOut(operation.before, "", folder);
}

std::vector<std::string> TraceOf(const Operation& operation, const fs::path& folder) {
  MakeFolder(operation, folder);
  const fs::path file = folder.parent_path() / "trace";
  const auto save = [&file](SimSys& sys) { WriteFile(file, fmt::format("{}", fmt::join(sys.trace(), "\n"))); };
  REQUIRE(RunInFolder(operation, folder, [](SimSys&) {}, save) == 0);
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A kill after any other call leaves the disk that a kill before it leaves: the calls in between are not killed at twice.
bool ChangesTheDisk(const std::string& line) {
  for (const char* call : {"write ", "truncate ", "chmod ", "mkdir ", "make ", "rename ", "link ", "unlink "})
    if (line.starts_with(call)) return true;
  return line.starts_with("open ") && (line.ends_with('~') || line.starts_with("open veneer/staging/") || line == "open veneer/lock");
}

void KillEverywhere(const Operation& operation, const fs::path& folder) {
  Cases cases("L3 " + operation.name);
  const auto trace = TraceOf(operation, folder);
  for (std::uint64_t n = 1; n <= trace.size(); ++n) {
    const bool last = n == trace.size();
    if (n > 1 && !last && !ChangesTheDisk(trace[n - 2])) continue;
    ++cases.points;
    MakeFolder(operation, folder);
    const int status = RunInFolder(operation, folder, [&](SimSys& sys) { last ? sys.KillAfter(n) : sys.KillBefore(n); });
    SimImage left(Seed());
    left.wall_ns = operation.before.wall_ns + kSecondNs;
    ReadBack(folder, "", left);
    std::vector<std::string> violations;
    if (status == kKilled) ++cases.points_reached;
    for (std::string& violation : CheckStopped(operation, left, Ack::kNone, cases)) violations.push_back(std::move(violation));
    if (cases.Next())
      cases.Report(violations, [&] { return fmt::format("killed {} call {}, {}", last ? "after" : "before", n, trace[n - 1]); });
  }
  CHECK(cases.points_reached == cases.points);
}

}  // namespace

TEST_CASE("L3: SIGKILL around any call of any operation leaves the old or the new state and a store that recovers") {
  UseMemoryDisk();
  const TempDir dir;
  for (const Operation& operation : Operations())
    if (operation.own_code) KillEverywhere(operation, dir.path() / "disk");
}
