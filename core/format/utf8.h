// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef VENEER_CORE_FORMAT_UTF8_H_
#define VENEER_CORE_FORMAT_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace veneer {

// What the bytes at the start of a text are.
struct Utf8Step {
  enum class Kind { kValid, kIncomplete, kInvalid } kind;
  // kValid: bytes of the sequence. kIncomplete: all bytes of the text, a proper prefix of some valid sequence. kInvalid: bytes of
  // the longest prefix that could have begun one, at least 1 (what one U+FFFD replaces, Unicode 15 section 3.9).
  std::size_t size;
};
Utf8Step StepUtf8(std::string_view text);  // text is not empty

// Index of the first byte that is not part of valid UTF-8, or npos.
std::size_t FindInvalidUtf8(std::string_view text);

// Appends the UTF-8 form of a code point below 0x110000 that is no surrogate.
void AppendUtf8(char32_t code_point, std::string& out);

}  // namespace veneer

#endif  // VENEER_CORE_FORMAT_UTF8_H_
