#include "core/plugin/path_trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace veneer {
namespace {

namespace fs = std::filesystem;

// Root, the user, and whoever owns the program that runs or a directory above it: they decide what runs in this process anyway.
const std::set<uid_t>& TrustedOwners() {
  static const std::set<uid_t> owners = [] {
    std::set<uid_t> found{0, geteuid()};
    std::error_code error;
    for (fs::path path = fs::read_symlink("/proc/self/exe", error); !error && path.has_relative_path(); path = path.parent_path()) {
      struct stat info{};
      if (lstat(path.c_str(), &info) == 0) found.insert(info.st_uid);
    }
    return found;
  }();
  return owners;
}

// The primary group of the owner, with no other member: write permission for it gives nobody anything.
bool IsOwnGroup(uid_t owner, gid_t group) {
  std::vector<char> buffer(1 << 16);
  passwd user{};
  passwd* found_user = nullptr;
  if (getpwuid_r(owner, &user, buffer.data(), buffer.size(), &found_user) != 0 || found_user == nullptr || user.pw_gid != group)
    return false;
  const std::string name = user.pw_name;
  ::group entry{};
  ::group* found_group = nullptr;
  if (getgrgid_r(group, &entry, buffer.data(), buffer.size(), &found_group) != 0 || found_group == nullptr) return false;
  for (char** member = entry.gr_mem; *member != nullptr; ++member)
    if (name != *member) return false;
  return true;
}

Status CheckPermissions(const struct stat& info, const fs::path& path) {
  const auto refuse = [&path](std::string why) {
    return Fail(Code::PLUGIN_REFUSED, path.string(),
                std::move(why) + ": somebody else could exchange the plugin; change its owner or mode");
  };
  if (!TrustedOwners().contains(info.st_uid)) return refuse(fmt::format("belongs to user {}", info.st_uid));
  if (S_ISDIR(info.st_mode) && info.st_uid == 0 && (info.st_mode & S_ISVTX) != 0) return {};
  if ((info.st_mode & S_IWOTH) != 0) return refuse("everybody may write to it");
  if ((info.st_mode & S_IWGRP) != 0 && !IsOwnGroup(info.st_uid, info.st_gid))
    return refuse(fmt::format("group {} may write to it", info.st_gid));
  return {};
}

}  // namespace

Result<UniqueFd> OpenTrusted(const fs::path& path) {
  std::error_code error;
  const fs::path directory = fs::canonical(path.parent_path().empty() ? fs::path(".") : path.parent_path(), error);
  if (error) return Fail(Code::BLOB_MISSING, path.string(), "no such directory; check the path");
  for (fs::path above = directory;; above = above.parent_path()) {
    struct stat info{};
    if (lstat(above.c_str(), &info) != 0) return Fail(IoError(errno, above.string(), "look at"));
    VENEER_TRY(CheckPermissions(info, above));
    if (above == above.parent_path()) break;
  }
  const fs::path file = directory / path.filename();
  UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    if (errno == ENOENT) return Fail(Code::BLOB_MISSING, file.string(), "no such file; check the path");
    if (errno == ELOOP) return Fail(Code::PLUGIN_REFUSED, file.string(), "is a symbolic link; give the file itself");
    return Fail(IoError(errno, file.string(), "open"));
  }
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return Fail(IoError(errno, file.string(), "look at"));
  if (!S_ISREG(info.st_mode)) return Fail(Code::PLUGIN_REFUSED, file.string(), "is not a regular file");
  VENEER_TRY(CheckPermissions(info, file));
  return fd;
}

}  // namespace veneer
