#include "tests/support/sim_disk.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

using veneer::FileType;
using veneer::LockKind;
using veneer::OpenMode;
using veneer::SysResult;
using veneer::SysStatus;
using veneer::UniqueFd;

namespace {

constexpr int kFirstDescriptor = 1 << 24;  // above every limit on open files
constexpr std::uint64_t kExt4Magic = 0xef53;
constexpr std::uint64_t kDevice = 42;

// Which disk a number belongs to. Numbers are never used again, so a late close of a killed process hits nothing.
struct Registry {
  std::mutex mutex;
  std::map<int, SimDisk*> disks;
  int next = kFirstDescriptor;
};
Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

SimDisk* Forget(int fd) {
  Registry& registry = TheRegistry();
  const std::lock_guard guard(registry.mutex);
  const auto found = registry.disks.find(fd);
  if (found == registry.disks.end()) return nullptr;
  SimDisk* const disk = found->second;
  registry.disks.erase(found);
  return disk;
}

bool Writable(OpenMode mode) { return mode != OpenMode::kRead && mode != OpenMode::kDirectory; }

}  // namespace

extern "C" int close(int fd) {
  if (fd < kFirstDescriptor) return static_cast<int>(syscall(SYS_close, fd));
  SimDisk* const disk = Forget(fd);
  if (disk == nullptr) {
    errno = EBADF;
    return -1;
  }
  disk->CloseDescriptor(fd);
  return 0;
}

SimDisk::SimDisk(SimImage image) : image_(std::move(image)) {}

SimDisk::~SimDisk() {
  for (const auto& entry : open_) Forget(entry.first);
}

void SimDisk::Kill(int process_id) {
  std::vector<int> dead;
  for (const auto& [fd, file] : open_)
    if (file->process == process_id) dead.push_back(fd);
  for (const int fd : dead) {
    Forget(fd);
    open_.erase(fd);
  }
}

UniqueFd SimDisk::Hand(std::shared_ptr<OpenFile> file) {
  Registry& registry = TheRegistry();
  const std::lock_guard guard(registry.mutex);
  const int fd = registry.next++;
  registry.disks[fd] = this;
  open_[fd] = std::move(file);
  return UniqueFd(fd);
}

SysResult<UniqueFd> SimDisk::OpenInode(SimInode inode, OpenMode mode) {
  auto file = std::make_shared<OpenFile>();
  file->inode = inode;
  file->mode = mode;
  file->process = process;
  return Hand(std::move(file));
}

SimDisk::OpenFile* SimDisk::FindOpen(int fd) {
  const auto found = open_.find(fd);
  return found == open_.end() ? nullptr : found->second.get();
}

SysResult<SimInode> SimDisk::Directory(int fd) {
  const OpenFile* const file = FindOpen(fd);
  if (file == nullptr) return std::unexpected(EBADF);
  if (image_.node(file->inode).type != FileType::kDirectory) return std::unexpected(ENOTDIR);
  return file->inode;
}

SysResult<SimInode> SimDisk::Entry(int dir, const std::string& name) {
  const auto parent = Directory(dir);
  if (!parent) return parent;
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) return std::unexpected(EINVAL);
  const auto& names = image_.node(*parent).names;
  const auto found = names.find(name);
  if (found == names.end()) return std::unexpected(ENOENT);
  return found->second;
}

void SimDisk::Touch(SimInode inode, bool content) {
  SimNode& node = image_.Change(inode);
  node.ctime_ns = image_.wall_ns;
  if (content) node.mtime_ns = image_.wall_ns;
}

SysResult<UniqueFd> SimDisk::OpenRoot(const std::string& path) {
  const SimInode inode = image_.Find(path == "." ? "" : path);
  if (inode == 0) return std::unexpected(ENOENT);
  if (image_.node(inode).type != FileType::kDirectory) return std::unexpected(ENOTDIR);
  return OpenInode(inode, OpenMode::kDirectory);
}

// Durable when it returns, as Sys promises.
SysStatus SimDisk::MakeRoot(const std::string& path) {
  if (image_.Find(path) != 0) return {};
  image_.ChangeDirectories({{SimImage::kRoot, path, image_.AddNode(FileType::kDirectory, 0755)}});
  image_.SyncDirectory(SimImage::kRoot);
  return {};
}

