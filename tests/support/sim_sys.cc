#include "tests/support/sim_sys.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <type_traits>
#include <utility>

#include "core/base/digest.h"
#include "core/store/io.h"

using veneer::SysResult;
using veneer::SysStatus;
using veneer::UniqueFd;

void SimSys::Reset() {
  calls_ = 0;
  trace_.clear();
  fail_at_ = kill_before_ = kill_after_ = short_write_at_ = short_read_at_ = fail_on_nth_ = leave_out_at_ = stop_at_ = 0;
  fail_on_.clear();
  fail_after_.clear();
}

void SimSys::FailAt(std::uint64_t at, int error, bool once) {
  fail_at_ = at;
  fail_error_ = error;
  fail_once_ = once;
}

void SimSys::FailOn(std::string line, int error, std::uint64_t nth) {
  fail_on_ = std::move(line);
  fail_on_error_ = error;
  fail_on_nth_ = nth;
}

void SimSys::FailAfter(std::string line, int error) {
  fail_after_ = std::move(line);
  fail_after_error_ = error;
}

std::string SimSys::Label(int fd) const {
  const auto found = labels_.find(fd);
  return found == labels_.end() ? "?" : found->second;
}

std::string SimSys::Label(int dir, const std::string& name) const {
  const std::string shown = veneer::IsBesideName(name) ? name.substr(0, name.size() - 16) : name;
  const std::string parent = Label(dir);
  return parent.empty() ? shown : parent + "/" + shown;
}

int SimSys::FaultBefore(const std::string& line) {
  ++calls_;
  trace_.push_back(line);
  if (before_call) before_call(line);
  if (stop_at_ != 0 && calls_ >= stop_at_) return EIO;
  if (calls_ == kill_before_) kill(getpid(), SIGKILL);
  if (fail_at_ != 0 && (calls_ == fail_at_ || (calls_ > fail_at_ && !fail_once_))) return fail_error_;
  if (fail_on_nth_ != 0 && line == fail_on_ && --fail_on_nth_ == 0) return fail_on_error_;
  return 0;
}

template <class T>
SysResult<T> SimSys::Call(const std::string& line, const std::function<SysResult<T>()>& make) {
  if (const int error = FaultBefore(line); error != 0) return std::unexpected(error);
  if constexpr (std::is_void_v<T>) {
    if (calls_ == leave_out_at_) return {};
  }
  auto result = make();
  if (calls_ == kill_after_) kill(getpid(), SIGKILL);
  if (!fail_after_.empty() && line == fail_after_) {
    fail_after_.clear();
    return std::unexpected(fail_after_error_);
  }
  return result;
}

SysResult<UniqueFd> SimSys::OpenRoot(const std::string& path) {
  return Call<UniqueFd>("open root", [&]() -> SysResult<UniqueFd> {
    auto fd = inner_->OpenRoot(path);
    if (fd) labels_[fd->get()] = "";
    return fd;
  });
}

SysStatus SimSys::MakeRoot(const std::string& path) {
  return Call<void>("make root", [&] { return inner_->MakeRoot(path); });
}

SysResult<UniqueFd> SimSys::Open(int dir, const std::string& name, veneer::OpenMode mode, std::uint32_t permissions) {
  const bool unnamed = mode == veneer::OpenMode::kUnnamed;
  const std::string label = unnamed ? Label(dir) + "/(unnamed)" : Label(dir, name);
  return Call<UniqueFd>("open " + label, [&]() -> SysResult<UniqueFd> {
    if (unnamed && !unnamed_files) return std::unexpected(EOPNOTSUPP);
    auto fd = inner_->Open(dir, name, mode, permissions);
    if (fd) labels_[fd->get()] = label;
    return fd;
  });
}

// The descriptor is closed even when the call is to fail, as on Linux.
SysStatus SimSys::Close(UniqueFd fd) {
  const std::string line = "close " + Label(fd.get());
  return Call<void>(line, [&] { return inner_->Close(std::move(fd)); });
}

SysResult<UniqueFd> SimSys::Duplicate(int fd) {
  return Call<UniqueFd>("duplicate " + Label(fd), [&] { return inner_->Duplicate(fd); });
}

SysResult<std::size_t> SimSys::Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) {
  if (interrupt_everything && (interrupted_ = !interrupted_)) return std::unexpected(EINTR);
  return Call<std::size_t>("read " + Label(fd), [&] {
    if (calls_ == short_read_at_) buffer = buffer.first((buffer.size() + 1) / 2);
    return inner_->Pread(fd, buffer, offset);
  });
}

SysResult<std::size_t> SimSys::Write(int fd, std::span<const std::byte> bytes) {
  if (interrupt_everything) {
    if ((interrupted_ = !interrupted_)) return std::unexpected(EINTR);
    bytes = bytes.first(std::min<std::size_t>(bytes.size(), 7));
  }
  return Call<std::size_t>("write " + Label(fd), [&]() -> SysResult<std::size_t> {
    if (!full_until_unlinked.empty()) return std::unexpected(ENOSPC);
    if (calls_ == short_write_at_) bytes = bytes.first((bytes.size() + 1) / 2);
    return inner_->Write(fd, bytes);
  });
}

