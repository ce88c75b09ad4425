#include <fmt/format.h>

#include "core/plugin/catalog.h"

namespace veneer {
namespace {

constexpr JsonLimits kCardLimits{.bytes = 1 << 20, .depth = 12, .items = 20'000};

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

// A plain file name: a card never points outside its own directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

std::string CardToJson(const PluginCard& card) {
  std::string kinds, cpu;
  for (const KindDecl& kind : card.kinds) kinds += fmt::format("{}\n    {}", kinds.empty() ? "" : ",", KindToJson(kind));
  for (const std::string& feature : card.requires_cpu) cpu += fmt::format("{}{}", cpu.empty() ? "" : ", ", JsonQuote(feature));
  return fmt::format(R"({{
  "card": 1,
  "name": {},
  "version": {},
  "abi": {{"major": {}, "built": {}, "min": {}}},
  "library": {{"file": {}, "sha256": "{}", "size": {}}},
  "requires": {{"cpu": [{}]}},
  "kinds": [{}
  ]
}}
)",
                     JsonQuote(card.name), JsonQuote(card.version), card.abi_major, card.abi_minor_built, card.abi_minor_min,
                     JsonQuote(card.library_file), card.library_sha256.Hex(), card.library_size, cpu, kinds);
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
  VENEER_ASSIGN(card.library_file, String(*library, "file"));
  if (!IsPlainName(card.library_file))
    return Fail(Code::PLUGIN_REFUSED, "/library/file", fmt::format("'{}' is no plain file name", card.library_file));
  VENEER_ASSIGN(const std::string hex, String(*library, "sha256"));
  VENEER_ASSIGN(card.library_sha256, ParseDigest("sha256:" + hex, "/library/sha256"));
  VENEER_ASSIGN(const Json* size, library->Get("size"));
  VENEER_ASSIGN(card.library_size, size->U64());
  VENEER_ASSIGN(const Json* needs, json.Get("requires"));
  VENEER_ASSIGN(const Json* cpu, needs->Get("cpu"));
  for (const Json& feature : cpu->elements) {
    VENEER_ASSIGN(card.requires_cpu.emplace_back(), feature.String());
  }
  VENEER_ASSIGN(const Json* kinds, json.Get("kinds"));
  for (const Json& element : kinds->elements) {
    VENEER_ASSIGN(card.kinds.emplace_back(), KindFromJson(element));
  }
  if (card.name.empty() || card.kinds.empty()) return Fail(Code::FIELD_MISSING, "/kinds", "a card needs a name and at least one kind");
  return card;
}

}  // namespace veneer
