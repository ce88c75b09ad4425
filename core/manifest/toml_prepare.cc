// A walk over TOML source that knows strings, comments, keys and brackets, and leaves the rest of the grammar to the parser.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/manifest/toml.h"

namespace veneer {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }
bool IsTokenChar(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '+' || c == '-' || c == '.' || c == ':';
}

std::size_t DigitsSize(std::string_view text) { return std::min(text.find_first_not_of("0123456789"), text.size()); }

bool IsDate(std::string_view token) {  // begins as YYYY-MM-DD does
  return token.size() >= 10 && DigitsSize(token) == 4 && token[4] == '-' && IsDigit(token[5]) && IsDigit(token[6]) && token[7] == '-' &&
         IsDigit(token[8]) && IsDigit(token[9]);
}

enum class Number { kNone, kInteger, kFloat };
Number NumberOf(std::string_view token) {  // decimal, without underscores and needless zeros
  if (token.starts_with('+') || token.starts_with('-')) token.remove_prefix(1);
  const std::size_t integer = DigitsSize(token);
  if (integer == 0 || (integer > 1 && token[0] == '0')) return Number::kNone;
  token.remove_prefix(integer);
  if (token.empty()) return Number::kInteger;
  if (token.starts_with('.')) {
    token.remove_prefix(1);
    const std::size_t fraction = DigitsSize(token);
    if (fraction == 0) return Number::kNone;
    token.remove_prefix(fraction);
  }
  if (token.starts_with('e') || token.starts_with('E')) {
    token.remove_prefix(1);
    if (token.starts_with('+') || token.starts_with('-')) token.remove_prefix(1);
    if (DigitsSize(token) == 0) return Number::kNone;
    token.remove_prefix(DigitsSize(token));
  }
  return token.empty() ? Number::kFloat : Number::kNone;
}

// What stands in for a token, or nothing when the parser can hold it as it is.
std::string_view StandIn(std::string_view token) {
  constexpr std::size_t kSafeInteger = 18;  // digits and a sign that always fit 64 bits
  if (IsDate(token)) return "2000-01-01";
  switch (NumberOf(token)) {
    case Number::kInteger:
      return token.size() > kSafeInteger ? "1" : "";
    case Number::kFloat:
      return "1.0";
    case Number::kNone:
      break;
  }
  return "";
}

class Preparer {
 public:
  Preparer(std::string_view document, const JsonLimits& limits)
      : document_(document), text_(document), depth_(static_cast<std::size_t>(limits.depth)), items_left_(limits.items) {}

  Result<std::string> Run() && {
    while (position_ < document_.size()) VENEER_TRY(Step());
    return std::move(text_);
  }

 private:
  std::string_view rest() const { return document_.substr(position_); }

  Status Step() {
    const char c = document_[position_];
    const bool is_line_start = line_start_;
    if (c != ' ' && c != '\t' && c != '\r') line_start_ = c == '\n';
    switch (c) {
      case '#':
        position_ = std::min(document_.find('\n', position_), document_.size());
        return {};
      case '"':
      case '\'':
        return SkipString(c);
      case '[':
        if (is_line_start && open_.empty()) {
          header_ = true;
          VENEER_TRY(CountItem());
        }
        return Open(c);
      case '{':
        return Open(c);
      case ']':
      case '}':
        if (!open_.empty()) open_.pop_back();
        value_ = true;  // what has just ended was one
        break;
      case '\n':
        if (open_.empty() || header_) EndLine();
        break;
      case '=':
        if (InValue()) return Misplaced();
        value_ = true;
        dots_ = 0;
        VENEER_TRY(CountItem());
        break;
      case ',':
        value_ = false;
        dots_ = 0;
        break;
      default:
        if (IsTokenChar(c)) return Token();
        if (!IsAscii(c)) return Foreign();
    }
    ++position_;
    return {};
  }

  // A value is being read, not a key.
  bool InValue() const { return !header_ && (value_ || open_.ends_with('[')); }

  void EndLine() {
    open_.clear();
    dots_ = 0;
    header_ = false;
    value_ = false;
  }

  Status TooDeep() const { return Fail(Code::DEPTH, "", fmt::format("nested deeper than {} levels at line {}", depth_, Line())); }
  Status Misplaced() const {
    const std::size_t line_start = document_.substr(0, position_).rfind('\n') + 1;  // npos + 1 = 0 on the first line
    return Fail(Code::SYNTAX, "", fmt::format("not TOML 1.0 at line {} column {}", Line(), position_ - line_start + 1));
  }
  std::ptrdiff_t Line() const { return std::ranges::count(document_.substr(0, position_), '\n') + 1; }