SysStatus SimSys::Fsync(int fd) {
  return Call<void>("fsync " + Label(fd), [&] { return inner_->Fsync(fd); });
}

SysStatus SimSys::Truncate(int fd, std::uint64_t size) {
  return Call<void>("truncate " + Label(fd), [&] { return inner_->Truncate(fd, size); });
}

SysStatus SimSys::SetPermissions(int fd, std::uint32_t permissions) {
  return Call<void>("chmod " + Label(fd), [&] { return inner_->SetPermissions(fd, permissions); });
}

SysResult<veneer::FileInfo> SimSys::Stat(int fd) {
  return Call<veneer::FileInfo>("stat " + Label(fd), [&] { return inner_->Stat(fd); });
}

SysResult<std::uint64_t> SimSys::FileSystemMagic(int fd) {
  return Call<std::uint64_t>("statfs " + Label(fd), [&]() -> SysResult<std::uint64_t> {
    if (file_system_magic != 0) return file_system_magic;
    return inner_->FileSystemMagic(fd);
  });
}

SysStatus SimSys::MakeDirectory(int dir, const std::string& name, std::uint32_t permissions) {
  return Call<void>("mkdir " + Label(dir, name), [&] { return inner_->MakeDirectory(dir, name, permissions); });
}

SysResult<std::vector<std::string>> SimSys::List(int dir) {
  return Call<std::vector<std::string>>("list " + Label(dir), [&] { return inner_->List(dir); });
}

SysStatus SimSys::Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  return Call<void>("rename " + Label(to_dir, to), [&] { return inner_->Rename(from_dir, from, to_dir, to); });
}

SysStatus SimSys::Link(int from_dir, const std::string& from, int to_dir, const std::string& to) {
  return Call<void>("link " + Label(to_dir, to), [&] { return inner_->Link(from_dir, from, to_dir, to); });
}

SysStatus SimSys::LinkUnnamed(int fd, int to_dir, const std::string& to) {
  return Call<void>("link " + Label(to_dir, to), [&] { return inner_->LinkUnnamed(fd, to_dir, to); });
}

SysStatus SimSys::Unlink(int dir, const std::string& name) {
  return Call<void>("unlink " + Label(dir, name), [&] {
    if (!full_until_unlinked.empty() && Label(dir, name).starts_with(full_until_unlinked)) full_until_unlinked.clear();
    return inner_->Unlink(dir, name);
  });
}

SysResult<bool> SimSys::TryLock(int fd, std::uint64_t byte, veneer::LockKind kind) {
  return Call<bool>("lock " + std::to_string(byte) + " " + Label(fd), [&] { return inner_->TryLock(fd, byte, kind); });
}

SysFileKey SimSys::KeyOf(int fd) const {
  const auto info = inner_->Stat(fd);
  return info ? SysFileKey(info->device, info->inode) : SysFileKey();
}

SysStatus SimSys::EnableVerity(int fd) {
  return Call<void>("enable verity " + Label(fd), [&]() -> SysStatus {
    if (!verity) return inner_->EnableVerity(fd);
    if (verity_error != 0) return std::unexpected(verity_error);
    if (merkle_.contains(KeyOf(fd))) return std::unexpected(EEXIST);
    // Any function of the bytes that is not their SHA-256 stands for the Merkle tree's root.
    std::string bytes = "root of ";
    std::array<std::byte, 4096> part{};
    for (std::uint64_t offset = 0;;) {
      const auto got = inner_->Pread(fd, part, offset);
      if (!got || *got == 0) break;
      bytes.append(reinterpret_cast<const char*>(part.data()), *got);
      offset += *got;
    }
    const veneer::Digest root = veneer::Sha256::Of(bytes);
    merkle_[KeyOf(fd)].assign(root.bytes.begin(), root.bytes.end());
    return {};
  });
}

SysResult<std::string> SimSys::MeasureVerity(int fd) {
  return Call<std::string>("measure verity " + Label(fd), [&]() -> SysResult<std::string> {
    if (!verity) return inner_->MeasureVerity(fd);
    const auto found = merkle_.find(KeyOf(fd));
    if (found == merkle_.end()) return std::unexpected(ENODATA);
    return found->second;
  });
}

SysResult<UniqueFd> SimSys::WatchDirectory(int dir) {
  return Call<UniqueFd>("watch " + Label(dir), [&] { return inner_->WatchDirectory(dir); });
}

SysResult<bool> SimSys::WaitForChange(int watch, std::uint32_t milliseconds) {
  return Call<bool>("wait", [&] { return inner_->WaitForChange(watch, milliseconds); });
}

SysStatus SimSys::Random(std::span<std::byte> buffer) {
  return Call<void>("random", [&] { return inner_->Random(buffer); });
}
