// JSON text to Json. nlohmann's SAX parser keeps the grammar; every limit, the duplicate keys and the numbers are ours.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/format/json.h"
#include "core/format/utf8.h"

namespace veneer {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNumberChar(char c) { return IsDigit(c) || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E'; }

// Hands the document to the lexer one character at a time and records how far it has read. Outside strings a run of digits is
// shortened to its first two: that changes nothing about the grammar, but keeps the lexer, which converts numbers on its own, from
// refusing 1e400. The numbers we keep are cut from the document itself.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(std::string_view document, std::size_t position, std::size_t* consumed)
      : document_(document), position_(position), consumed_(consumed) {}

  reference operator*() const { return document_[position_]; }
  Cursor& operator++() {
    const char read = document_[position_++];
    if (in_string_) {
      if (read == '"' && !escaped_) in_string_ = false;
      escaped_ = read == '\\' && !escaped_;
    } else if (read == '"') {
      in_string_ = true;
      escaped_ = false;
    } else if (position_ >= 2 && IsDigit(read) && IsDigit(document_[position_ - 2])) {
      while (position_ < document_.size() && IsDigit(document_[position_])) ++position_;
    }
    *consumed_ = position_;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return position_ == other.position_; }

 private:
  std::string_view document_;
  std::size_t position_;
  std::size_t* consumed_;
  bool in_string_ = false;
  bool escaped_ = false;
};

std::string PlaceText(std::string_view document, std::size_t position) {
  const std::string_view before = document.substr(0, position);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0 on the first line
  return fmt::format("line {} column {}", line, position - line_start + 1);
}

// Builds the document from the parser's events. Each event returns false to stop, with error_ set.
class Builder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Builder(std::string_view document, const JsonLimits& limits, const std::size_t* consumed)
      : document_(document), limits_(limits), consumed_(consumed) {}

  bool null() { return Scalar({}); }
  bool boolean(bool value) {
    Json json;
    json.type = Json::Type::kBool;
    json.boolean = value;
    return Scalar(std::move(json));
  }
  bool number_integer(number_integer_t) { return Number(); }
  bool number_unsigned(number_unsigned_t) { return Number(); }
  bool number_float(number_float_t, const string_t&) { return Number(); }
  bool string(string_t& text) {
    Json json;
    json.type = Json::Type::kString;
    json.text = std::move(text);
    return Scalar(std::move(json));
  }
  bool binary(binary_t&) { return Stop(Code::SYNTAX, "binary values do not exist in JSON text"); }

  bool start_object(std::size_t) { return Open(Json::Type::kObject); }
  bool key(string_t& key) {
    Frame& frame = stack_.back();
    if (!CheckNul(key, frame.value.at)) return false;
    frame.key = std::move(key);
    if (!frame.keys.insert(frame.key).second)
      return Stop(Code::DUPLICATE_KEY, ChildPointer(),
                  fmt::format("the key {} stands twice in one object; keep one", JsonQuote(frame.key)));
    return true;
  }
  bool end_object() { return Close(); }
  bool start_array(std::size_t) { return Open(Json::Type::kArray); }
  bool end_array() { return Close(); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) {
    const std::size_t position = *consumed_ == 0 ? 0 : *consumed_ - 1;
    return Stop(Code::SYNTAX, fmt::format("not JSON (RFC 8259) at {}", PlaceText(document_, position)));
  }

  Result<Json> Finish() && {
    if (error_) return std::unexpected(*std::move(error_));
    return *std::move(document_value_);
  }

 private:
  struct Frame {
    Json value;
    std::string key;  // of the member being read
    std::unordered_set<std::string> keys;
  };

  bool Stop(Code code, std::string at, std::string detail) {
    error_ = Error{code, std::move(at), std::move(detail)};
    return false;
  }
  bool Stop(Code code, std::string detail) { return Stop(code, stack_.empty() ? "" : stack_.back().value.at, std::move(detail)); }

  // Pointer (RFC 6901) of the value that comes next.
  std::string ChildPointer() const {
    if (stack_.empty()) return "";
    const Frame& frame = stack_.back();
    if (frame.value.is_array()) return fmt::format("{}/{}", frame.value.at, frame.value.elements.size());
    std::string pointer = frame.value.at + "/";
    for (const char c : frame.key) {
      if (c == '~')
        pointer += "~0";
      else if (c == '/')
        pointer += "~1";
      else
        pointer += c;
    }
    return pointer;
  }

  bool CheckNul(std::string_view text, const std::string& at) {
    if (limits_.nul_in_strings || text.find('\0') == std::string_view::npos) return true;
    return Stop(Code::NOT_UTF8, at, "a string holds U+0000 (written \\u0000), which no text here may; remove it");
  }

  bool CountItem() {
    if (stack_.empty() || ++items_ <= limits_.items) return true;
    return Stop(Code::TOO_MANY_ITEMS, fmt::format("more than {} members and elements", limits_.items));
  }

