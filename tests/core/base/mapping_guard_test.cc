#include "core/base/mapping_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/temp_dir.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

// What fork leaves: the exit status, or 128 + the signal.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGBUS, SIGSEGV}) ::signal(signal, SIG_DFL);  // not Catch2's, nor a sanitizer's
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A file of `pages` pages of ones, mapped.
struct Mapped {
  explicit Mapped(std::size_t pages) : size(pages * kPage) {
    WriteAll(path, std::string(size, '\1'));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    data = static_cast<const volatile char*>(mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0));
    close(fd);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { munmap(const_cast<char*>(data), size); }
  void Cut(std::size_t pages) const { fs::resize_file(path, pages * kPage); }
  [[nodiscard]] std::size_t Sum() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < size; ++i) sum += static_cast<std::size_t>(data[i]);
    return sum;
  }
  [[nodiscard]] const void* begin() const { return const_cast<const char*>(data); }
  TempDir dir;
  fs::path path = dir.path() / "file";
  std::size_t size;
  const volatile char* data;
};

TEST_CASE("mapping guard: what was lost of a guarded mapping reads as zeros, what was not reads as it is, and the mapping is marked") {
  CHECK(InChild([] {
          const Mapped file(8);
          if (!InstallMappingGuard()) return 1;
          const MappingGuard guard(file.begin(), file.size);
          if (file.Sum() != file.size || guard.is_broken()) return 2;
          file.Cut(3);
          if (file.Sum() != 3 * kPage) return 3;
          return guard.is_broken() ? 0 : 4;
        }) == 0);
}

TEST_CASE("mapping guard: any number of threads may come upon the loss at once") {
  CHECK(InChild([] {
          const Mapped file(64);
          if (!InstallMappingGuard()) return 1;
          const MappingGuard guard(file.begin(), file.size);
          std::atomic<bool> go{false};
          std::atomic<int> right{0};
          std::vector<std::thread> threads;
          for (int i = 0; i < 8; ++i)
            threads.emplace_back([&] {
              while (!go) {
              }
              if (file.Sum() == kPage) ++right;
            });
          file.Cut(1);
          go = true;
          for (std::thread& thread : threads) thread.join();
          return right == 8 ? 0 : 2;
        }) == 0);
}

TEST_CASE("mapping guard: only the mapping that lost something is marked, with a hundred guarded ones, and slots are used again") {
  CHECK(InChild([] {
          if (!InstallMappingGuard()) return 1;
          for (int round = 0; round < 3; ++round) {
            std::deque<Mapped> files;
            std::deque<MappingGuard> guards;
            for (int i = 0; i < 100; ++i) {
              const Mapped& file = files.emplace_back(2);
              guards.emplace_back(file.begin(), file.size);
            }
            for (const std::size_t lost : {std::size_t{7}, std::size_t{90}}) {
              files[lost].Cut(1);
              if (files[lost].Sum() != kPage) return 2;
            }
            for (std::size_t i = 0; i < guards.size(); ++i)
              if (guards[i].is_broken() != (i == 7 || i == 90)) return 3;
            guards.clear();  // before the mappings
          }
          return 0;
        }) == 0);
}

void ExitWith42(int /*signal*/) { _exit(42); }
void ExitWithAddress(int /*signal*/, siginfo_t* info, void* context) {
  _exit(info->si_addr != nullptr && context != nullptr && info->si_code == BUS_ADRERR ? 43 : 44);
}

TEST_CASE("mapping guard: a fault in a foreign mapping, or one no longer guarded, goes to the handler that was there before") {
  const auto fault = [](const std::function<void()>& install_earlier, bool was_guarded) {
    return InChild([&] {
      install_earlier();
      if (!InstallMappingGuard()) return 1;
      const Mapped other(2), file(2);
      const MappingGuard of_other(other.begin(), other.size);
      if (was_guarded) const MappingGuard gone(file.begin(), file.size);
      file.Cut(1);
      return file.Sum() > 0 ? 2 : 3;
    });
  };
  for (const bool was_guarded : {false, true}) {
    CAPTURE(was_guarded);
    CHECK(fault([] {}, was_guarded) == 128 + SIGBUS);
    CHECK(fault([] { signal(SIGBUS, SIG_IGN); }, was_guarded) == 128 + SIGBUS);  // as the kernel does without us
    CHECK(fault([] { signal(SIGBUS, ExitWith42); }, was_guarded) == 42);
    const auto with_information = [] {
      struct sigaction action{};
      action.sa_sigaction = ExitWithAddress;
      action.sa_flags = SA_SIGINFO;
      sigaction(SIGBUS, &action, nullptr);
    };
    CHECK(fault(with_information, was_guarded) == 43);
  }
}

TEST_CASE("mapping guard: a SIGBUS that another process sends does what it did before") {
  const auto sent = [](void (*earlier)(int)) {
    return InChild([&] {
      signal(SIGBUS, earlier);
      if (!InstallMappingGuard()) return 1;
      kill(getpid(), SIGBUS);
      return 0;
    });
  };
  CHECK(sent(SIG_DFL) == 128 + SIGBUS);
  CHECK(sent(SIG_IGN) == 0);
  CHECK(sent(ExitWith42) == 42);
}

