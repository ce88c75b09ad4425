#include "core/plugin/decl_json.h"

#include <fmt/format.h>

#include <algorithm>

namespace veneer::decl_json {

std::string BitsToJson(std::uint32_t mask, Names names) {
  std::string out;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    if ((mask & (1u << bit)) == 0) continue;
    const bool is_named = bit < names.size() && !names[bit].empty();
    out += fmt::format("{}{}", out.empty() ? "" : ",", JsonQuote(is_named ? std::string(names[bit]) : fmt::format("bit{}", bit)));
  }
  return "[" + out + "]";
}

std::string Optional(std::string_view key, std::string_view text) {
  return text.empty() ? std::string() : fmt::format(",\"{}\":{}", key, JsonQuote(text));
}
std::string OptionalJson(std::string_view key, std::string_view json) {
  return json.empty() ? std::string() : fmt::format(",\"{}\":{}", key, json);
}

Result<std::uint32_t> Members::Bits(std::string_view key, Names names) {
  VENEER_ASSIGN(const std::span<const Json> list, List(key));
  std::uint32_t mask = 0;
  for (const Json& element : list) {
    VENEER_ASSIGN(const std::string name, element.String());
    std::uint32_t bit = 0;
    while (bit < 32 && name != (bit < names.size() && !names[bit].empty() ? std::string(names[bit]) : fmt::format("bit{}", bit))) ++bit;
    if (bit == 32) return Fail(Code::VALUE_UNKNOWN, element.at, fmt::format("'{}' is not known here", name));
    mask |= 1u << bit;
  }
  return mask;
}

Result<std::uint32_t> Members::Choice(std::string_view key, Names names) {
  VENEER_ASSIGN(const Json* json, Take(key));
  VENEER_ASSIGN(const std::string name, json->String());
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return Fail(Code::VALUE_UNKNOWN, json->at, fmt::format("'{}' is not known here", name));
  return static_cast<std::uint32_t>(found - names.begin());
}

}  // namespace veneer::decl_json
