// The card's JSON of declarations: bit masks as lists of names, so that a person can read them, and a reader of members that takes
// each once.
#ifndef VENEER_CORE_PLUGIN_DECL_JSON_H_
#define VENEER_CORE_PLUGIN_DECL_JSON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/format/json.h"

namespace veneer::decl_json {

using Names = std::span<const std::string_view>;  // by bit number; an empty name has no meaning

inline constexpr std::array<std::string_view, 3> kSites = {"linear", "embedding", "vector"};

// A bit without a name is "bit20": a newer minor version may have one.
std::string BitsToJson(std::uint32_t mask, Names names);
// ,"key":"text", or nothing for an empty text.
std::string Optional(std::string_view key, std::string_view text);
std::string OptionalJson(std::string_view key, std::string_view json);

template <class T, class ToJson>
std::string ListToJson(const std::vector<T>& items, ToJson to_json) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ",") + to_json(item);
  return "[" + out + "]";
}

// Members of one object, each taken once; what is left over is an error.
class Members {
 public:
  static Result<Members> Of(const Json& json) {
    if (!json.is_object()) return Fail(Code::FIELD_TYPE, json.at, "must be an object");
    return Members(json);
  }
  Result<std::string> String(std::string_view key) {
    VENEER_ASSIGN(const Json* json, Take(key));
    return json->String();
  }
  Result<double> Number(std::string_view key) {
    VENEER_ASSIGN(const Json* json, Take(key));
    return json->Number();
  }
  Result<std::string> OptionalString(std::string_view key) { return json_->Find(key) == nullptr ? std::string() : String(key); }
  std::optional<std::string> OptionalDump(std::string_view key) {
    const Json* json = json_->Find(key);
    if (json == nullptr) return std::nullopt;
    ++taken_;
    return json->Dump();
  }
  Result<std::span<const Json>> List(std::string_view key) {
    VENEER_ASSIGN(const Json* json, Take(key));
    if (!json->is_array()) return Fail(Code::FIELD_TYPE, json->at, "must be a list");
    return std::span<const Json>(json->elements);
  }
  Result<std::uint32_t> Bits(std::string_view key, Names names);
  Result<std::uint32_t> Choice(std::string_view key, Names names);
  Result<const Json*> Take(std::string_view key) {
    VENEER_ASSIGN(const Json* json, json_->Get(key));
    ++taken_;
    return json;
  }
  const Json* TakeOptional(std::string_view key) {
    const Json* json = json_->Find(key);
    if (json != nullptr) ++taken_;
    return json;
  }
  Status Done() const {
    if (taken_ == json_->members.size()) return {};
    return Fail(Code::FIELD_UNKNOWN, json_->at, "has a member that this version does not know; generate the card again");
  }

 private:
  explicit Members(const Json& json) : json_(&json) {}
  const Json* json_;
  std::size_t taken_ = 0;
};

template <class T, class FromJson>
Status ListFromJson(Members& members, std::string_view key, std::vector<T>& out, FromJson from_json) {
  VENEER_ASSIGN(const std::span<const Json> list, members.List(key));
  for (const Json& element : list) {
    VENEER_ASSIGN(T item, from_json(element));
    out.push_back(std::move(item));
  }
  return {};
}

}  // namespace veneer::decl_json

#endif  // VENEER_CORE_PLUGIN_DECL_JSON_H_
