#include "core/store/io.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "core/base/digest.h"

namespace veneer {
namespace {

constexpr std::size_t kBesideHex = 16;

}  // namespace

std::string Dir::At(std::string_view name) const { return path.empty() ? std::string(name) : fmt::format("{}/{}", path, name); }

std::string FormatTime(std::int64_t wall_ns) {
  using namespace std::chrono;
  const sys_time<nanoseconds> time{nanoseconds(wall_ns)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<seconds>(time - day));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()), clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

SysResult<UniqueFd> TryOpen(Sys& sys, const Dir& dir, const std::string& name, OpenMode mode, std::uint32_t permissions) {
  for (;;) {
    auto fd = sys.Open(dir.fd.get(), name, mode, permissions);
    if (fd || fd.error() != EINTR) return fd;
  }
}

Result<UniqueFd> OpenFile(Sys& sys, const Dir& dir, const std::string& name, OpenMode mode, std::uint32_t permissions) {
  auto fd = TryOpen(sys, dir, name, mode, permissions);
  if (!fd) return Fail(IoError(fd.error(), dir.At(name), "open"));
  return *std::move(fd);
}

Result<Dir> OpenDir(Sys& sys, const Dir& parent, const std::string& name) {
  VENEER_ASSIGN(UniqueFd fd, OpenFile(sys, parent, name, OpenMode::kDirectory));
  return Dir{std::move(fd), parent.At(name)};
}

Status WriteAll(Sys& sys, const UniqueFd& fd, std::string_view bytes, const std::string& at) {
  auto rest = std::as_bytes(std::span(bytes));
  while (!rest.empty()) {
    const auto put = sys.Write(fd.get(), rest);
    if (!put && put.error() == EINTR) continue;
    if (!put) return Fail(IoError(put.error(), at, "write"));
    if (*put == 0) return Fail(IoError(EIO, at, "write"));  // no progress and no error: never loop on it
    rest = rest.subspan(*put);
  }
  return {};
}

Status SyncFile(Sys& sys, const UniqueFd& fd, const std::string& at) {
  if (const auto synced = sys.Fsync(fd.get()); !synced) return Fail(IoError(synced.error(), at, "sync"));
  return {};
}

Status SyncDir(Sys& sys, const Dir& dir) { return SyncFile(sys, dir.fd, dir.path.empty() ? "." : dir.path); }

Status CloseFile(Sys& sys, UniqueFd fd, const std::string& at) {
  // EINTR: Linux has released the descriptor, and the data was synced before.
  if (const auto closed = sys.Close(std::move(fd)); !closed && closed.error() != EINTR) return Fail(IoError(closed.error(), at, "close"));
  return {};
}

Result<std::string> ReadAll(Sys& sys, const UniqueFd& fd, std::uint64_t limit, const std::string& at) {
  std::string bytes;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(limit + 1, 1 << 16));
  for (;;) {
    const auto got = sys.Pread(fd.get(), buffer, bytes.size());
    if (!got && got.error() == EINTR) continue;
    if (!got) return Fail(IoError(got.error(), at, "read"));
    if (*got == 0) return bytes;
    bytes.append(reinterpret_cast<const char*>(buffer.data()), *got);
    if (bytes.size() > limit) return Fail(Code::STATE_CORRUPT, at, fmt::format("more than the {} bytes allowed", limit));
  }
}

Result<std::optional<std::string>> ReadSmallFile(Sys& sys, const Dir& dir, const std::string& name, std::uint64_t limit) {
  const std::string at = dir.At(name);
  auto fd = sys.Open(dir.fd.get(), name, OpenMode::kRead, 0);
  if (!fd && fd.error() == ENOENT) return std::nullopt;
  if (!fd && fd.error() == ELOOP) return Fail(Code::STATE_CORRUPT, at, "is a symbolic link; the store holds none");
  if (!fd) return Fail(IoError(fd.error(), at, "open"));
  const auto info = sys.Stat(fd->get());
  if (!info) return Fail(IoError(info.error(), at, "stat"));
  if (info->type != FileType::kRegular) return Fail(Code::STATE_CORRUPT, at, "is not a regular file");
  VENEER_ASSIGN(std::string bytes, ReadAll(sys, *fd, limit, at));
  return std::optional<std::string>(std::move(bytes));
}

Result<std::string> WriteBeside(Sys& sys, const Dir& dir, const std::string& name, std::string_view bytes, std::uint32_t permissions) {
  VENEER_ASSIGN(const std::string random, RandomHex(sys, kBesideHex / 2));
  std::string beside = fmt::format("{}~{}", name, random);
  const std::string at = dir.At(beside);
  VENEER_ASSIGN(UniqueFd fd, OpenFile(sys, dir, beside, OpenMode::kCreate, permissions));
  Status status = WriteAll(sys, fd, bytes, at);
  if (status) status = SyncFile(sys, fd, at);
  if (status) status = CloseFile(sys, std::move(fd), at);
  if (status) return beside;
  (void)sys.Unlink(dir.fd.get(), beside);
  return Fail(std::move(status).error());
}

bool IsBesideName(std::string_view name) {
  if (name.size() <= kBesideHex || name[name.size() - kBesideHex - 1] != '~') return false;
  return name.substr(name.size() - kBesideHex).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Status ReplaceFile(Sys& sys, const Dir& dir, const std::string& name, std::string_view bytes, std::uint32_t permissions) {
  VENEER_ASSIGN(const std::string beside, WriteBeside(sys, dir, name, bytes, permissions));
  if (const auto renamed = sys.Rename(dir.fd.get(), beside, dir.fd.get(), name); !renamed) {
    (void)sys.Unlink(dir.fd.get(), beside);
    return Fail(IoError(renamed.error(), dir.At(name), "replace"));
  }
  return SyncVisible(sys, dir, name);
}

Status SyncVisible(Sys& sys, const Dir& dir, const std::string& name) {
  const Status synced = SyncDir(sys, dir);
  if (synced) return {};
  return Fail(Code::DURABILITY_UNKNOWN, dir.At(name),
              fmt::format("the change is visible, but a power cut may take it back ({}); do it again", synced.error().Text()));
}

Status RemoveFile(Sys& sys, const Dir& dir, const std::string& name) {
  const auto removed = sys.Unlink(dir.fd.get(), name);
  if (!removed && removed.error() == EISDIR)
    return Fail(Code::STATE_CORRUPT, dir.At(name), "is a folder where the store has none; remove it by hand");
  if (!removed && removed.error() != ENOENT) return Fail(IoError(removed.error(), dir.At(name), "remove"));
  return {};
}

Result<std::vector<std::string>> ListNames(Sys& sys, const Dir& dir) {
  auto names = sys.List(dir.fd.get());
  if (!names) return Fail(IoError(names.error(), dir.path, "list"));
  std::sort(names->begin(), names->end());
  return *std::move(names);
}

Result<std::string> RandomHex(Sys& sys, std::size_t n_bytes) {
  std::vector<unsigned char> bytes(n_bytes);
  for (;;) {
    const auto filled = sys.Random(std::as_writable_bytes(std::span(bytes)));
    if (filled) return ToHex(bytes);
    if (filled.error() != EINTR) return Fail(IoError(filled.error(), "getrandom", "get random bytes"));
  }
}

}  // namespace veneer
