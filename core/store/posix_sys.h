// The real system calls.
#ifndef VENEER_CORE_STORE_POSIX_SYS_H_
#define VENEER_CORE_STORE_POSIX_SYS_H_

#include "core/store/sys.h"

namespace veneer {

class PosixSys : public Sys {
 public:
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
  std::int64_t WallClockNs() override;
  std::int64_t SteadyClockNs() override;
  void SleepMs(std::uint32_t milliseconds) override;
  std::uint32_t User() override;
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_POSIX_SYS_H_
