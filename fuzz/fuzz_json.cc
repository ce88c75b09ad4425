// Any bytes parse or are refused; what parses is printed and parses to the same value again, within the same limits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/format/json.h"
#include "fuzz/expect.h"

namespace {

bool Equal(const veneer::Json& a, const veneer::Json& b) {
  if (a.type != b.type || a.boolean != b.boolean || a.text != b.text || a.at != b.at) return false;
  if (a.elements.size() != b.elements.size() || a.members.size() != b.members.size()) return false;
  for (std::size_t i = 0; i < a.elements.size(); ++i)
    if (!Equal(a.elements[i], b.elements[i])) return false;
  for (std::size_t i = 0; i < a.members.size(); ++i)
    if (a.members[i].first != b.members[i].first || !Equal(a.members[i].second, b.members[i].second)) return false;
  return true;
}

int Depth(const veneer::Json& json) {
  int inner = 0;
  for (const veneer::Json& element : json.elements) inner = std::max(inner, Depth(element));
  for (const auto& member : json.members) inner = std::max(inner, Depth(member.second));
  return json.is_array() || json.is_object() ? inner + 1 : 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view document(reinterpret_cast<const char*>(data), size);
  veneer::JsonLimits limits;
  limits.nul_in_strings = size % 2 == 1;
  const auto json = veneer::ParseJson(document, limits);
  if (!json) return 0;
  FUZZ_EXPECT(Depth(*json) <= limits.depth);
  limits.bytes *= 8;  // control characters grow to six bytes when they are printed
  const auto again = veneer::ParseJson(json->Dump(), limits);
  FUZZ_EXPECT(again.has_value());
  FUZZ_EXPECT(Equal(*json, *again));
  for (const auto& member : json->members) {
    (void)member.second.U64();
    (void)member.second.Number();
  }
  return 0;
}
