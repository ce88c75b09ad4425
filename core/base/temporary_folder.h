// A folder of a command's own that goes away with it.
#ifndef VENEER_CORE_BASE_TEMPORARY_FOLDER_H_
#define VENEER_CORE_BASE_TEMPORARY_FOLDER_H_

#include <filesystem>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace veneer {

class TemporaryFolder {
 public:
  // "<parent>/veneer-<name>-<random>", open to this user alone. E502, E603.
  static Result<TemporaryFolder> Make(const std::filesystem::path& parent, const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace veneer

#endif  // VENEER_CORE_BASE_TEMPORARY_FOLDER_H_
