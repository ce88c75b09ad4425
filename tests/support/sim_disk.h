// The system calls of the store on a disk in memory (sim_image.h): directories, hard links, unnamed files, descriptors, locks of open
// files, a clock and random numbers that come from the image. The same calls from the same image give the same bytes, always.
//
// Descriptors have numbers no kernel gives out. A UniqueFd closes itself with close(2), so this file also holds the test program's
// close(): it sends these numbers to the disk they belong to and all others to the kernel.
#ifndef VENEER_TESTS_SUPPORT_SIM_DISK_H_
#define VENEER_TESTS_SUPPORT_SIM_DISK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/store/sys.h"
#include "tests/support/sim_image.h"

class SimDisk final : public veneer::Sys {
 public:
  explicit SimDisk(SimImage image);
  ~SimDisk() override;
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;

  [[nodiscard]] const SimImage& image() const { return image_; }
  [[nodiscard]] std::size_t open_descriptors() const { return open_.size(); }

  // Several processes on one disk: what is opened belongs to the current one. A killed one has no descriptors and so no locks.
  int process = 0;
  void Kill(int process_id);

  bool unnamed_files = true;         // false: O_TMPFILE is not supported
  int sync_error = 0;                // not 0: Fsync fails with it as hardware makes it fail: what it should have written is lost
  std::int64_t tick_ns = 1'000'000;  // what a look at the clock takes
  void Advance(std::int64_t ns) { image_.wall_ns += ns; }

  veneer::SysResult<veneer::UniqueFd> OpenRoot(const std::string& path) override;  // a path below the root of the disk, or "."
  veneer::SysStatus MakeRoot(const std::string& path) override;
  veneer::SysResult<veneer::UniqueFd> Open(int dir, const std::string& name, veneer::OpenMode mode, std::uint32_t permissions) override;
  veneer::SysStatus Close(veneer::UniqueFd fd) override;
  veneer::SysResult<veneer::UniqueFd> Duplicate(int fd) override;
  veneer::SysResult<std::size_t> Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) override;
  veneer::SysResult<std::size_t> Write(int fd, std::span<const std::byte> bytes) override;
  veneer::SysStatus Fsync(int fd) override;
  veneer::SysStatus Truncate(int fd, std::uint64_t size) override;
  veneer::SysStatus SetPermissions(int fd, std::uint32_t permissions) override;
  veneer::SysResult<veneer::FileInfo> Stat(int fd) override;
  veneer::SysResult<std::uint64_t> FileSystemMagic(int fd) override;
  veneer::SysStatus MakeDirectory(int dir, const std::string& name, std::uint32_t permissions) override;
  veneer::SysResult<std::vector<std::string>> List(int dir) override;
  veneer::SysStatus Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) override;
  veneer::SysStatus Link(int from_dir, const std::string& from, int to_dir, const std::string& to) override;
  veneer::SysStatus LinkUnnamed(int fd, int to_dir, const std::string& to) override;
  veneer::SysStatus Unlink(int dir, const std::string& name) override;
  veneer::SysResult<bool> TryLock(int fd, std::uint64_t byte, veneer::LockKind kind) override;
  veneer::SysStatus EnableVerity(int fd) override;
  veneer::SysResult<std::string> MeasureVerity(int fd) override;
  veneer::SysResult<veneer::UniqueFd> WatchDirectory(int dir) override;
  veneer::SysResult<bool> WaitForChange(int watch, std::uint32_t milliseconds) override;
  veneer::SysStatus Random(std::span<std::byte> buffer) override;
  std::int64_t WallClockNs() override { return image_.wall_ns += tick_ns; }
  std::int64_t SteadyClockNs() override { return image_.wall_ns += tick_ns; }
  void SleepMs(std::uint32_t milliseconds) override { Advance(std::int64_t{milliseconds} * 1'000'000); }
  std::uint32_t User() override { return kUser; }

  void CloseDescriptor(int fd) { open_.erase(fd); }  // for close()

 private:
  static constexpr std::uint32_t kUser = 1000;
  // An open file description: shared by duplicates, owner of locks.
  struct OpenFile {
    SimInode inode = 0;
    veneer::OpenMode mode = veneer::OpenMode::kRead;
    std::uint64_t position = 0;
    int process = 0;
    std::map<std::uint64_t, veneer::LockKind> locks;  // by byte
    std::uint64_t renames_seen = 0;                   // of a watch
  };

  veneer::UniqueFd Hand(std::shared_ptr<OpenFile> file);
  veneer::SysResult<veneer::UniqueFd> OpenInode(SimInode inode, veneer::OpenMode mode);
  OpenFile* FindOpen(int fd);
  veneer::SysResult<SimInode> Directory(int fd);
  veneer::SysResult<SimInode> Entry(int dir, const std::string& name);
  veneer::SysStatus LinkInode(SimInode inode, int to_dir, const std::string& to);
  void Touch(SimInode inode, bool content);

  SimImage image_;
  std::map<int, std::shared_ptr<OpenFile>> open_;
  std::map<SimInode, std::uint64_t> renames_into_;  // how many, by directory
};

#endif  // VENEER_TESTS_SUPPORT_SIM_DISK_H_
