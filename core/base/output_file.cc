#include "core/base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>

namespace veneer {

Result<OutputFile> OutputFile::Create(const std::filesystem::path& path) {
  struct stat status{};
  const bool direct = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  static std::atomic<unsigned> serial = 0;
  const std::string name = direct ? path.string() : fmt::format("{}.part-{}-{}", path.string(), ::getpid(), serial++);
  UniqueFd fd(::open(name.c_str(), O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_EXCL), 0666));
  if (!fd.valid()) return Fail(IoError(errno, path.string(), "create"));
  return OutputFile(std::move(fd), path, direct ? std::filesystem::path() : std::filesystem::path(name));
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(IoError(errno, path_.string(), "write"));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status OutputFile::Finish() {
  if (temporary_.empty()) return {};
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return Fail(IoError(errno, path_.string(), "rename into"));
  temporary_.clear();
  return {};
}

}  // namespace veneer