  // toml++ 3.3 looks such characters up in a table of blanks that is undefined for U+00A1 … U+0499.
  Status Foreign() const {
    return Fail(
        Code::SYNTAX, "",
        fmt::format("line {}: a character other than ASCII outside a string, or right after a backslash; put it into quotes", Line()));
  }

  // Tables and keys; the parser's search among them is quadratic.
  Status CountItem() {
    if (items_left_ == 0) return Fail(Code::TOO_MANY_ITEMS, "", fmt::format("more tables and keys than allowed at line {}", Line()));
    --items_left_;
    return {};
  }

  // The document itself is the first level.
  Status Open(char bracket) {
    dots_ = 0;
    value_ = false;
    open_ += bracket;
    if (open_.size() >= depth_) return TooDeep();
    ++position_;
    return {};
  }

  Status SkipString(char quote) {
    const bool is_multiline = rest().substr(1).starts_with(std::string(2, quote));
    const std::string closing(is_multiline ? 3 : 1, quote);
    position_ += closing.size();
    while (position_ < document_.size() && !rest().starts_with(closing)) {
      if (document_[position_] == '\n' && !is_multiline) return {};  // unterminated: the parser says so
      if (document_[position_] == '\\' && quote == '"') VENEER_TRY(CheckEscape(is_multiline));
      position_ += document_[position_] == '\\' && quote == '"' ? 2 : 1;
    }
    position_ += closing.size();
    while (is_multiline && position_ < document_.size() && document_[position_] == quote) ++position_;  // """a""""" ends in two quotes
    position_ = std::min(position_, document_.size());
    return {};
  }

  // \uD800 … \uDFFF and \U0000D800 … name no character (TOML knows no surrogate pairs). A backslash that joins lines skips blanks.
  Status CheckEscape(bool is_multiline) const {
    const std::size_t next = is_multiline ? document_.find_first_not_of(" \t\r\n", position_ + 1) : position_ + 1;
    if (next < document_.size() && !IsAscii(document_[next])) return Foreign();
    std::string_view escape = rest().substr(0, 6);
    if (rest().starts_with("\\U0000")) escape = rest().substr(4, 6);
    if (escape.size() < 6 || (escape[1] != 'u' && !rest().starts_with("\\U0000"))) return {};
    const bool is_surrogate =
        (escape[2] == 'd' || escape[2] == 'D') && std::string_view("89abcdefABCDEF").find(escape[3]) != std::string_view::npos;
    if (!is_surrogate) return {};
    return Fail(Code::NOT_UTF8, "", fmt::format("an escaped surrogate at line {} is no character", Line()));
  }

  Status Token() {
    const std::size_t size = TomlTokenSize(rest());
    const std::string_view token = rest().substr(0, size);
    dots_ += static_cast<std::size_t>(std::ranges::count(token, '.'));
    if (dots_ >= depth_) return TooDeep();
    if (InValue()) {
      // The parser looks for the end of a number without regard for quotes and blanks, and so might meet a Foreign() character in a
      // string: nothing may follow.
      const std::size_t next = document_.find_first_not_of(" \t", position_ + size);
      const bool is_followed =
          next != std::string_view::npos && std::string_view("\r\n,]}#").find(document_[next]) == std::string_view::npos;
      if (is_followed) {
        position_ = next;
        return Misplaced();
      }
      Replace(size, StandIn(token));
    }
    position_ += size;
    return {};
  }

  void Replace(std::size_t size, std::string_view stand_in) {
    if (stand_in.empty()) return;
    std::fill_n(text_.begin() + static_cast<std::ptrdiff_t>(position_), size, ' ');
    text_.replace(position_, stand_in.size(), stand_in);
  }

  std::string_view document_;
  std::string text_;
  std::size_t depth_;
  std::uint64_t items_left_;
  std::size_t position_ = 0;
  std::string open_;      // brackets and braces
  std::size_t dots_ = 0;  // of the dotted key being read
  bool header_ = false;   // inside [table] or [[array]]
  bool value_ = false;    // after a key's '='
  bool line_start_ = true;
};

}  // namespace

std::size_t TomlTokenSize(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, IsTokenChar);
  auto size = static_cast<std::size_t>(end - text.begin());
  const std::string_view after = text.substr(size);
  const bool has_time =
      size == 10 && IsDate(text) && after.size() >= 4 && after[0] == ' ' && IsDigit(after[1]) && IsDigit(after[2]) && after[3] == ':';
  if (has_time) size += 1 + TomlTokenSize(after.substr(1));
  return size;
}

Result<std::string> PrepareToml(std::string_view document, const JsonLimits& limits) { return Preparer(document, limits).Run(); }

}  // namespace veneer
