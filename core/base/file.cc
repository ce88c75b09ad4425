#include "core/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "core/base/digest.h"
#include "core/base/mapping_guard.h"

namespace veneer {
namespace {

Result<struct stat> StatRegular(int fd, const std::string& name) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return Fail(IoError(errno, name, "stat"));
  if (!S_ISREG(info.st_mode)) return Fail(Code::BLOB_NOT_REGULAR, name, "is not a regular file; give the path of a plain file");
  return info;
}

FileState StateOf(const struct stat& info) {
  const auto ns = [](const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
  return {static_cast<std::uint64_t>(info.st_size), ns(info.st_mtim), ns(info.st_ctim)};
}

Error Changed(const std::string& name, const FileState& was, const FileState& now) {
  const std::string what = was.size != now.size ? fmt::format("had {} bytes when it was verified and has {} now", was.size, now.size)
                                                : std::string("was written to after it was verified");
  return {Code::BLOB_CHANGED, name, fmt::format("the file {}; run `veneer fsck --full`, or import it again", what)};
}

Result<Digest> HashFile(const UniqueFd& fd, const std::string& name) {
  Sha256 hash;
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (std::uint64_t done = 0;;) {
    const ssize_t got = pread(fd.get(), buffer.data(), buffer.size(), static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(IoError(errno, name, "read"));
    if (got == 0) return hash.Finish();
    hash.Update(std::span(buffer).first(static_cast<std::size_t>(got)));
    done += static_cast<std::uint64_t>(got);
  }
}

Result<const std::byte*> MapReadOnly(int fd, std::size_t size, const std::string& name) {
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Fail(IoError(errno, name, "map"));
  return static_cast<const std::byte*>(data);
}

Result<UniqueFd> CreateMemory(const std::string& name) {
  UniqueFd copy(memfd_create("veneer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!copy.valid()) return Fail(IoError(errno, name, "create a private copy"));
  return copy;
}

Status WriteAt(const UniqueFd& file, std::span<const std::byte> bytes, std::uint64_t offset, const std::string& name) {
  for (std::size_t written = 0; written < bytes.size();) {
    const ssize_t put = pwrite(file.get(), bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset + written));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Fail(IoError(errno, name, "write a private copy"));
    written += static_cast<std::size_t>(put);
  }
  return {};
}

}  // namespace

Error IoError(int errno_value, std::string at, std::string_view action) {
  const std::string text = std::generic_category().message(errno_value);
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
      return {Code::DISK_FULL, std::move(at),
              fmt::format("cannot {}: {}; free space, or run `veneer gc --now` to delete what no composition needs", action, text)};
    case EMFILE:
    case ENFILE:
      return {Code::FD_LIMIT, std::move(at), fmt::format("cannot {}: {}; raise `ulimit -n`", action, text)};
    case ENOMEM:
      return {Code::OUT_OF_MEMORY, std::move(at), fmt::format("cannot {}: {}", action, text)};
    default:
      return {Code::IO, std::move(at), fmt::format("cannot {}: {}", action, text)};
  }
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) close(fd_);
}

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

// What a mapped file is compared with.
struct FileBytes::Witness {
  FileState verified;
  std::atomic<std::int64_t> known_ctime_ns;  // verified.ctime_ns, or a later one at which the file was hashed again
  MappingGuard guard;
};

FileBytes::FileBytes() = default;

FileBytes::~FileBytes() {
  witness_.reset();  // the guard before the mapping
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::move(other.fd_)),
      name_(std::move(other.name_)),
      witness_(std::move(other.witness_)) {}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  std::swap(name_, other.name_);
  std::swap(witness_, other.witness_);
  return *this;
}

Result<UniqueFd> OpenRegular(const std::filesystem::path& path) {
  const std::string name = path.string();
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return Fail(Code::BLOB_MISSING, name, "no such file; check the path");
    return Fail(IoError(errno, name, "open"));
  }
  VENEER_TRY(StatRegular(fd.get(), name));
  return fd;
}

Result<FileBytes> FileBytes::Map(const std::filesystem::path& path) {
  VENEER_ASSIGN(UniqueFd fd, OpenRegular(path));
  return MapFd(std::move(fd), path.string());
}

