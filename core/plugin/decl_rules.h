// What the readers and checks of declarations share: limits, the error of a breach, and the forms of texts and dimensions.
#ifndef VENEER_CORE_PLUGIN_DECL_RULES_H_
#define VENEER_CORE_PLUGIN_DECL_RULES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "veneer/abi.h"

namespace veneer::decl_rules {

inline constexpr std::uint32_t kSiteClasses = VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING) | VNR_BIT(VNR_SITE_VECTOR);

// E417 with the remedy.
std::unexpected<Error> Broken(std::string_view at, std::string detail);

// Empty for NULL.
std::string Text(const char* text);
// The compact form of a JSON text, so that a card and an entry compare equal whatever the white space. Empty for NULL.
Result<std::string> Normalised(const char* text, std::string_view at);
// At most `limit` bytes without control characters.
bool IsPlainText(std::string_view text, std::size_t limit);
// A constant above 0, IN, OUT, one of their neighbours, or a letter.
bool IsDim(std::uint32_t dim);

// A struct of the plugin that is there and has every field this version knows.
template <class T>
bool IsWhole(const T* item) {
  return item != nullptr && item->struct_size >= sizeof(T);
}

}  // namespace veneer::decl_rules

#endif  // VENEER_CORE_PLUGIN_DECL_RULES_H_
