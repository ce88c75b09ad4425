// The simulated disk behind calls whose own allocations neither count nor fail: the kernel has its own memory.
#ifndef VENEER_TESTS_CORE_STORE_FAULTS_QUIET_SYS_H_
#define VENEER_TESTS_CORE_STORE_FAULTS_QUIET_SYS_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/store/sys.h"
#include "tests/core/store/faults/allocations.h"

template <class Call>
auto Quiet(Call call) {
  const allocations::Pause pause;
  return call();
}

class QuietSys final : public veneer::Sys {
 public:
  explicit QuietSys(veneer::Sys& inner) : inner_(&inner) {}
  veneer::SysResult<veneer::UniqueFd> OpenRoot(const std::string& path) override {
    return Quiet([&] { return inner_->OpenRoot(path); });
  }
  veneer::SysStatus MakeRoot(const std::string& path) override {
    return Quiet([&] { return inner_->MakeRoot(path); });
  }
  veneer::SysResult<veneer::UniqueFd> Open(int dir, const std::string& name, veneer::OpenMode mode, std::uint32_t permissions) override {
    return Quiet([&] { return inner_->Open(dir, name, mode, permissions); });
  }
  veneer::SysStatus Close(veneer::UniqueFd fd) override {
    return Quiet([&] { return inner_->Close(std::move(fd)); });
  }
  veneer::SysResult<veneer::UniqueFd> Duplicate(int fd) override {
    return Quiet([&] { return inner_->Duplicate(fd); });
  }
  veneer::SysResult<std::size_t> Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) override {
    return Quiet([&] { return inner_->Pread(fd, buffer, offset); });
  }
  veneer::SysResult<std::size_t> Write(int fd, std::span<const std::byte> bytes) override {
    return Quiet([&] { return inner_->Write(fd, bytes); });
  }
  veneer::SysStatus Fsync(int fd) override {
    return Quiet([&] { return inner_->Fsync(fd); });
  }
  veneer::SysStatus Truncate(int fd, std::uint64_t size) override {
    return Quiet([&] { return inner_->Truncate(fd, size); });
  }
  veneer::SysStatus SetPermissions(int fd, std::uint32_t p) override {
    return Quiet([&] { return inner_->SetPermissions(fd, p); });
  }
  veneer::SysResult<veneer::FileInfo> Stat(int fd) override {
    return Quiet([&] { return inner_->Stat(fd); });
  }
  veneer::SysResult<std::uint64_t> FileSystemMagic(int fd) override {
    return Quiet([&] { return inner_->FileSystemMagic(fd); });
  }
  veneer::SysStatus MakeDirectory(int dir, const std::string& name, std::uint32_t p) override {
    return Quiet([&] { return inner_->MakeDirectory(dir, name, p); });
  }
  veneer::SysResult<std::vector<std::string>> List(int dir) override {
    return Quiet([&] { return inner_->List(dir); });
  }
  veneer::SysStatus Rename(int from_dir, const std::string& from, int to_dir, const std::string& to) override {
    return Quiet([&] { return inner_->Rename(from_dir, from, to_dir, to); });
  }
  veneer::SysStatus Link(int from_dir, const std::string& from, int to_dir, const std::string& to) override {
    return Quiet([&] { return inner_->Link(from_dir, from, to_dir, to); });
  }
  veneer::SysStatus LinkUnnamed(int fd, int to_dir, const std::string& to) override {
    return Quiet([&] { return inner_->LinkUnnamed(fd, to_dir, to); });
  }
  veneer::SysStatus Unlink(int dir, const std::string& name) override {
    return Quiet([&] { return inner_->Unlink(dir, name); });
  }
  veneer::SysResult<bool> TryLock(int fd, std::uint64_t byte, veneer::LockKind kind) override {
    return Quiet([&] { return inner_->TryLock(fd, byte, kind); });
  }
  veneer::SysStatus EnableVerity(int fd) override {
    return Quiet([&] { return inner_->EnableVerity(fd); });
  }
  veneer::SysResult<std::string> MeasureVerity(int fd) override {
    return Quiet([&] { return inner_->MeasureVerity(fd); });
  }
  veneer::SysResult<veneer::UniqueFd> WatchDirectory(int dir) override {
    return Quiet([&] { return inner_->WatchDirectory(dir); });
  }
  veneer::SysResult<bool> WaitForChange(int watch, std::uint32_t ms) override {
    return Quiet([&] { return inner_->WaitForChange(watch, ms); });
  }
  veneer::SysStatus Random(std::span<std::byte> buffer) override {
    return Quiet([&] { return inner_->Random(buffer); });
  }
  std::int64_t WallClockNs() override {
    return Quiet([&] { return inner_->WallClockNs(); });
  }
  std::int64_t SteadyClockNs() override {
    return Quiet([&] { return inner_->SteadyClockNs(); });
  }
  void SleepMs(std::uint32_t milliseconds) override { inner_->SleepMs(milliseconds); }
  std::uint32_t User() override { return inner_->User(); }

 private:
  veneer::Sys* inner_;
};

#endif  // VENEER_TESTS_CORE_STORE_FAULTS_QUIET_SYS_H_
