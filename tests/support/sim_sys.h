// A Sys that passes everything on to another one, writes down what was called, and on demand fails, shortens, leaves out or kills at the
// n-th call.
#ifndef VENEER_TESTS_SUPPORT_SIM_SYS_H_
#define VENEER_TESTS_SUPPORT_SIM_SYS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/store/sys.h"

using SysFileKey = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

class SimSys final : public veneer::Sys {
 public:
  explicit SimSys(veneer::Sys& inner) : inner_(&inner) {}

  // Calls are numbered from 1 in the order they are made; Reset starts again at 1 and forgets the trace.
  void Reset();
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  // "open veneer/state/CURRENT", "write …", "fsync veneer/gen", "rename veneer/state/CURRENT": what, and on which file. Random parts
  // of names are left out: "veneer/state/CURRENT~".
  [[nodiscard]] const std::vector<std::string>& trace() const { return trace_; }

  // Faults. A call counts for `at` whatever it is; `error` is an errno value. once: only that call; else that one and all later ones.
  void FailAt(std::uint64_t at, int error, bool once = true);
  // Fails (once) the n-th call whose trace line is exactly `line`; the call is not made.
  void FailOn(std::string line, int error, std::uint64_t nth = 1);
  // The same, but the call is made and then reported as failed.
  void FailAfter(std::string line, int error);
  void KillBefore(std::uint64_t at) { kill_before_ = at; }  // SIGKILL to this process
  void KillAfter(std::uint64_t at) { kill_after_ = at; }
  void ShortWriteAt(std::uint64_t at) { short_write_at_ = at; }  // half of the bytes, at least one
  void ShortReadAt(std::uint64_t at) { short_read_at_ = at; }    // the same
  void LeaveOutAt(std::uint64_t at) { leave_out_at_ = at; }      // a call without a value: not made, and said to have worked
  // From this call on nothing has an effect, and every call fails with EIO: the process is dead, whatever it still computes.
  void StopAt(std::uint64_t at) { stop_at_ = at; }
  // Looks at every call before it is made, with its trace line; calls() is its number. May change the faults for that very call.
  std::function<void(const std::string& line)> before_call;

  bool verity = false;                  // true: fs-verity as on a file system that has it, kept by this object for its files
  int verity_error = 0;                 // not 0: what enabling fails with
  std::string full_until_unlinked;      // not empty: a write is ENOSPC until a name that begins so has been unlinked
  bool unnamed_files = true;            // false: O_TMPFILE is not supported
  std::uint64_t file_system_magic = 0;  // not 0: what FileSystemMagic says
  std::int64_t wall_clock_offset_ns = 0;
  std::uint32_t user_offset = 0;      // added to the user id
  bool interrupt_everything = false;  // each call that may be interrupted fails once with EINTR before it works

  veneer::SysResult<veneer::UniqueFd> OpenRoot(const std::string& path) override;
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
  std::int64_t WallClockNs() override { return inner_->WallClockNs() + wall_clock_offset_ns; }
  std::int64_t SteadyClockNs() override { return inner_->SteadyClockNs(); }
  void SleepMs(std::uint32_t milliseconds) override { inner_->SleepMs(milliseconds); }
  std::uint32_t User() override { return inner_->User() + user_offset; }

 private:
  [[nodiscard]] std::string Label(int fd) const;
  [[nodiscard]] std::string Label(int dir, const std::string& name) const;
  // Counts a call and makes it unless a fault says otherwise.
  template <class T>
  veneer::SysResult<T> Call(const std::string& line, const std::function<veneer::SysResult<T>()>& make);
  int FaultBefore(const std::string& line);  // 0 or an errno value

  SysFileKey KeyOf(int fd) const;
  veneer::Sys* inner_;
  std::map<SysFileKey, std::string> merkle_;  // digests of the sealed files
  std::uint64_t calls_ = 0;
  std::vector<std::string> trace_;
  std::map<int, std::string> labels_;  // by descriptor; a reused number gets a new label when it is opened
  std::uint64_t fail_at_ = 0, kill_before_ = 0, kill_after_ = 0, short_write_at_ = 0, short_read_at_ = 0, fail_on_nth_ = 0;
  std::uint64_t leave_out_at_ = 0, stop_at_ = 0;
  int fail_error_ = 0, fail_on_error_ = 0, fail_after_error_ = 0;
  bool fail_once_ = true, interrupted_ = false;
  std::string fail_on_, fail_after_;
};

#endif  // VENEER_TESTS_SUPPORT_SIM_SYS_H_
