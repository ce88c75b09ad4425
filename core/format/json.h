// Strict JSON (RFC 8259 + I-JSON): what untrusted documents are read with. Limits on size, depth and items; duplicate keys,
// BOM, bad UTF-8 and NUL are errors; numbers keep their source text, so nothing is rounded behind the author's back.
#ifndef VENEER_CORE_FORMAT_JSON_H_
#define VENEER_CORE_FORMAT_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace veneer {

struct JsonLimits {
  std::uint64_t bytes = 1 << 20;
  int depth = 8;                 // nesting of arrays and objects; the document itself is level 1
  std::uint64_t items = 50'000;  // members and elements over the whole document
  bool nul_in_strings = false;   // keep the escape \u0000 in strings: for readers that check each string with a code of their own
};

// A parsed value. A number is its source text in `text`; `at` is the JSON pointer of the value.
class Json {
 public:
  enum class Type { kNull, kBool, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, Json>;

  // Out of line: std::pair asks whether a Json can be constructed while Json's own members are not complete.
  Json();
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  Type type = Type::kNull;
  bool boolean = false;
  std::string text;             // kString: unescaped UTF-8; kNumber: the token as written
  std::vector<Json> elements;   // kArray
  std::vector<Member> members;  // kObject, in document order
  std::string at;               // "/adapters/0/name"; "" for the document

  [[nodiscard]] bool is_object() const { return type == Type::kObject; }
  [[nodiscard]] bool is_array() const { return type == Type::kArray; }
  [[nodiscard]] bool is_string() const { return type == Type::kString; }
  [[nodiscard]] bool is_number() const { return type == Type::kNumber; }
  [[nodiscard]] bool is_null() const { return type == Type::kNull; }
  // null, false, "", [] or {}: a value that asks for nothing.
  [[nodiscard]] bool is_inert() const;

  [[nodiscard]] const Json* Find(std::string_view key) const;  // member or nullptr

  // Typed access; E204 (or E107 for a number of the wrong form) with the pointer.
  [[nodiscard]] Result<std::string> String() const;
  [[nodiscard]] Result<bool> Bool() const;
  [[nodiscard]] Result<std::uint64_t> U64() const;  // integer literal 0 … 2^53-1; no sign, fraction or exponent
  [[nodiscard]] Result<double> Number() const;      // any finite number, correctly rounded (std::from_chars)
  // Member of an object; E203 when it is absent.
  [[nodiscard]] Result<const Json*> Get(std::string_view key) const;

  // Compact JSON again (numbers as written). For messages, cards and reports, not for identity.
  [[nodiscard]] std::string Dump() const;
};

// Codes: E101 size, E102 bytes, E103 syntax (with line and column in the detail), E104 depth, E105 duplicate key, E106 items.
Result<Json> ParseJson(std::string_view document, const JsonLimits& limits = {});

// `text` as a JSON string literal, quotes included.
std::string JsonQuote(std::string_view text);

}  // namespace veneer

#endif  // VENEER_CORE_FORMAT_JSON_H_
