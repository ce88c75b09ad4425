#include "core/manifest/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace veneer {

std::string CanonicalString(std::string_view text) { return JsonQuote(text); }  // escapes what JCS escapes, in its spelling

std::string CanonicalInteger(std::uint64_t value) { return fmt::format("{}", value); }

std::string CanonicalArray(std::span<const std::string> elements) { return fmt::format("[{}]", fmt::join(elements, ",")); }

std::string CanonicalObject(const CanonicalMembers& members) {
  std::string out = "{";
  for (const auto& [name, value] : members) {
    if (out.size() > 1) out += ',';
    out += CanonicalString(name);
    out += ':';
    out += value;
  }
  out += '}';
  return out;
}

Result<std::string> CanonicalText(const Json& value) {
  switch (value.type) {
    case Json::Type::kString:
      if (value.text.find('\0') != std::string::npos) return Fail(Code::NAME_INVALID, value.at, "the text holds U+0000; remove it");
      return CanonicalString(value.text);
    case Json::Type::kNumber: {
      VENEER_ASSIGN(const std::uint64_t integer, value.U64());
      return CanonicalInteger(integer);
    }
    case Json::Type::kArray: {
      std::vector<std::string> elements;
      for (const Json& element : value.elements) {
        VENEER_ASSIGN(elements.emplace_back(), CanonicalText(element));
      }
      return CanonicalArray(elements);
    }
    case Json::Type::kObject: {
      CanonicalMembers members;
      for (const auto& [name, member] : value.members) {
        if (!IsPrintableAscii(name)) return Fail(Code::NAME_INVALID, member.at, "the key is not printable ASCII; rename it");
        VENEER_ASSIGN(members[name], CanonicalText(member));
      }
      return CanonicalObject(members);
    }
    case Json::Type::kNull:
    case Json::Type::kBool:
      break;
  }
  return Fail(Code::FIELD_TYPE, value.at,
              fmt::format("found {}, allowed are text, whole numbers, arrays and objects of them; write it as text", value.Dump()));
}

Status CheckCanonicalBytes(std::string_view bytes, std::string_view canonical) {
  if (bytes == canonical) return {};
  const auto [difference, unused] = std::ranges::mismatch(bytes, canonical);
  const auto offset = static_cast<std::size_t>(difference - bytes.begin());
  return Fail(Code::NOT_CANONICAL, "",
              fmt::format("byte {}: found {}, the canonical form has {}; a stored document has one spelling, seal the manifest again",
                          offset, JsonQuote(bytes.substr(offset, 24)), JsonQuote(canonical.substr(offset, 24))));
}

bool IsPrintableAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7E; });
}

}  // namespace veneer