  bool Scalar(Json json) {
    if (!CountItem()) return false;
    json.at = ChildPointer();
    if (json.is_string() && !CheckNul(json.text, json.at)) return false;
    Place(std::move(json));
    return true;
  }

  // The lexer has read the number and, unless the document ends there, one character more.
  bool Number() {
    std::size_t end = *consumed_;
    if (!IsNumberChar(document_[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && IsNumberChar(document_[begin - 1])) --begin;
    Json json;
    json.type = Json::Type::kNumber;
    json.text = document_.substr(begin, end - begin);
    return Scalar(std::move(json));
  }

  bool Open(Json::Type type) {
    if (!CountItem()) return false;
    if (stack_.size() >= static_cast<std::size_t>(std::max(limits_.depth, 0)))
      return Stop(Code::DEPTH, fmt::format("nested deeper than {} levels", limits_.depth));
    Frame frame;
    frame.value.type = type;
    frame.value.at = ChildPointer();
    stack_.push_back(std::move(frame));
    return true;
  }

  bool Close() {
    Json done = std::move(stack_.back().value);
    stack_.pop_back();
    Place(std::move(done));
    return true;
  }

  void Place(Json json) {
    if (stack_.empty()) {
      document_value_ = std::move(json);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.value.is_array())
      frame.value.elements.push_back(std::move(json));
    else
      frame.value.members.emplace_back(std::move(frame.key), std::move(json));
  }

  std::string_view document_;
  const JsonLimits& limits_;
  const std::size_t* consumed_;
  std::vector<Frame> stack_;
  std::uint64_t items_ = 0;
  std::optional<Json> document_value_;
  std::optional<Error> error_;
};

// Value of the four hexadecimal digits at `position`, if they are there.
std::optional<unsigned> Hex4(std::string_view document, std::size_t position) {
  if (position + 4 > document.size()) return std::nullopt;
  unsigned value = 0;
  for (const char c : document.substr(position, 4)) {
    if (IsDigit(c))
      value = value * 16 + static_cast<unsigned>(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = value * 16 + static_cast<unsigned>(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F')
      value = value * 16 + static_cast<unsigned>(c - 'A' + 10);
    else
      return std::nullopt;
  }
  return value;
}

// Position of a \uD800 ... \uDFFF escape that is no half of a pair, or npos. A backslash outside a string is a syntax error anyway,
// so escapes are recognised by their backslash alone.
std::size_t FindLoneSurrogate(std::string_view document) {
  std::size_t i = document.find('\\');
  while (i != std::string_view::npos) {
    std::size_t next = i + 2;
    if (i + 1 < document.size() && document[i + 1] == 'u') {
      const auto unit = Hex4(document, i + 2);
      if (unit && *unit >= 0xDC00 && *unit <= 0xDFFF) return i;
      if (unit && *unit >= 0xD800 && *unit <= 0xDBFF) {
        const auto second = document.substr(i + 6, 2) == "\\u" ? Hex4(document, i + 8) : std::nullopt;
        if (!second || *second < 0xDC00 || *second > 0xDFFF) return i;
        next = i + 12;
      }
    }
    i = document.find('\\', next);
  }
  return std::string_view::npos;
}

Status CheckBytes(std::string_view document) {
  if (document.starts_with("\xEF\xBB\xBF")) return Fail(Code::NOT_UTF8, "", "begins with a byte order mark; save as UTF-8 without one");
  if (const std::size_t bad = FindInvalidUtf8(document); bad != std::string_view::npos)
    return Fail(Code::NOT_UTF8, "",
                fmt::format("byte {:#04x} at {} is not UTF-8", static_cast<unsigned char>(document[bad]), PlaceText(document, bad)));
  if (const std::size_t nul = document.find('\0'); nul != std::string_view::npos)
    return Fail(Code::NOT_UTF8, "", fmt::format("a NUL byte at {}", PlaceText(document, nul)));
  if (const std::size_t lone = FindLoneSurrogate(document); lone != std::string_view::npos)
    return Fail(Code::NOT_UTF8, "",
                fmt::format("{} at {} is half of a surrogate pair and no character", document.substr(lone, 6), PlaceText(document, lone)));
  return {};
}

}  // namespace

Result<Json> ParseJson(std::string_view document, const JsonLimits& limits) {
  if (document.size() > limits.bytes)
    return Fail(Code::INPUT_TOO_LARGE, "", fmt::format("{} bytes, at most {} are read", document.size(), limits.bytes));
  VENEER_TRY(CheckBytes(document));
  std::size_t consumed = 0;
  Builder builder(document, limits, &consumed);
  std::size_t unused = 0;
  try {
    nlohmann::json::sax_parse(Cursor(document, 0, &consumed), Cursor(document, document.size(), &unused), &builder);
  } catch (const nlohmann::json::exception&) {
    return Fail(Code::SYNTAX, "", fmt::format("not JSON (RFC 8259) near {}", PlaceText(document, consumed)));
  }
  return std::move(builder).Finish();
}

}  // namespace veneer
