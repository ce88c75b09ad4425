// Cards: what a plugin says about itself, beside its library, readable without running it.
#include <fmt/format.h>

#include <span>

#include "core/plugin/catalog.h"

namespace veneer {
namespace {

constexpr JsonLimits kCardLimits{.bytes = 1 << 20, .depth = 12, .items = 20'000};
constexpr std::size_t kLineWidth = 140;

// Indented JSON; what fits on one line stays on one.
void Print(const Json& json, std::size_t indent, std::string& out) {
  const std::string flat = json.Dump();
  const bool is_list = json.is_array();
  if (flat.size() + indent <= kLineWidth || (!is_list && !json.is_object())) {
    out += flat;
    return;
  }
  const std::string margin(indent + 2, ' ');
  out += is_list ? '[' : '{';
  const std::size_t n = is_list ? json.elements.size() : json.members.size();
  for (std::size_t i = 0; i < n; ++i) {
    out += (i == 0 ? "\n" : ",\n") + margin;
    if (!is_list) out += JsonQuote(json.members[i].first) + ": ";
    Print(is_list ? json.elements[i] : json.members[i].second, indent + 2, out);
  }
  out += "\n" + std::string(indent, ' ') + (is_list ? ']' : '}');
}

std::string TextList(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += fmt::format("{}{}", out.empty() ? "" : ",", JsonQuote(text));
  return "[" + out + "]";
}

Result<std::uint32_t> U32(const Json& object, std::string_view name) {
  VENEER_ASSIGN(const Json* value, object.Get(name));
  VENEER_ASSIGN(const std::uint64_t number, value->U64());
  if (number > UINT32_MAX) return Fail(Code::NUMBER_FORM, value->at, "does not fit 32 bits");
  return static_cast<std::uint32_t>(number);
}

Result<std::string> String(const Json& object, std::string_view name) {
  VENEER_ASSIGN(const Json* value, object.Get(name));
  return value->String();
}

Result<std::span<const Json>> List(const Json& object, std::string_view name) {
  VENEER_ASSIGN(const Json* value, object.Get(name));
  if (!value->is_array()) return Fail(Code::FIELD_TYPE, value->at, "must be a list");
  return std::span<const Json>(value->elements);
}

Result<std::vector<std::string>> Strings(const Json& object, std::string_view name) {
  VENEER_ASSIGN(const std::span<const Json> list, List(object, name));
  std::vector<std::string> texts;
  for (const Json& element : list) {
    VENEER_ASSIGN(texts.emplace_back(), element.String());
  }
  return texts;
}

// A plain file name: a card never points outside its own directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Status ReadLibrary(const Json& library, PluginCard& card) {
  VENEER_ASSIGN(card.library_file, String(library, "file"));
  if (!IsPlainName(card.library_file))
    return Fail(Code::PLUGIN_REFUSED, "/library/file", fmt::format("'{}' is no plain file name", card.library_file));
  VENEER_ASSIGN(const std::string hex, String(library, "sha256"));
  VENEER_ASSIGN(card.library_sha256, ParseDigest("sha256:" + hex, "/library/sha256"));
  VENEER_ASSIGN(const Json* size, library.Get("size"));
  VENEER_ASSIGN(card.library_size, size->U64());
  VENEER_ASSIGN(card.platform, String(library, "platform"));
  return {};
}

}  // namespace

std::string CardToJson(const PluginCard& card) {
  std::string kinds;
  for (const KindDecl& kind : card.kinds) kinds += (kinds.empty() ? "" : ",") + KindToJson(kind);
  const std::string flat =
      fmt::format(R"({{"card":1,"name":{},"version":{},"abi":{{"major":{},"built":{},"min":{}}},)"
                  R"("library":{{"file":{},"sha256":"{}","size":{},"platform":{}}},"requires":{{"cpu":{},"libraries":{}}},"kinds":[{}]}})",
                  JsonQuote(card.name), JsonQuote(card.version), card.abi_major, card.abi_minor_built, card.abi_minor_min,
                  JsonQuote(card.library_file), card.library_sha256.Hex(), card.library_size, JsonQuote(card.platform),
                  TextList(card.requires_cpu), TextList(card.requires_libraries), kinds);
  const auto json = ParseJson(flat, kCardLimits);
  if (!json) return flat + "\n";  // above the limits of a card: the reader says which
  std::string out;
  Print(*json, 0, out);
  return out + "\n";
}

Result<PluginCard> CardFromJson(std::string_view text) {
  VENEER_ASSIGN(const Json json, ParseJson(text, kCardLimits));
  VENEER_ASSIGN(const std::uint32_t version, U32(json, "card"));
  if (version != 1) return Fail(Code::SCHEMA_UNKNOWN, "/card", fmt::format("{}, this version reads card 1", version));
  PluginCard card;
  VENEER_ASSIGN(card.name, String(json, "name"));
  VENEER_ASSIGN(card.version, String(json, "version"));
  VENEER_ASSIGN(const Json* abi, json.Get("abi"));
  VENEER_ASSIGN(card.abi_major, U32(*abi, "major"));
  VENEER_ASSIGN(card.abi_minor_built, U32(*abi, "built"));
  VENEER_ASSIGN(card.abi_minor_min, U32(*abi, "min"));
  VENEER_ASSIGN(const Json* library, json.Get("library"));
  VENEER_TRY(ReadLibrary(*library, card));
  VENEER_ASSIGN(const Json* needs, json.Get("requires"));
  VENEER_ASSIGN(card.requires_cpu, Strings(*needs, "cpu"));
  VENEER_ASSIGN(card.requires_libraries, Strings(*needs, "libraries"));
  VENEER_ASSIGN(const std::span<const Json> kinds, List(json, "kinds"));
  for (const Json& element : kinds) {
    VENEER_ASSIGN(card.kinds.emplace_back(), KindFromJson(element));
  }
  if (card.name.empty() || card.kinds.empty()) return Fail(Code::FIELD_MISSING, "/kinds", "a card needs a name and at least one kind");
  if (json.members.size() != 7 || library->members.size() != 4 || needs->members.size() != 2 || abi->members.size() != 3)
    return Fail(Code::FIELD_UNKNOWN, json.at, "has a member that card 1 does not know; write the card anew with veneer-card");
  return card;
}

}  // namespace veneer
