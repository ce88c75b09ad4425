// Files as values: a descriptor that closes itself, a read-only mapping, and a sealed private copy.
#ifndef VENEER_CORE_BASE_FILE_H_
#define VENEER_CORE_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace veneer {

// Owns a descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd();
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct Digest;

// What tells that a file is as it was, short of reading it.
struct FileState {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;  // since the epoch
};

// Bytes that stay valid and unmoved as long as this object lives. Movable, not copyable.
class FileBytes {
 public:
  FileBytes();
  ~FileBytes();
  FileBytes(FileBytes&&) noexcept;
  FileBytes& operator=(FileBytes&&) noexcept;

  // Maps the whole regular file read-only (the base: never copied, never written). E603 when it cannot be opened, E304 when
  // it is no regular file, E402 when it is empty. The descriptor stays open: hash through it what you map. `verified`: the file's state
  // when it was hashed, if that was before; CheckUnchanged compares with it.
  static Result<FileBytes> Map(const std::filesystem::path& path);
  static Result<FileBytes> MapFd(UniqueFd fd, std::string name, const FileState* verified = nullptr);

  // Copies the file into a sealed memfd and maps that (adapters, cards, configuration): nobody can change or truncate it
  // afterwards. E101 when it is larger than `limit` bytes.
  static Result<FileBytes> Copy(const std::filesystem::path& path, std::uint64_t limit);
  static Result<FileBytes> CopyFd(const UniqueFd& fd, std::string name, std::uint64_t limit);
  // The same of bytes in memory, for what was made and not read. E402 when there are none.
  static Result<FileBytes> Of(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::string& name() const { return name_; }  // path, for messages
  [[nodiscard]] const UniqueFd& fd() const { return fd_; }         // of the mapped file or memfd

  // E305 naming the file when its bytes need not be those with this digest any longer: it was made shorter or longer, written to, or a
  // page of it cannot be read. A file that was renamed, replaced by another one or unlinked is the same file still: where only the time
  // of its last change of any kind differs, it is hashed once and then known again. Any thread; one fstat otherwise. A sealed copy
  // cannot change and is not looked at. A write through somebody's shared mapping shows only when the kernel next marks the page.
  [[nodiscard]] Status CheckUnchanged(const Digest& digest) const;

 private:
  struct Witness;
  static Result<FileBytes> Seal(UniqueFd copy, std::size_t size, std::string name);
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  UniqueFd fd_;
  std::string name_;
  std::unique_ptr<Witness> witness_;  // of a mapped file; none for sealed copies
};

// Opens a regular file for reading without blocking on FIFOs. Follows symlinks: these are the user's own paths (the store opens its
// files through Sys, which follows none). E301 when it does not exist, E304 when it is not a regular file, else E603.
Result<UniqueFd> OpenRegular(const std::filesystem::path& path);

// Whole file as text, at most `limit` bytes (E101 above).
Result<std::string> ReadText(const std::filesystem::path& path, std::uint64_t limit);

// Turns errno into the code for it: ENOSPC 502, EMFILE/ENFILE 503, ENOMEM 504, else 603.
Error IoError(int errno_value, std::string at, std::string_view action);

}  // namespace veneer

#endif  // VENEER_CORE_BASE_FILE_H_
