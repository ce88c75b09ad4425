#include "core/model/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace veneer {

Result<const Architecture*> FindArchitecture(std::string_view name, std::string_view key) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  if (found != kArchitectures.end()) return &*found;
  std::string read;
  for (const Architecture& one : kArchitectures) read += fmt::format("{}\"{}\"", read.empty() ? "" : ", ", one.name);
  return Fail(Code::FORMAT_UNSUPPORTED, std::string(key),
              fmt::format("\"{}\" is not implemented; bases of these architectures are: {}", name, read));
}

}  // namespace veneer
