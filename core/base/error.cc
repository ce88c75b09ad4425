#include "core/base/error.h"

#include <fmt/format.h>

namespace veneer {

std::string_view CodeName(Code code) {
  switch (code) {
#define VENEER_CODE_NAME(number, name) \
  case Code::name:                     \
    return #name;
    VENEER_CODES(VENEER_CODE_NAME)
#undef VENEER_CODE_NAME
  }
  return "INTERNAL";
}

Error Error::Within(std::string_view outer) && {
  const bool pointers = outer.starts_with('/') && at.starts_with('/');
  const std::string_view separator = pointers || outer.empty() || at.empty() ? "" : ": ";
  at = fmt::format("{}{}{}", outer, separator, at);
  return std::move(*this);
}

std::string Error::Text() const {
  return fmt::format("E{} {} at={} {}", static_cast<int>(code), CodeName(code), at.empty() ? "-" : at, detail);
}

}  // namespace veneer
