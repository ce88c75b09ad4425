// A Sys that passes everything on and counts it: what an operation costs in system calls, syncs and bytes.
#ifndef VENEER_CORE_STORE_COUNTING_SYS_H_
#define VENEER_CORE_STORE_COUNTING_SYS_H_

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/store/sys.h"

namespace veneer {

struct SysCounts {
  std::uint64_t calls = 0;  // all that reach the system: without clocks, sleeps and the user id
  std::uint64_t syncs = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::uint64_t blob_bytes_read = 0;  // of bytes_read: from blobs/sha256/, where reading is hashing
  bool operator==(const SysCounts&) const = default;
};

class CountingSys : public Sys {  // one thread at a time, but for Pread, which those that prove a blob call at once
 public:
  explicit CountingSys(Sys& inner) : inner_(&inner) {}
  [[nodiscard]] const SysCounts& counts() const { return counts_; }
  void Reset() { counts_ = {}; }

  SysResult<UniqueFd> OpenRoot(const std::string& path) override;
  SysStatus MakeRoot(const std::string& path) override;
  SysResult<UniqueFd> Open(int dir, const std::string& name, OpenMode mode, std::uint32_t permissions) override;
  SysStatus Close(UniqueFd fd) override;
  SysResult<UniqueFd> Duplicate(int fd) override;
  SysResult<std::size_t> Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) override;
  SysResult<std::size_t> Write(int fd, std::span<const std::byte> bytes) override;
  SysStatus Fsync(int fd) override;
  SysStatus Truncate(int fd, std::uint64_t size) override;
  SysStatus SetPermissions(int fd, std::uint32_t permissions) override;
  SysResult<FileInfo> Stat(int fd) override;
  SysResult<std::uint64_t> FileSystemMagic(int fd) override;
  SysStatus MakeDirectory(int dir, const std::string& name, std::uint32_t permissions) override;
  SysResult<std::vector<std::string>> List(int dir) override;
  SysStatus Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) override;
  SysStatus Link(int from_dir, const std::string& from, int to_dir, const std::string& to) override;
  SysStatus LinkUnnamed(int fd, int to_dir, const std::string& to) override;
  SysStatus Unlink(int dir, const std::string& name) override;
  SysResult<bool> TryLock(int fd, std::uint64_t byte, LockKind kind) override;
  SysStatus EnableVerity(int fd) override;
  SysResult<std::string> MeasureVerity(int fd) override;
  SysResult<UniqueFd> WatchDirectory(int dir) override;
  SysResult<bool> WaitForChange(int watch, std::uint32_t milliseconds) override;
  SysStatus Random(std::span<std::byte> buffer) override;
  std::int64_t WallClockNs() override { return inner_->WallClockNs(); }
  std::int64_t SteadyClockNs() override { return inner_->SteadyClockNs(); }
  void SleepMs(std::uint32_t milliseconds) override { inner_->SleepMs(milliseconds); }
  std::uint32_t User() override { return inner_->User(); }

 private:
  Sys& Count() {
    ++counts_.calls;
    return *inner_;
  }
  Sys* inner_;
  std::mutex reading_;  // held to count what Pread read, not while it reads
  SysCounts counts_;
  // By number; a number that is used again is put right when it is opened.
  std::set<int> blob_folders_, blobs_;
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_COUNTING_SYS_H_