Result<FileBytes> FileBytes::MapFd(UniqueFd fd, std::string name, const FileState* verified) {
  VENEER_ASSIGN(const struct stat info, StatRegular(fd.get(), name));
  if (verified != nullptr && StateOf(info).size != verified->size) return Fail(Changed(name, *verified, StateOf(info)));
  if (info.st_size == 0) return Fail(Code::HEADER_CORRUPT, name, "the file is empty");
  FileBytes file;
  file.size_ = static_cast<std::size_t>(info.st_size);
  VENEER_ASSIGN(file.data_, MapReadOnly(fd.get(), file.size_, name));
  file.fd_ = std::move(fd);
  file.name_ = std::move(name);
  const FileState state = verified != nullptr ? *verified : StateOf(info);
  file.witness_ = std::make_unique<Witness>(state, state.ctime_ns, MappingGuard(file.data_, file.size_));
  return file;
}

Status FileBytes::CheckUnchanged(const Digest& digest) const {
  if (witness_ == nullptr) return {};
  const FileState& was = witness_->verified;
  VENEER_ASSIGN(const struct stat info, StatRegular(fd_.get(), name_));
  const FileState now = StateOf(info);
  if (now.size != was.size || now.mtime_ns != was.mtime_ns) return Fail(Changed(name_, was, now));
  if (witness_->guard.is_broken())
    return Fail(Code::BLOB_CHANGED, name_, "part of the file cannot be read any longer; run `veneer fsck --full`, or import it again");
  if (now.ctime_ns == witness_->known_ctime_ns.load(std::memory_order_relaxed)) return {};
  // Renamed, unlinked, another mode; or written by someone who set the time back.
  VENEER_ASSIGN(const Digest found, HashFile(fd_, name_));
  VENEER_ASSIGN(const struct stat after, StatRegular(fd_.get(), name_));
  if (found != digest || after.st_size != info.st_size || StateOf(after).mtime_ns != was.mtime_ns)
    return Fail(Changed(name_, was, StateOf(after)));
  witness_->known_ctime_ns.store(now.ctime_ns, std::memory_order_relaxed);  // what came while hashing is seen next time
  return {};
}

Result<FileBytes> FileBytes::Copy(const std::filesystem::path& path, std::uint64_t limit) {
  VENEER_ASSIGN(const UniqueFd fd, OpenRegular(path));
  return CopyFd(fd, path.string(), limit);
}

Result<FileBytes> FileBytes::CopyFd(const UniqueFd& fd, std::string name, std::uint64_t limit) {
  VENEER_ASSIGN(const struct stat info, StatRegular(fd.get(), name));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > limit) return Fail(Code::INPUT_TOO_LARGE, name, fmt::format("{} bytes, allowed {}", size, limit));
  if (size == 0) return Fail(Code::HEADER_CORRUPT, name, "the file is empty");
  VENEER_ASSIGN(UniqueFd copy, CreateMemory(name));
  if (ftruncate(copy.get(), info.st_size) != 0) return Fail(IoError(errno, name, "size a private copy"));
  std::uint64_t done = 0;
  std::byte buffer[1 << 16];
  while (done < size) {
    const ssize_t got = pread(fd.get(), buffer, sizeof buffer, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(IoError(errno, name, "read"));
    if (got == 0) return Fail(Code::BLOB_CHANGED, name, "the file became shorter while it was read; try again");
    const auto part = std::min(static_cast<std::uint64_t>(got), size - done);
    VENEER_TRY(WriteAt(copy, std::span(buffer, part), done, name));
    done += part;
  }
  return Seal(std::move(copy), size, std::move(name));
}

Result<FileBytes> FileBytes::Of(std::span<const std::byte> bytes, std::string name) {
  if (bytes.empty()) return Fail(Code::HEADER_CORRUPT, name, "the file is empty");
  VENEER_ASSIGN(UniqueFd copy, CreateMemory(name));
  VENEER_TRY(WriteAt(copy, bytes, 0, name));
  return Seal(std::move(copy), bytes.size(), std::move(name));
}

Result<FileBytes> FileBytes::Seal(UniqueFd copy, std::size_t size, std::string name) {
  if (fcntl(copy.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return Fail(IoError(errno, name, "seal a private copy"));
  FileBytes file;
  file.size_ = size;
  VENEER_ASSIGN(file.data_, MapReadOnly(copy.get(), file.size_, name));
  file.fd_ = std::move(copy);
  file.name_ = std::move(name);
  return file;
}

Result<std::string> ReadText(const std::filesystem::path& path, std::uint64_t limit) {
  VENEER_ASSIGN(const UniqueFd fd, OpenRegular(path));
  const std::string name = path.string();
  std::string text;
  char buffer[1 << 14];
  for (;;) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(IoError(errno, name, "read"));
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > limit) return Fail(Code::INPUT_TOO_LARGE, name, fmt::format("more than {} bytes", limit));
  }
}

}  // namespace veneer
