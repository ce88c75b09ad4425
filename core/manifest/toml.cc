#include "core/manifest/toml.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "core/format/utf8.h"

// The parser is recursive; PrepareToml has refused deeper documents already, this holds the line if it has not.
#define TOML_MAX_NESTED_VALUES 16
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace veneer {
namespace {

Status CheckBytes(std::string_view document) {
  if (document.starts_with("\xEF\xBB\xBF")) return Fail(Code::NOT_UTF8, "", "begins with a byte order mark; save as UTF-8 without one");
  if (const std::size_t bad = FindInvalidUtf8(document); bad != std::string_view::npos)
    return Fail(Code::NOT_UTF8, "", fmt::format("byte {} is not UTF-8", bad));
  if (const std::size_t nul = document.find('\0'); nul != std::string_view::npos)
    return Fail(Code::NOT_UTF8, "", fmt::format("a NUL byte at byte {}", nul));
  return {};
}

std::string ChildPointer(std::string_view parent, std::string_view key) {
  std::string pointer = std::string(parent) + "/";
  for (const char c : key) {  // RFC 6901
    if (c == '~')
      pointer += "~0";
    else if (c == '/')
      pointer += "~1";
    else
      pointer += c;
  }
  return pointer;
}

// Source text by line and column (both from 1; columns count code points). A document of one long line costs no more than another.
class Source {
 public:
  explicit Source(std::string_view document) : document_(document) {
    for (std::size_t i = 0; i < document.size(); ++i) {
      if ((static_cast<unsigned char>(document[i]) & 0xC0) != 0x80) characters_.push_back(i);
      if (document[i] == '\n') lines_.push_back(characters_.size());
    }
  }

  std::string Token(const toml::source_position& place) const {
    const std::string_view rest = document_.substr(Offset(place));
    return std::string(rest.substr(0, TomlTokenSize(rest)));
  }
  std::string_view Line(const toml::source_position& place) const {
    const std::string_view rest = document_.substr(Offset({place.line, 1}));
    return rest.substr(0, rest.find('\n'));
  }
  std::string_view Before(const toml::source_position& place) const { return document_.substr(0, Offset({place.line, 1})); }

 private:
  std::size_t Offset(const toml::source_position& place) const {
    if (place.line == 0 || place.line > lines_.size() || place.column == 0) return document_.size();
    const std::size_t character = lines_[place.line - 1] + place.column - 1;
    return character < characters_.size() ? characters_[character] : document_.size();
  }

  std::string_view document_;
  std::vector<std::size_t> characters_;   // offset of each code point
  std::vector<std::size_t> lines_ = {0};  // index in characters_ at which each line begins
};

class Converter {
 public:
  Converter(const Source& source, const JsonLimits& limits) : source_(source), limits_(limits) {}

  Result<Json> Convert(const toml::node& node, std::string at, int level) {
    Json value;
    value.at = std::move(at);
    if (const auto* const table = node.as_table()) {
      value.type = Json::Type::kObject;
      if (level > limits_.depth) return TooDeep(value.at);
      for (const auto& [key, child] : *table) {
        VENEER_TRY(CountItem(value.at));
        VENEER_ASSIGN(Json member, Convert(child, ChildPointer(value.at, key.str()), level + 1));
        value.members.emplace_back(std::string(key.str()), std::move(member));
      }
    } else if (const auto* const array = node.as_array()) {
      value.type = Json::Type::kArray;
      if (level > limits_.depth) return TooDeep(value.at);
      for (const toml::node& child : *array) {
        VENEER_TRY(CountItem(value.at));
        VENEER_ASSIGN(Json element, Convert(child, fmt::format("{}/{}", value.at, value.elements.size()), level + 1));
        value.elements.push_back(std::move(element));
      }
    } else {
      SetScalar(node, value);
    }
    return value;
  }

 private:
  // Numbers and dates by their source text: the library's own value may be rounded, or a stand-in.
  void SetScalar(const toml::node& node, Json& value) const {
    if (const auto boolean = node.value_exact<bool>()) {
      value.type = Json::Type::kBool;
      value.boolean = *boolean;
    } else if (auto text = node.value_exact<std::string>()) {
      value.type = Json::Type::kString;
      value.text = *std::move(text);
    } else {
      value.type = node.is_number() ? Json::Type::kNumber : Json::Type::kString;
      value.text = source_.Token(node.source().begin);
    }
  }

  Status CountItem(const std::string& at) {
    if (++items_ <= limits_.items) return {};
    return Fail(Code::TOO_MANY_ITEMS, at, fmt::format("more than {} members and elements", limits_.items));
  }
  std::unexpected<Error> TooDeep(const std::string& at) const {
    return Fail(Code::DEPTH, at, fmt::format("nested deeper than {} levels", limits_.depth));
  }

  const Source& source_;
  const JsonLimits& limits_;
  std::uint64_t items_ = 0;
};

// Keys from the document down to the one innermost thing a single line defines.
std::vector<std::string> KeysOfLine(std::string_view line) {
  const bool is_header = line.find_first_not_of(" \t") != line.npos && line[line.find_first_not_of(" \t")] == '[';
  const std::string text = is_header ? std::string(line) : std::string(line.substr(0, line.find('='))) + "= 0";
  const toml::parse_result parsed = toml::parse(text);
  std::vector<std::string> keys;
  if (!parsed) return keys;
  const toml::node* node = &parsed.table();
  while (node != nullptr) {
    if (const auto* const array = node->as_array()) node = array->get(0);
    const auto* const table = node == nullptr ? nullptr : node->as_table();
    if (table == nullptr || table->empty()) break;
    keys.emplace_back(table->begin()->first.str());
    node = &table->begin()->second;
  }
  return keys;
}

struct OpenTable {
  const toml::table* table;
  std::string at;
  toml::source_position begin;
};

// The tables that a document's headers opened, and the document itself.
void CollectTables(const toml::node& node, const std::string& at, std::vector<OpenTable>& tables) {
  if (const auto* const table = node.as_table()) {
    tables.push_back({table, at, at.empty() ? toml::source_position{} : node.source().begin});
    for (const auto& [key, child] : *table) CollectTables(child, ChildPointer(at, key.str()), tables);
  } else if (const auto* const array = node.as_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) CollectTables(*array->get(i), fmt::format("{}/{}", at, i), tables);
  }
}

// The pointer of a key that stands a second time on the line at `place`: it belongs to the latest table before that line which already
// has the key. Nothing when that cannot be told, for example within an inline table.
std::string PointerOfRepeat(const Source& source, std::string_view prepared, const toml::source_position& place) {
  const std::vector<std::string> keys = KeysOfLine(source.Line(place));
  const toml::parse_result before = toml::parse(Source(prepared).Before(place));
  if (keys.empty() || !before) return "";
  std::vector<OpenTable> tables;
  CollectTables(before.table(), "", tables);
  const OpenTable* owner = nullptr;
  for (const OpenTable& open : tables)
    if (open.table->contains(keys[0]) && (owner == nullptr || !(open.begin < owner->begin))) owner = &open;
  std::string pointer = owner == nullptr ? "" : owner->at;
  for (const std::string& key : keys) pointer = ChildPointer(pointer, key);
  return pointer;
}

Error ParseError(const toml::parse_error& error, const Source& source, std::string_view prepared) {
  const toml::source_position place = error.source().begin;
  const std::string where = fmt::format("line {} column {}", place.line, place.column);
  // The library has one kind of error; only its words tell a repeated key or table from other mistakes.
  const std::string_view words = error.description();
  if (words.find("cannot redefine") != words.npos || words.find("cannot insert") != words.npos)
    return {Code::DUPLICATE_KEY, PointerOfRepeat(source, prepared, place),
            fmt::format("at {} a key or table stands a second time; keep one", where)};
  return {Code::SYNTAX, "", fmt::format("not TOML 1.0 at {}", where)};
}

}  // namespace

Result<Json> ParseToml(std::string_view document, const JsonLimits& limits) {
  if (document.size() > limits.bytes)
    return Fail(Code::INPUT_TOO_LARGE, "", fmt::format("{} bytes, at most {} are read", document.size(), limits.bytes));
  VENEER_TRY(CheckBytes(document));
  VENEER_ASSIGN(const std::string prepared, PrepareToml(document, limits));
  const Source source(document);
  const toml::parse_result parsed = toml::parse(prepared);
  if (!parsed) return Fail(ParseError(parsed.error(), source, prepared));
  VENEER_ASSIGN(Json tree, Converter(source, limits).Convert(parsed.table(), "", 1));
  return tree;
}

}  // namespace veneer
