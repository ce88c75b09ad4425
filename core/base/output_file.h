// A file that a command writes for its user: it appears whole under its name, or not at all.
#ifndef VENEER_CORE_BASE_OUTPUT_FILE_H_
#define VENEER_CORE_BASE_OUTPUT_FILE_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace veneer {

// Written beside its name and renamed into it by Finish; gone without Finish. What is no regular file (a pipe, /dev/stdout) is written
// directly.
class OutputFile {
 public:
  // Opens for writing, so that a path that cannot be written is refused before the work. E603 and kin.
  static Result<OutputFile> Create(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept
      : fd_(std::move(other.fd_)), path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}
  OutputFile& operator=(OutputFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  Status Write(std::span<const std::byte> bytes);
  Status Finish();

 private:
  OutputFile(UniqueFd fd, std::filesystem::path path, std::filesystem::path temporary)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(std::move(temporary)) {}

  UniqueFd fd_;
  std::filesystem::path path_, temporary_;  // temporary_ is empty when path_ is written directly, and after Finish
};

}  // namespace veneer

#endif  // VENEER_CORE_BASE_OUTPUT_FILE_H_
