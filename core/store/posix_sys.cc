#include "core/store/posix_sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fsverity.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>

namespace veneer {
namespace {

SysStatus Checked(int result) {
  if (result != 0) return std::unexpected(errno);
  return {};
}

// What a signal interrupted is done again. Not for fsync, which is never tried again, and not for close.
template <class Call>
int Again(Call&& call) {
  for (;;) {
    const int result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

int Flags(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
      return O_RDONLY | O_NONBLOCK | O_NOCTTY;
    case OpenMode::kDirectory:
      return O_RDONLY | O_DIRECTORY;
    case OpenMode::kReadWrite:
      return O_RDWR | O_NONBLOCK | O_NOCTTY;
    case OpenMode::kAppend:
      return O_RDWR | O_APPEND | O_NONBLOCK | O_NOCTTY;
    case OpenMode::kCreate:
      return O_RDWR | O_CREAT | O_EXCL;
    case OpenMode::kUnnamed:
      return O_RDWR | O_TMPFILE;
  }
  return O_RDONLY;
}

std::int64_t Nanoseconds(const timespec& time) { return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec; }

std::int64_t Clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return Nanoseconds(now);
}

// openat2 with every resolve restriction; on a kernel without it (or a sandbox that refuses it), openat with O_NOFOLLOW, which is
// the same for a single component.
int OpenComponent(int dir, const std::string& name, int flags, mode_t mode) {
  if (name.empty() || name == ".." || name.find('/') != std::string::npos) {
    errno = EINVAL;
    return -1;
  }
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, dir, name.c_str(), &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);
  return openat(dir, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

}  // namespace

SysResult<UniqueFd> PosixSys::OpenRoot(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(errno);
  return fd;
}

// Each missing directory is made and the one that names it synced. The last name is synced in any case, as far as that is allowed:
// whoever made it may have died before doing so.
SysStatus PosixSys::MakeRoot(const std::string& path) {
  std::filesystem::path root(path), made;
  if (!root.has_filename()) root = root.parent_path();  // "store/"
  for (const std::filesystem::path& part : root) {
    const std::filesystem::path parent = made.empty() ? "." : made;
    made /= part;
    const bool last = made == root;
    const bool is_new = mkdir(made.c_str(), 0755) == 0;
    std::error_code error;
    if (!is_new && !std::filesystem::is_directory(made, error)) return std::unexpected(error ? error.value() : EEXIST);
    if (!is_new && !last) continue;
    const UniqueFd dir(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (const bool synced = dir.valid() && fsync(dir.get()) == 0; !synced && is_new) return std::unexpected(errno);
  }
  return {};
}

SysResult<UniqueFd> PosixSys::Open(int dir, const std::string& name, OpenMode mode, std::uint32_t permissions) {
  const bool creates = mode == OpenMode::kCreate || mode == OpenMode::kUnnamed;
  const std::string& target = mode == OpenMode::kUnnamed ? "." : name;
  UniqueFd fd(Again([&] { return OpenComponent(dir, target, Flags(mode), creates ? permissions : 0); }));
  if (!fd.valid()) return std::unexpected(errno);
  return fd;
}

// The descriptor is gone whatever close says; its error still means that data may be missing.
SysStatus PosixSys::Close(UniqueFd fd) { return Checked(close(fd.release())); }

SysResult<UniqueFd> PosixSys::Duplicate(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return std::unexpected(errno);
  return copy;
}

SysResult<std::size_t> PosixSys::Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) {
  const ssize_t got = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
  if (got < 0) return std::unexpected(errno);
  return static_cast<std::size_t>(got);
}

SysResult<std::size_t> PosixSys::Write(int fd, std::span<const std::byte> bytes) {
  const ssize_t put = write(fd, bytes.data(), bytes.size());
  if (put < 0) return std::unexpected(errno);
  return static_cast<std::size_t>(put);
}

SysStatus PosixSys::Fsync(int fd) { return Checked(fsync(fd)); }

SysStatus PosixSys::Truncate(int fd, std::uint64_t size) {
  return Checked(Again([&] { return ftruncate(fd, static_cast<off_t>(size)); }));
}

SysStatus PosixSys::SetPermissions(int fd, std::uint32_t permissions) { return Checked(fchmod(fd, permissions)); }

SysResult<FileInfo> PosixSys::Stat(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return std::unexpected(errno);
  FileInfo result;
  result.type = S_ISREG(info.st_mode) ? FileType::kRegular : S_ISDIR(info.st_mode) ? FileType::kDirectory : FileType::kOther;
  result.permissions = info.st_mode & 07777;
  result.owner = info.st_uid;
  result.device = info.st_dev;
  result.inode = info.st_ino;
  result.links = info.st_nlink;
  result.size = static_cast<std::uint64_t>(info.st_size);
  result.mtime_ns = Nanoseconds(info.st_mtim);
  result.ctime_ns = Nanoseconds(info.st_ctim);
  return result;
}

SysResult<std::uint64_t> PosixSys::FileSystemMagic(int fd) {
  struct statfs info{};
  if (fstatfs(fd, &info) != 0) return std::unexpected(errno);
  return static_cast<std::uint64_t>(info.f_type) & 0xffffffff;
}

SysStatus PosixSys::MakeDirectory(int dir, const std::string& name, std::uint32_t permissions) {
  return Checked(mkdirat(dir, name.c_str(), permissions));
}

SysResult<std::vector<std::string>> PosixSys::List(int dir) {
  UniqueFd own(Again([&] { return openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));  // a read position of its own
  if (!own.valid()) return std::unexpected(errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(own.get()), closedir);
  if (stream == nullptr) return std::unexpected(errno);
  (void)own.release();  // owned by the stream now
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr && errno != 0) return std::unexpected(errno);
    if (entry == nullptr) return names;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
}

SysStatus PosixSys::Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  return Checked(renameat(from_dir, from.c_str(), to_dir, to.c_str()));
}

SysStatus PosixSys::Link(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  return Checked(linkat(from_dir, from.c_str(), to_dir, to.c_str(), 0));
}

// AT_EMPTY_PATH needs a capability before Linux 6.10; /proc needs to be mounted. One of the two works nearly everywhere.
SysStatus PosixSys::LinkUnnamed(int fd, int to_dir, const std::string& to) {
  if (linkat(fd, "", to_dir, to.c_str(), AT_EMPTY_PATH) == 0) return {};
  if (errno == EEXIST) return std::unexpected(errno);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return Checked(linkat(AT_FDCWD, path.c_str(), to_dir, to.c_str(), AT_SYMLINK_FOLLOW));
}

SysStatus PosixSys::Unlink(int dir, const std::string& name) { return Checked(unlinkat(dir, name.c_str(), 0)); }

SysResult<bool> PosixSys::TryLock(int fd, std::uint64_t byte, LockKind kind) {
  struct flock lock{};
  lock.l_type = kind == LockKind::kShared ? F_RDLCK : F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return std::unexpected(errno);
}

SysStatus PosixSys::EnableVerity(int fd) {
  fsverity_enable_arg arg{};
  arg.version = 1;
  arg.hash_algorithm = FS_VERITY_HASH_ALG_SHA256;
  arg.block_size = 4096;
  return Checked(ioctl(fd, FS_IOC_ENABLE_VERITY, &arg));
}

SysResult<std::string> PosixSys::MeasureVerity(int fd) {
  constexpr std::size_t kDigestBytes = 32;
  alignas(fsverity_digest) std::array<std::byte, sizeof(fsverity_digest) + kDigestBytes> space{};
  auto* const found = reinterpret_cast<fsverity_digest*>(space.data());
  found->digest_size = kDigestBytes;
  if (ioctl(fd, FS_IOC_MEASURE_VERITY, found) != 0) return std::unexpected(errno);
  if (found->digest_algorithm != FS_VERITY_HASH_ALG_SHA256 || found->digest_size != kDigestBytes) return std::unexpected(EOPNOTSUPP);
  std::string digest(kDigestBytes, '\0');
  std::memcpy(digest.data(), space.data() + sizeof(fsverity_digest), kDigestBytes);
  return digest;
}

// inotify takes a path only; the descriptor's own name in /proc leads to the directory it holds, wherever that was moved.
SysResult<UniqueFd> PosixSys::WatchDirectory(int dir) {
  UniqueFd watch(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch.valid()) return std::unexpected(errno);
  const std::string path = "/proc/self/fd/" + std::to_string(dir);
  if (inotify_add_watch(watch.get(), path.c_str(), IN_MOVED_TO | IN_ONLYDIR) < 0) return std::unexpected(errno);
  return watch;
}

SysResult<bool> PosixSys::WaitForChange(int watch, std::uint32_t milliseconds) {
  pollfd waiting{watch, POLLIN, 0};
  const int ready = poll(&waiting, 1, static_cast<int>(milliseconds));
  if (ready < 0) return std::unexpected(errno);
  if (ready == 0) return false;
  alignas(inotify_event) std::array<std::byte, 4096> events;
  while (read(watch, events.data(), events.size()) > 0) {  // what they say does not matter: the pointer is read again anyway
  }
  return true;
}

SysStatus PosixSys::Random(std::span<std::byte> buffer) {
  // Up to 256 bytes come whole once the pool is ready.
  const ssize_t got = getrandom(buffer.data(), buffer.size(), 0);
  if (got < 0) return std::unexpected(errno);
  if (static_cast<std::size_t>(got) != buffer.size()) return std::unexpected(EIO);
  return {};
}

std::int64_t PosixSys::WallClockNs() { return Clock(CLOCK_REALTIME); }
std::int64_t PosixSys::SteadyClockNs() { return Clock(CLOCK_MONOTONIC); }

void PosixSys::SleepMs(std::uint32_t milliseconds) {
  const timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1'000'000};
  nanosleep(&time, nullptr);
}

std::uint32_t PosixSys::User() { return geteuid(); }

}  // namespace veneer
