#include "core/store/counting_sys.h"

#include <utility>

namespace veneer {

SysResult<UniqueFd> CountingSys::OpenRoot(const std::string& path) { return Count().OpenRoot(path); }
SysStatus CountingSys::MakeRoot(const std::string& path) { return Count().MakeRoot(path); }

SysResult<UniqueFd> CountingSys::Open(int dir, const std::string& name, OpenMode mode, std::uint32_t permissions) {
  auto fd = Count().Open(dir, name, mode, permissions);
  if (!fd) return fd;
  blob_folders_.erase(fd->get());
  blobs_.erase(fd->get());
  if (mode == OpenMode::kDirectory && name == "sha256") blob_folders_.insert(fd->get());
  if (mode == OpenMode::kRead && blob_folders_.contains(dir)) blobs_.insert(fd->get());
  return fd;
}

SysStatus CountingSys::Close(UniqueFd fd) { return Count().Close(std::move(fd)); }
SysResult<UniqueFd> CountingSys::Duplicate(int fd) { return Count().Duplicate(fd); }

SysResult<std::size_t> CountingSys::Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) {
  const auto got = inner_->Pread(fd, buffer, offset);
  const std::scoped_lock lock(reading_);
  ++counts_.calls;
  counts_.bytes_read += got.value_or(0);
  if (blobs_.contains(fd)) counts_.blob_bytes_read += got.value_or(0);
  return got;
}

SysResult<std::size_t> CountingSys::Write(int fd, std::span<const std::byte> bytes) {
  const auto put = Count().Write(fd, bytes);
  counts_.bytes_written += put.value_or(0);
  return put;
}

SysStatus CountingSys::Fsync(int fd) {
  ++counts_.syncs;
  return Count().Fsync(fd);
}

SysStatus CountingSys::Truncate(int fd, std::uint64_t size) { return Count().Truncate(fd, size); }
SysStatus CountingSys::SetPermissions(int fd, std::uint32_t permissions) { return Count().SetPermissions(fd, permissions); }
SysResult<FileInfo> CountingSys::Stat(int fd) { return Count().Stat(fd); }
SysResult<std::uint64_t> CountingSys::FileSystemMagic(int fd) { return Count().FileSystemMagic(fd); }

SysStatus CountingSys::MakeDirectory(int dir, const std::string& name, std::uint32_t permissions) {
  return Count().MakeDirectory(dir, name, permissions);
}

SysResult<std::vector<std::string>> CountingSys::List(int dir) { return Count().List(dir); }

SysStatus CountingSys::Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  return Count().Rename(from_dir, from, to_dir, to);
}

SysStatus CountingSys::Link(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  return Count().Link(from_dir, from, to_dir, to);
}

SysStatus CountingSys::LinkUnnamed(int fd, int to_dir, const std::string& to) { return Count().LinkUnnamed(fd, to_dir, to); }
SysStatus CountingSys::Unlink(int dir, const std::string& name) { return Count().Unlink(dir, name); }
SysResult<bool> CountingSys::TryLock(int fd, std::uint64_t byte, LockKind kind) { return Count().TryLock(fd, byte, kind); }
SysStatus CountingSys::EnableVerity(int fd) { return Count().EnableVerity(fd); }
SysResult<std::string> CountingSys::MeasureVerity(int fd) { return Count().MeasureVerity(fd); }
SysResult<UniqueFd> CountingSys::WatchDirectory(int dir) { return Count().WatchDirectory(dir); }
SysResult<bool> CountingSys::WaitForChange(int watch, std::uint32_t milliseconds) { return Count().WaitForChange(watch, milliseconds); }
SysStatus CountingSys::Random(std::span<std::byte> buffer) { return Count().Random(buffer); }

}  // namespace veneer