SysResult<UniqueFd> SimDisk::Open(int dir, const std::string& name, OpenMode mode, std::uint32_t permissions) {
  if (mode == OpenMode::kUnnamed) {
    if (const auto parent = Directory(dir); !parent) return std::unexpected(parent.error());
    if (!unnamed_files) return std::unexpected(EOPNOTSUPP);
    return OpenInode(image_.AddNode(FileType::kRegular, permissions), mode);
  }
  const auto entry = Entry(dir, name);
  if (mode == OpenMode::kCreate) {
    if (entry) return std::unexpected(EEXIST);
    if (entry.error() != ENOENT) return std::unexpected(entry.error());
    const SimInode inode = image_.AddNode(FileType::kRegular, permissions);
    image_.ChangeDirectories({{*Directory(dir), name, inode}});
    return OpenInode(inode, mode);
  }
  if (!entry) return std::unexpected(entry.error());
  const bool directory = image_.node(*entry).type == FileType::kDirectory;
  if (mode == OpenMode::kDirectory && !directory) return std::unexpected(ENOTDIR);
  if (Writable(mode) && directory) return std::unexpected(EISDIR);
  if (Writable(mode) && (image_.node(*entry).permissions & 0200) == 0) return std::unexpected(EACCES);
  return OpenInode(*entry, mode);
}

SysStatus SimDisk::Close(UniqueFd fd) {
  if (::close(fd.release()) != 0) return std::unexpected(EBADF);
  return {};
}

SysResult<UniqueFd> SimDisk::Duplicate(int fd) {
  const auto found = open_.find(fd);
  if (found == open_.end()) return std::unexpected(EBADF);
  return Hand(found->second);
}

SysResult<std::size_t> SimDisk::Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) {
  const OpenFile* const file = FindOpen(fd);
  if (file == nullptr) return std::unexpected(EBADF);
  const SimNode& node = image_.node(file->inode);
  if (node.type != FileType::kRegular) return std::unexpected(EISDIR);
  const std::string& bytes = node.seen->bytes;
  if (offset >= bytes.size()) return std::size_t{0};
  const std::size_t count = std::min<std::size_t>(buffer.size(), bytes.size() - offset);
  std::memcpy(buffer.data(), bytes.data() + offset, count);
  return count;
}

// What the next sync writes may be shorter than what is seen: bytes that a failed sync gave up are a hole of zeros in it.
SysResult<std::size_t> SimDisk::Write(int fd, std::span<const std::byte> bytes) {
  OpenFile* const file = FindOpen(fd);
  if (file == nullptr || !Writable(file->mode)) return std::unexpected(EBADF);
  SimNode& node = image_.Change(file->inode);
  const std::uint64_t offset = file->mode == OpenMode::kAppend ? node.seen->bytes.size() : file->position;
  const auto written = [&](const SimBytes& old) {
    std::string text = old->bytes;
    text.resize(std::max<std::size_t>(text.size(), offset + bytes.size()), '\0');
    std::memcpy(text.data() + offset, bytes.data(), bytes.size());
    return MakeSimBytes(std::move(text));
  };
  const bool clean = node.kept == node.seen;
  node.seen = written(node.seen);
  node.kept = clean ? node.seen : written(node.kept);
  node.mtime_ns = node.ctime_ns = image_.wall_ns;
  file->position = offset + bytes.size();
  return bytes.size();
}

SysStatus SimDisk::Fsync(int fd) {
  const OpenFile* const file = FindOpen(fd);
  if (file == nullptr) return std::unexpected(EBADF);
  const bool fails = sync_error != 0;
  if (image_.node(file->inode).type == FileType::kRegular) {
    image_.SyncFile(file->inode, fails);
  } else if (!fails) {
    image_.SyncDirectory(file->inode);
  }
  if (fails) return std::unexpected(sync_error);
  return {};
}

SysStatus SimDisk::Truncate(int fd, std::uint64_t size) {
  const OpenFile* const file = FindOpen(fd);
  if (file == nullptr || !Writable(file->mode)) return std::unexpected(EBADF);
  SimNode& node = image_.Change(file->inode);
  const auto cut = [size](const SimBytes& old) {
    std::string text = old->bytes;
    text.resize(size, '\0');
    return text == old->bytes ? old : MakeSimBytes(std::move(text));
  };
  node.seen = cut(node.seen);
  if (node.kept->bytes.size() > size) node.kept = cut(node.kept);
  node.mtime_ns = node.ctime_ns = image_.wall_ns;
  return {};
}

SysStatus SimDisk::SetPermissions(int fd, std::uint32_t permissions) {
  const OpenFile* const file = FindOpen(fd);
  if (file == nullptr) return std::unexpected(EBADF);
  image_.Change(file->inode).permissions = permissions;
  Touch(file->inode, false);
  return {};
}

SysResult<veneer::FileInfo> SimDisk::Stat(int fd) {
  const OpenFile* const file = FindOpen(fd);
  if (file == nullptr) return std::unexpected(EBADF);
  const SimNode& node = image_.node(file->inode);
  return veneer::FileInfo{
      node.type,     node.permissions, kUser, kDevice, file->inode, image_.Links(file->inode), node.seen ? node.seen->bytes.size() : 0,
      node.mtime_ns, node.ctime_ns};
}

