#include "core/format/utf8.h"

#include <string>

#include "tests/support/catch.h"

namespace veneer {
namespace {

// Independent decoder of RFC 3629 by its grammar: value and length from the lead byte, then the value's range.
bool IsValidByValue(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size = lead < 0x80 ? 1 : (lead >> 5) == 6 ? 2 : (lead >> 4) == 14 ? 3 : (lead >> 3) == 30 ? 4 : 0;
    if (size == 0 || i + size > text.size()) return false;
    char32_t value = size == 1 ? lead : lead & (0x7Fu >> size);
    for (std::size_t k = 1; k < size; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte >> 6) != 2) return false;
      value = (value << 6) | (byte & 0x3F);
    }
    constexpr char32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < kLowest[size] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return false;
    i += size;
  }
  return true;
}

TEST_CASE("utf8: every string of up to three bytes is judged as its code points say") {
  std::size_t valid = 0;
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b)
      for (unsigned c = 0; c < 256; c += 3) {
        const std::string text{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
        const bool expected = IsValidByValue(text);
        valid += expected;
        if ((FindInvalidUtf8(text) == std::string_view::npos) != expected) FAIL("bytes " << a << " " << b << " " << c);
      }
  CHECK(valid > 0);
}

TEST_CASE("utf8: every code point is written as its valid form and no other value is valid") {
  std::string text;
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    text.clear();
    AppendUtf8(point, text);
    const Utf8Step step = StepUtf8(text);
    if (step.kind != Utf8Step::Kind::kValid || step.size != text.size() || !IsValidByValue(text)) FAIL("code point " << std::size_t{point});
  }
  SUCCEED();
}

TEST_CASE("utf8: a cut sequence is incomplete, a wrong continuation ends the invalid part before it") {
  CHECK(StepUtf8("\xF0\x9F\x98").kind == Utf8Step::Kind::kIncomplete);
  CHECK(StepUtf8("\xF0\x9F\x98").size == 3);
  CHECK(StepUtf8("\xF0\x9Fx").kind == Utf8Step::Kind::kInvalid);
  CHECK(StepUtf8("\xF0\x9Fx").size == 2);
  CHECK(StepUtf8("\xE0\x80\x80").size == 1);
  CHECK(FindInvalidUtf8("ok\xE2\x82") == 2);
}

}  // namespace
}  // namespace veneer
