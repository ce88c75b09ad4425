#include "core/bench/activate_bench.h"

#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/base/file.h"
#include "core/base/run_on_threads.h"
#include "core/base/temporary_folder.h"
#include "core/store/posix_sys.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSettleMs = 2100;        // a stamp on a file that is younger proves nothing
constexpr std::size_t kHashBuffer = 256 << 10;   // as much as the store reads at once
constexpr std::uint64_t kHashBytes = 256 << 20;  // long enough for a rate
constexpr std::size_t kReadBuffer = 1 << 20;

double GbPerS(std::uint64_t bytes, double ms) { return static_cast<double>(bytes) / 1e6 / ms; }

double Sha256GbPerS(std::uint32_t threads) {
  const std::vector<std::byte> buffer(kHashBuffer, std::byte{1});
  std::vector<Sha256> hashes(threads);
  std::atomic<std::uint64_t> next{0};
  const auto start = BenchClock::now();
  RunOnThreads(threads, [&](std::uint32_t thread) {
    while (next++ < kHashBytes / kHashBuffer) hashes[thread].Update(buffer);
  });
  return GbPerS(kHashBytes, MsSince(start));
}

// The store under measurement, and what its files are told to forget.
class Bench {
 public:
  Bench(CountingSys& sys, Store& store, fs::path root, Digest id, const ActivateBenchOptions& options)
      : sys_(sys), store_(store), root_(std::move(root)), id_(id) {
    if (options.validate) switch_.validate = [this, &options](const OpenedComposition& files) { return options.validate(store_, files); };
  }

  // From no composition to this one; ms.
  Result<double> Activate() {
    VENEER_TRY(store_.Deactivate({}));
    sys_.Reset();
    const auto start = BenchClock::now();
    VENEER_TRY(store_.Activate(id_, std::nullopt, switch_));
    return MsSince(start);
  }

  void ForgetStamps() const { Forget(false); }
  void ForgetMidstates() const { Forget(true); }

  // Pages that nobody maps go; the files were synced when they were imported.
  Status DropFromMemory() const {
    return EachBlob([](const UniqueFd& fd, const std::string& name) -> Status {
      if (const int error = posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) return Fail(IoError(error, name, "forget"));
      return {};
    });
  }
  Result<double> ReadThrough() const {
    std::vector<std::byte> buffer(kReadBuffer);
    PosixSys posix;
    const auto start = BenchClock::now();
    VENEER_TRY(EachBlob([&](const UniqueFd& fd, const std::string& name) -> Status {
      for (std::uint64_t done = 0;;) {
        const auto got = posix.Pread(fd.get(), buffer, done);
        if (!got) return Fail(IoError(got.error(), name, "read"));
        if (*got == 0) return {};
        done += *got;
      }
    }));
    return MsSince(start);
  }

 private:
  // Stamps are called as their blob is, midstates have an extension besides.
  void Forget(bool with_extension) const {
    for (const auto& entry : fs::directory_iterator(root_ / "veneer/verified"))
      if (entry.path().has_extension() == with_extension) fs::remove(entry.path());
  }

  Status EachBlob(const std::function<Status(const UniqueFd& fd, const std::string& name)>& body) const {
    for (const auto& entry : fs::directory_iterator(root_ / "blobs/sha256")) {
      const UniqueFd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) return Fail(IoError(errno, entry.path().string(), "open"));
      VENEER_TRY(body(fd, entry.path().string()));
    }
    return {};
  }

  CountingSys& sys_;
  Store& store_;
  const fs::path root_;
  const Digest id_;
  SwitchOptions switch_;
};

Result<ActivateBenchReport> Measure(Bench& bench, const CountingSys& sys, std::uint64_t bytes, const ActivateBenchOptions& options) {
  ActivateBenchReport report;
  report.bytes = bytes;
  std::vector<double> one, all, read, disk, cold, unaided, warm, ratio_one, ratio_all;
  for (std::uint64_t run = 0; run < options.runs; ++run) {
    VENEER_TRY(bench.DropFromMemory());
    VENEER_ASSIGN(read.emplace_back(), bench.ReadThrough());
    VENEER_TRY(bench.DropFromMemory());
    bench.ForgetStamps();
    VENEER_ASSIGN(disk.emplace_back(), bench.Activate());
    bench.ForgetStamps();
    bench.ForgetMidstates();
    VENEER_ASSIGN(unaided.emplace_back(), bench.Activate());  // leaves new ones
    bench.ForgetStamps();
    VENEER_ASSIGN(cold.emplace_back(), bench.Activate());
    report.cold_counts = sys.counts();
    all.push_back(Sha256GbPerS(options.threads));
    one.push_back(Sha256GbPerS(1));
    ratio_one.push_back(GbPerS(bytes, cold.back()) / one.back());
    ratio_all.push_back(GbPerS(bytes, cold.back()) / all.back());
    VENEER_ASSIGN(warm.emplace_back(), bench.Activate());
    report.warm_counts = sys.counts();
  }
  report.sha256_one = IntervalOf(std::move(one));
  report.sha256_all = IntervalOf(std::move(all));
  report.read_ms = IntervalOf(std::move(read));
  report.disk_ms = IntervalOf(std::move(disk));
  report.cold_ms = IntervalOf(std::move(cold));
  report.unaided_ms = IntervalOf(std::move(unaided));
  report.warm_ms = IntervalOf(std::move(warm));
  report.ratio_one = IntervalOf(std::move(ratio_one));
  report.ratio_all = IntervalOf(std::move(ratio_all));
  return report;
}

}  // namespace

Result<ActivateBenchReport> BenchActivate(const std::string& composition, std::span<const std::span<const std::byte>> contents,
                                          const ActivateBenchOptions& options) {
  VENEER_ASSIGN(const TemporaryFolder scratch, TemporaryFolder::Make(options.directory, "bench"));
  const fs::path root = scratch.path() / "store";
  PosixSys posix;
  CountingSys sys(posix);
  VENEER_ASSIGN(Store store, Store::Init(sys, root.string(), {.threads = options.threads}));
  std::uint64_t bytes = 0;
  for (const std::span<const std::byte> content : contents) {
    VENEER_TRY(store.PutBlob(std::string_view(reinterpret_cast<const char*>(content.data()), content.size())));
    bytes += content.size();
  }
  VENEER_ASSIGN(const Digest id, store.PutBlob(composition));
  sys.SleepMs(kSettleMs);
  Bench bench(sys, store, root, id, options);
  return Measure(bench, sys, bytes, options);
}

}  // namespace veneer
