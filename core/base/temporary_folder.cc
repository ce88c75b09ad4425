#include "core/base/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <system_error>

#include "core/base/file.h"

namespace veneer {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::Make(const fs::path& parent, const std::string& name) {
  std::string pattern = (parent / fmt::format("veneer-{}-XXXXXX", name)).string();
  if (mkdtemp(pattern.data()) == nullptr) return Fail(IoError(errno, parent.string(), "make a folder"));
  return TemporaryFolder(pattern);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace veneer
