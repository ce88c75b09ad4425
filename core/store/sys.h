// Every system call the store makes, behind one seam: the real one (posix_sys.h) and, in tests, one that counts, fails and kills.
// Names are single path components below a directory descriptor; no implementation follows links or leaves the directory.
#ifndef VENEER_CORE_STORE_SYS_H_
#define VENEER_CORE_STORE_SYS_H_

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "core/base/file.h"

namespace veneer {

template <class T>
using SysResult = std::expected<T, int>;  // the error is an errno value
using SysStatus = SysResult<void>;

enum class FileType { kRegular, kDirectory, kOther };

struct FileInfo {
  FileType type = FileType::kOther;
  std::uint32_t permissions = 0;  // the low twelve mode bits
  std::uint32_t owner = 0;        // user id
  std::uint64_t device = 0, inode = 0, links = 0, size = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;  // since the epoch
  bool operator==(const FileInfo&) const = default;
};

enum class OpenMode {
  kRead,  // never blocks on a FIFO
  kDirectory,
  kReadWrite,  // existing file
  kAppend,     // existing file, read and append
  kCreate,     // read and write; EEXIST when the name is taken
  kUnnamed,    // read and write a file without a name in this directory (O_TMPFILE); `name` is ignored
};

enum class LockKind { kShared, kExclusive };

class Sys {
 public:
  virtual ~Sys() = default;

  // The two calls that take a path of the user: the store's root, links allowed.
  virtual SysResult<UniqueFd> OpenRoot(const std::string& path) = 0;
  virtual SysStatus MakeRoot(const std::string& path) = 0;  // with missing parents, durably; an existing directory is fine

  virtual SysResult<UniqueFd> Open(int dir, const std::string& name, OpenMode mode, std::uint32_t permissions) = 0;
  virtual SysStatus Close(UniqueFd fd) = 0;
  virtual SysResult<UniqueFd> Duplicate(int fd) = 0;

  // Threads that prove one file call this at once.
  virtual SysResult<std::size_t> Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) = 0;
  virtual SysResult<std::size_t> Write(int fd, std::span<const std::byte> bytes) = 0;
  virtual SysStatus Fsync(int fd) = 0;
  virtual SysStatus Truncate(int fd, std::uint64_t size) = 0;
  virtual SysStatus SetPermissions(int fd, std::uint32_t permissions) = 0;
  virtual SysResult<FileInfo> Stat(int fd) = 0;
  virtual SysResult<std::uint64_t> FileSystemMagic(int fd) = 0;

  virtual SysStatus MakeDirectory(int dir, const std::string& name, std::uint32_t permissions) = 0;
  virtual SysResult<std::vector<std::string>> List(int dir) = 0;  // without . and .., in no order
  virtual SysStatus Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) = 0;
  virtual SysStatus Link(int from_dir, const std::string& from, int to_dir, const std::string& to) = 0;  // EEXIST when taken
  virtual SysStatus LinkUnnamed(int fd, int to_dir, const std::string& to) = 0;                          // EEXIST when taken
  virtual SysStatus Unlink(int dir, const std::string& name) = 0;

  // An open-file-description lock on one byte: owned by the open, gone when it is closed. false: another open holds it.
  virtual SysResult<bool> TryLock(int fd, std::uint64_t byte, LockKind kind) = 0;

  // fs-verity: the kernel proves each page of the file on read, and nobody can write it again. The file is open for reading only,
  // and for writing nowhere (ETXTBSY). EOPNOTSUPP or ENOTTY where the file system has none.
  virtual SysStatus EnableVerity(int fd) = 0;
  virtual SysResult<std::string> MeasureVerity(int fd) = 0;  // the 32 bytes of its SHA-256 Merkle digest; ENODATA when not enabled

  // Tells when a file is renamed into this directory. The descriptor is for WaitForChange alone: true when something was, false after
  // the time. EMFILE and ENOSPC when the machine has no watches left.
  virtual SysResult<UniqueFd> WatchDirectory(int dir) = 0;
  virtual SysResult<bool> WaitForChange(int watch, std::uint32_t milliseconds) = 0;

  virtual SysStatus Random(std::span<std::byte> buffer) = 0;
  virtual std::int64_t WallClockNs() = 0;
  virtual std::int64_t SteadyClockNs() = 0;
  virtual void SleepMs(std::uint32_t milliseconds) = 0;
  virtual std::uint32_t User() = 0;  // effective user id
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_SYS_H_
