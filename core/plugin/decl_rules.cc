#include "core/plugin/decl_rules.h"

#include <algorithm>
#include <utility>

#include "core/format/json.h"

namespace veneer::decl_rules {
namespace {

constexpr std::size_t kMaxText = 1 << 16;

}  // namespace

std::unexpected<Error> Broken(std::string_view at, std::string detail) {
  return Fail(Code::PLUGIN_FAULT, std::string(at), std::move(detail) + "; the plugin breaks the ABI's rules, ask its author");
}

std::string Text(const char* text) { return text == nullptr ? std::string() : std::string(text); }

Result<std::string> Normalised(const char* text, std::string_view at) {
  if (text == nullptr) return std::string();
  auto json = ParseJson(text, {.bytes = kMaxText});
  if (!json) return Broken(at, "not JSON: " + json.error().detail);
  return json->Dump();
}

bool IsPlainText(std::string_view text, std::size_t limit) {
  return text.size() <= limit && std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

bool IsDim(std::uint32_t dim) {
  if (dim < VNR_DIM_SYMBOL) return dim > 0;
  if (dim >= VNR_DIM_IN) return dim <= VNR_DIM_OUT_PLUS_1;
  const std::uint32_t letter = dim & ~VNR_DIM_SYMBOL;
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

}  // namespace veneer::decl_rules