SysResult<std::uint64_t> SimDisk::FileSystemMagic(int fd) {
  if (FindOpen(fd) == nullptr) return std::unexpected(EBADF);
  return kExt4Magic;
}

SysStatus SimDisk::MakeDirectory(int dir, const std::string& name, std::uint32_t permissions) {
  const auto entry = Entry(dir, name);
  if (entry) return std::unexpected(EEXIST);
  if (entry.error() != ENOENT) return std::unexpected(entry.error());
  image_.ChangeDirectories({{*Directory(dir), name, image_.AddNode(FileType::kDirectory, permissions)}});
  return {};
}

SysResult<std::vector<std::string>> SimDisk::List(int dir) {
  const auto inode = Directory(dir);
  if (!inode) return std::unexpected(inode.error());
  std::vector<std::string> names;
  for (const auto& entry : image_.node(*inode).names) names.push_back(entry.first);
  std::ranges::reverse(names);  // in no order anyone may count on
  return names;
}

SysStatus SimDisk::Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  const auto entry = Entry(from_dir, from);
  if (!entry) return std::unexpected(entry.error());
  const auto target = Entry(to_dir, to);
  if (!target && target.error() != ENOENT) return std::unexpected(target.error());
  if (target && *target == *entry) return {};
  const SimInode into = *Directory(to_dir);
  image_.ChangeDirectories({{*Directory(from_dir), from, 0}, {into, to, *entry}});
  Touch(*entry, false);
  ++renames_into_[into];
  return {};
}

SysStatus SimDisk::LinkInode(SimInode inode, int to_dir, const std::string& to) {
  const auto target = Entry(to_dir, to);
  if (target) return std::unexpected(EEXIST);
  if (target.error() != ENOENT) return std::unexpected(target.error());
  image_.ChangeDirectories({{*Directory(to_dir), to, inode}});
  Touch(inode, false);
  return {};
}

SysStatus SimDisk::Link(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  const auto entry = Entry(from_dir, from);
  if (!entry) return std::unexpected(entry.error());
  return LinkInode(*entry, to_dir, to);
}

SysStatus SimDisk::LinkUnnamed(int fd, int to_dir, const std::string& to) {
  const OpenFile* const file = FindOpen(fd);
  if (file == nullptr) return std::unexpected(EBADF);
  return LinkInode(file->inode, to_dir, to);
}

SysStatus SimDisk::Unlink(int dir, const std::string& name) {
  const auto entry = Entry(dir, name);
  if (!entry) return std::unexpected(entry.error());
  if (image_.node(*entry).type == FileType::kDirectory) return std::unexpected(EISDIR);
  image_.ChangeDirectories({{*Directory(dir), name, 0}});
  Touch(*entry, false);
  return {};
}

SysResult<bool> SimDisk::TryLock(int fd, std::uint64_t byte, LockKind kind) {
  OpenFile* const file = FindOpen(fd);
  if (file == nullptr) return std::unexpected(EBADF);
  for (const auto& entry : open_) {
    const OpenFile& other = *entry.second;
    if (&other == file || other.inode != file->inode) continue;
    const auto held = other.locks.find(byte);
    if (held != other.locks.end() && (kind == LockKind::kExclusive || held->second == LockKind::kExclusive)) return false;
  }
  file->locks[byte] = kind;
  return true;
}

// As on a file system without fs-verity.
SysStatus SimDisk::EnableVerity(int) { return std::unexpected(EOPNOTSUPP); }
SysResult<std::string> SimDisk::MeasureVerity(int) { return std::unexpected(EOPNOTSUPP); }

SysResult<UniqueFd> SimDisk::WatchDirectory(int dir) {
  const auto inode = Directory(dir);
  if (!inode) return std::unexpected(inode.error());
  auto watch = std::make_shared<OpenFile>();
  watch->inode = *inode;
  watch->process = process;
  watch->renames_seen = renames_into_[*inode];
  return Hand(std::move(watch));
}

SysResult<bool> SimDisk::WaitForChange(int watch, std::uint32_t milliseconds) {
  OpenFile* const file = FindOpen(watch);
  if (file == nullptr) return std::unexpected(EBADF);
  const std::uint64_t now = renames_into_[file->inode];
  if (std::exchange(file->renames_seen, now) != now) return true;
  SleepMs(milliseconds);
  return false;
}

SysStatus SimDisk::Random(std::span<std::byte> buffer) {
  for (std::byte& byte : buffer) byte = static_cast<std::byte>(image_.NextRandom() & 0xff);
  return {};
}
