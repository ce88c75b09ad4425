// Json values: typed access and printing. The parser is json_parse.cc.
#include "core/format/json.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace veneer {
namespace {

constexpr std::uint64_t kMaxExactInteger = (std::uint64_t{1} << 53) - 1;  // I-JSON (RFC 7493): what every reader holds exactly

std::string_view TypeName(Json::Type type) {
  switch (type) {
    case Json::Type::kNull:
      return "null";
    case Json::Type::kBool:
      return "a boolean";
    case Json::Type::kNumber:
      return "a number";
    case Json::Type::kString:
      return "a string";
    case Json::Type::kArray:
      return "an array";
    case Json::Type::kObject:
      return "an object";
  }
  return "an unknown type";
}

std::unexpected<Error> WrongType(const Json& value, std::string_view wanted) {
  return Fail(Code::FIELD_TYPE, value.at, fmt::format("found {}, must be {}", TypeName(value.type), wanted));
}

void Append(const Json& value, std::string& out) {
  switch (value.type) {
    case Json::Type::kNull:
      out += "null";
      return;
    case Json::Type::kBool:
      out += value.boolean ? "true" : "false";
      return;
    case Json::Type::kNumber:
      out += value.text;
      return;
    case Json::Type::kString:
      out += JsonQuote(value.text);
      return;
    case Json::Type::kArray:
      out += '[';
      for (const Json& element : value.elements) {
        if (&element != &value.elements.front()) out += ',';
        Append(element, out);
      }
      out += ']';
      return;
    case Json::Type::kObject:
      out += '{';
      for (const Json::Member& member : value.members) {
        if (&member != &value.members.front()) out += ',';
        out += JsonQuote(member.first);
        out += ':';
        Append(member.second, out);
      }
      out += '}';
      return;
  }
}

}  // namespace

Json::Json() = default;
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

bool Json::is_inert() const {
  switch (type) {
    case Type::kNull:
      return true;
    case Type::kBool:
      return !boolean;
    case Type::kNumber:
      return false;
    case Type::kString:
      return text.empty();
    case Type::kArray:
      return elements.empty();
    case Type::kObject:
      return members.empty();
  }
  return false;
}

const Json* Json::Find(std::string_view key) const {
  for (const Member& member : members)
    if (member.first == key) return &member.second;
  return nullptr;
}

Result<std::string> Json::String() const {
  if (type != Type::kString) return WrongType(*this, "a string");
  return text;
}

Result<bool> Json::Bool() const {
  if (type != Type::kBool) return WrongType(*this, "true or false");
  return boolean;
}

Result<std::uint64_t> Json::U64() const {
  if (type != Type::kNumber) return WrongType(*this, "a whole number");
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value);  // takes no sign, fraction or exponent
  if (status != std::errc{} || rest != end || value > kMaxExactInteger)
    return Fail(Code::NUMBER_FORM, at,
                fmt::format("found {}, must be a whole number from 0 to {} without sign, fraction or exponent", text, kMaxExactInteger));
  return value;
}

Result<double> Json::Number() const {
  if (type != Type::kNumber) return WrongType(*this, "a number");
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc{} || rest != end)
    return Fail(Code::NUMBER_FORM, at, fmt::format("found {}, which no double holds; write a number within its range", text));
  return value;
}

Result<const Json*> Json::Get(std::string_view key) const {
  if (type != Type::kObject) return WrongType(*this, fmt::format("an object with the member \"{}\"", key));
  const Json* const member = Find(key);
  if (member == nullptr) return Fail(Code::FIELD_MISSING, at, fmt::format("the member \"{}\" is required; add it", key));
  return member;
}

std::string Json::Dump() const {
  std::string out;
  Append(*this, out);
  return out;
}

std::string JsonQuote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  out += '"';
  return out;
}

}  // namespace veneer