// --- FileBytes::CheckUnchanged ---------------------------------------------------------------------------------------------------

class MappedFile {
 public:
  MappedFile() {
    WriteAll(path, bytes);
    auto mapped = FileBytes::Map(path);
    REQUIRE(mapped);
    file = *std::move(mapped);
    REQUIRE(Check());
    std::this_thread::sleep_for(std::chrono::milliseconds(15));  // the kernel's file times move in steps of up to 10 ms
  }
  [[nodiscard]] Status Check() const { return file.CheckUnchanged(digest); }
  void CheckChanged(const std::string& what) const {
    const Status status = Check();
    REQUIRE_FALSE(status);
    CHECK(status.error().code == Code::BLOB_CHANGED);
    CHECK(status.error().at == path.string());
    INFO(status.error().detail);
    CHECK(status.error().detail.find(what) != std::string::npos);
  }
  void Overwrite(std::size_t at) const {
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(pwrite(fd.get(), "x", 1, static_cast<off_t>(at)) == 1);
  }
  TempDir dir;
  fs::path path = dir.path() / "base";
  std::string bytes = std::string(3 * kPage, 'b');
  Digest digest = Sha256::Of(bytes);
  FileBytes file;
};

TEST_CASE("file: a mapped file that was renamed, replaced by another, unlinked or given another mode is unchanged") {
  MappedFile one;
  fs::permissions(one.path, fs::perms::owner_read);
  CHECK(one.Check());
  fs::rename(one.path, one.dir.path() / "elsewhere");
  CHECK(one.Check());
  WriteAll(one.dir.path() / "other", "other bytes");
  fs::rename(one.dir.path() / "other", one.dir.path() / "elsewhere");
  CHECK(one.Check());
  CHECK(Sha256::Of(one.file.bytes()) == one.digest);
}

TEST_CASE("file: a mapped file that was overwritten, made shorter or made longer is E305 with its name, also after a move") {
  MappedFile overwritten;
  FileBytes moved = std::move(overwritten.file);
  overwritten.file = std::move(moved);
  overwritten.Overwrite(kPage);
  overwritten.CheckChanged("written to");
  MappedFile shorter;
  fs::resize_file(shorter.path, kPage);
  shorter.CheckChanged("had 12288 bytes when it was verified and has 4096 now");
  MappedFile longer;
  fs::resize_file(longer.path, 4 * kPage);
  longer.CheckChanged("has 16384 now");
}

TEST_CASE("file: a write is found when the writer sets the modification time back, and nothing else is taken for one") {
  MappedFile one;
  const auto modified = fs::last_write_time(one.path);
  const auto set_back = [&] {
    struct stat info{};
    REQUIRE(stat(one.path.c_str(), &info) == 0);
    const timespec times[] = {info.st_atim, info.st_mtim};
    return std::array{times[0], times[1]};
  }();
  REQUIRE(utimensat(AT_FDCWD, one.path.c_str(), set_back.data(), 0) == 0);  // changes only the time of the last change of any kind
  CHECK(one.Check());
  CHECK(one.Check());
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  one.Overwrite(5);
  REQUIRE(utimensat(AT_FDCWD, one.path.c_str(), set_back.data(), 0) == 0);
  REQUIRE(fs::last_write_time(one.path) == modified);
  one.CheckChanged("written to");
}

TEST_CASE("file: what changed between verification and mapping is found when the verified state is handed over") {
  MappedFile one;
  struct stat info{};
  REQUIRE(stat(one.path.c_str(), &info) == 0);
  const FileState verified{static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec,
                           info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec};
  const auto map = [&] { return FileBytes::MapFd(*OpenRegular(one.path), "base", &verified); };
  CHECK(map()->CheckUnchanged(one.digest));
  one.Overwrite(0);
  CHECK(map()->CheckUnchanged(one.digest).error().code == Code::BLOB_CHANGED);
  fs::resize_file(one.path, kPage);
  CHECK(map().error().code == Code::BLOB_CHANGED);
}

TEST_CASE("file: a sealed copy is what it was when its source is overwritten, made shorter and unlinked, and cannot be written itself") {
  MappedFile source;
  auto copy = FileBytes::Copy(source.path, 1 << 20);
  REQUIRE(copy);
  source.Overwrite(0);
  fs::resize_file(source.path, 10);
  fs::remove(source.path);
  CHECK(Sha256::Of(copy->bytes()) == source.digest);
  CHECK(copy->CheckUnchanged(source.digest));
  const UniqueFd again(open(("/proc/self/fd/" + std::to_string(copy->fd().get())).c_str(), O_RDWR | O_CLOEXEC));
  if (again.valid()) {
    CHECK(pwrite(again.get(), "x", 1, 0) == -1);
    CHECK(ftruncate(again.get(), 0) == -1);
  }
  CHECK(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, copy->fd().get(), 0) == MAP_FAILED);
  CHECK((fcntl(copy->fd().get(), F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) ==
        (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
}

}  // namespace
}  // namespace veneer
