#include "core/store/staging.h"

#include <cerrno>
#include <utility>

namespace veneer {
namespace {

constexpr int kAttempts = 16;

bool HasNoUnnamedFiles(int error) { return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOENT; }

// A locked new name in staging/. A sweep may come between the creation and the lock: then the file has no links and we try again.
Result<std::pair<UniqueFd, std::string>> CreateNamed(const StoreContext& store, std::uint32_t permissions) {
  Sys& sys = *store.sys;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    VENEER_ASSIGN(std::string name, RandomHex(sys, 16));
    VENEER_ASSIGN(UniqueFd fd, OpenFile(sys, store.staging, name, OpenMode::kCreate, permissions));
    const auto locked = sys.TryLock(fd.get(), 0, LockKind::kExclusive);
    if (!locked) return Fail(IoError(locked.error(), store.staging.At(name), "lock"));
    if (!*locked) continue;
    const auto info = sys.Stat(fd.get());
    if (!info) return Fail(IoError(info.error(), store.staging.At(name), "stat"));
    if (info->links > 0) return std::pair(std::move(fd), std::move(name));
  }
  return Fail(Code::LOCKED, store.staging.path, "every new file was swept away at once; try again");
}

}  // namespace

StagedFile::StagedFile(const StoreContext& store, UniqueFd fd, std::string name)
    : sys_(store.sys), staging_(store.staging.fd.get()), fd_(std::move(fd)), name_(std::move(name)) {}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : sys_(other.sys_), staging_(other.staging_), fd_(std::move(other.fd_)), name_(std::exchange(other.name_, {})) {}

StagedFile& StagedFile::operator=(StagedFile&& other) noexcept {
  std::swap(sys_, other.sys_);
  std::swap(staging_, other.staging_);
  std::swap(fd_, other.fd_);
  std::swap(name_, other.name_);
  return *this;
}

StagedFile::~StagedFile() {
  if (!name_.empty()) (void)sys_->Unlink(staging_, name_);  // what stays is swept by the next recovery
}

Result<StagedFile> StagedFile::Create(const StoreContext& store, std::uint32_t permissions) {
  Sys& sys = *store.sys;
  auto fd = sys.Open(store.staging.fd.get(), "", OpenMode::kUnnamed, permissions);
  std::string name;
  if (!fd && HasNoUnnamedFiles(fd.error())) {
    VENEER_ASSIGN(auto named, CreateNamed(store, permissions));
    fd = std::move(named.first);
    name = std::move(named.second);
  }
  if (!fd) return Fail(IoError(fd.error(), store.staging.path, "make a temporary file"));
  StagedFile file(store, *std::move(fd), std::move(name));
  // The umask may have taken bits away.
  if (const auto set = sys.SetPermissions(file.fd_.get(), permissions); !set)
    return Fail(IoError(set.error(), store.staging.path, "set permissions of a temporary file"));
  return file;
}

Result<StagedFile> StagedFile::Create(const StoreContext& store, std::uint32_t permissions, std::string_view bytes) {
  VENEER_ASSIGN(StagedFile file, Create(store, permissions));
  VENEER_TRY(WriteAll(*store.sys, file.fd_, bytes, store.staging.path));
  VENEER_TRY(SyncFile(*store.sys, file.fd_, store.staging.path));
  return file;
}

Result<bool> StagedFile::LinkInto(const Dir& dir, const std::string& name) const {
  const auto linked = name_.empty() ? sys_->LinkUnnamed(fd_.get(), dir.fd.get(), name) : sys_->Link(staging_, name_, dir.fd.get(), name);
  if (linked) return true;
  if (linked.error() == EEXIST) return false;
  return Fail(IoError(linked.error(), dir.At(name), "link"));
}

// A staged blob has mode 0444 already, so it is opened for reading, and a shared lock is enough: the owner's is exclusive.
Leftover InspectStaged(const StoreContext& store, const std::string& name) {
  Sys& sys = *store.sys;
  auto fd = sys.Open(store.staging.fd.get(), name, OpenMode::kRead, 0);
  if (!fd) return {fd.error() == ENOENT ? Leftover::kGone : Leftover::kForeign, {}};
  const auto info = sys.Stat(fd->get());
  if (!info || info->type != FileType::kRegular) return {Leftover::kForeign, {}};
  const auto locked = sys.TryLock(fd->get(), 0, LockKind::kShared);
  return {locked && *locked ? Leftover::kAbandoned : Leftover::kInUse, *std::move(fd)};
}

Result<int> SweepStaging(const StoreContext& store) {
  Sys& sys = *store.sys;
  VENEER_ASSIGN(const auto names, ListNames(sys, store.staging));
  int removed = 0;
  for (const std::string& name : names) {
    const Leftover file = InspectStaged(store, name);  // keeps the lock until the file is gone
    if (file.state != Leftover::kAbandoned) continue;
    VENEER_TRY(RemoveFile(sys, store.staging, name));
    ++removed;
  }
  return removed;
}

}  // namespace veneer
