// The canonical printer: veneer's profile of RFC 8785 (JCS). Objects with sorted keys, arrays, strings and integers 0 … 2^53-1; there
// is no float, null or boolean to print, so any JCS library gives the same bytes. Values are their canonical text.
#ifndef VENEER_CORE_MANIFEST_CANONICAL_H_
#define VENEER_CORE_MANIFEST_CANONICAL_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/format/json.h"

namespace veneer {

// Members by name. Names are ASCII, for which the UTF-16 order of JCS is the byte order of the map.
using CanonicalMembers = std::map<std::string, std::string>;

std::string CanonicalString(std::string_view text);
std::string CanonicalInteger(std::uint64_t value);
std::string CanonicalArray(std::span<const std::string> elements);
std::string CanonicalObject(const CanonicalMembers& members);

// A parsed value as canonical text: free values of a statement. E204 for null and booleans, E107 for a number that is no integer
// 0 … 2^53-1, E205 for a key that is not printable ASCII and for U+0000 in a string.
Result<std::string> CanonicalText(const Json& value);

// E212 unless `bytes` are `canonical`, the text printed from what `bytes` say.
Status CheckCanonicalBytes(std::string_view bytes, std::string_view canonical);

bool IsPrintableAscii(std::string_view text);  // 0x20 … 0x7E

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_CANONICAL_H_
