#include "core/manifest/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/manifest/canonical.h"
#include "core/manifest/manifest.h"

namespace veneer {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool IsOneOf(char c, std::string_view a, std::string_view b, std::string_view c1 = "", std::string_view d = "") {
  return a.find(c) != a.npos || b.find(c) != b.npos || c1.find(c) != c1.npos || d.find(c) != d.npos;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && IsOneOf(text[0], kLower, kDigits) && !text.ends_with('.') &&
         std::ranges::all_of(text, [](char c) { return IsOneOf(c, kLower, kDigits, "._-"); });
}

bool IsId(std::string_view text) {
  return !text.empty() && text.size() <= 128 && IsOneOf(text[0], kLower, kUpper, kDigits) &&
         std::ranges::all_of(text, [](char c) { return IsOneOf(c, kLower, kUpper, kDigits, "._:+-"); });
}

bool IsSiteName(std::string_view text) {
  if (text.empty() || text.size() > 192) return false;
  if (!std::ranges::all_of(text, [](char c) { return IsOneOf(c, kLower, kUpper, kDigits, "._/-"); })) return false;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string_view segment = text.substr(begin, end - begin);
    if (segment.empty() || segment == "." || segment == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::string MemberPointer(const Json& object, std::string_view name) {
  std::string pointer = object.at + "/";
  for (const char c : name) {  // RFC 6901
    if (c == '~')
      pointer += "~0";
    else if (c == '/')
      pointer += "~1";
    else
      pointer += c;
  }
  return pointer;
}

Result<std::string> ReadMatching(const Json& value, bool (*matches)(std::string_view), std::string_view grammar) {
  VENEER_ASSIGN(std::string text, value.String());
  if (!matches(text)) return Fail(Code::NAME_INVALID, value.at, fmt::format("found {}, allowed is {}", Shown(text), grammar));
  return text;
}

Result<std::string> ReadChoice(const Json& value, std::span<const std::string_view> choices) {
  VENEER_ASSIGN(std::string text, value.String());
  if (std::ranges::find(choices, text) == choices.end())
    return Fail(Code::VALUE_UNKNOWN, value.at, fmt::format("found {}, allowed is one of {}", Shown(text), fmt::join(choices, ", ")));
  return text;
}

Result<std::string> ReadScheme(const Json& value) {
  constexpr std::string_view kSchemes[] = {"symmetric", "affine", "k", "codebook", "none"};
  return ReadChoice(value, kSchemes);
}

// The text of a decimal as its author wrote it, out of a number or a string.
Result<std::string_view> DecimalText(const Json& value) {
  if (value.is_number() || value.is_string()) return std::string_view(value.text);
  return Fail(Code::FIELD_TYPE, value.at, "must be a number or a string that holds one");
}

}  // namespace

std::string Shown(std::string_view text) {
  constexpr std::size_t kShown = 80;
  if (text.size() <= kShown) return JsonQuote(text);
  std::size_t size = kShown;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;  // not inside a UTF-8 sequence
  return fmt::format("{}... ({} bytes)", JsonQuote(text.substr(0, size)), text.size());
}

Status CheckSchema(const Json& document, std::string_view schema) {
  if (!document.is_object()) return Fail(Code::FIELD_TYPE, document.at, "the document must be an object");
  const Json* const member = document.Find("schema");
  if (member == nullptr) return Fail(Code::FIELD_MISSING, "/schema", fmt::format("add schema = \"{}\"", schema));
  if (!member->is_string() || member->text != schema)
    return Fail(Code::SCHEMA_UNKNOWN, "/schema",
                fmt::format("found {}, this program reads \"{}\"", member->is_string() ? Shown(member->text) : "another type", schema));
  return {};
}

bool IsExtraName(std::string_view name) {
  return name.size() > 2 && name.size() <= 64 && name.starts_with("x_") &&
         std::ranges::all_of(name, [](char c) { return IsOneOf(c, kLower, kDigits, "_"); });
}

Status CheckFields(const Json& object, std::span<const FieldRule> rules, ExtraFields extra) {
  if (!object.is_object()) return Fail(Code::FIELD_TYPE, object.at, "must be an object");
  const std::string* unknown = nullptr;
  for (const auto& [name, member] : object.members) {
    if (std::ranges::find(rules, name, &FieldRule::name) != rules.end()) continue;
    if (extra == ExtraFields::kAllowed && IsExtraName(name)) continue;
    if (unknown == nullptr || name < *unknown) unknown = &name;
  }
  if (unknown != nullptr) {
    std::vector<std::string_view> allowed;
    for (const FieldRule& rule : rules) allowed.push_back(rule.name);
    return Fail(Code::FIELD_UNKNOWN, MemberPointer(object, *unknown),
                fmt::format("{} is no field here; allowed are {}{}", Shown(*unknown), fmt::join(allowed, ", "),
                            extra == ExtraFields::kAllowed ? " and names that begin with x_" : ""));
  }
  for (const FieldRule& rule : rules)
    if (rule.required && object.Find(rule.name) == nullptr)
      return Fail(Code::FIELD_MISSING, MemberPointer(object, rule.name), "the field is required; add it");
  return {};
}

Result<std::string> ReadName(const Json& value) {
  return ReadMatching(value, IsName, "1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit, not ending with a dot");
}

Result<std::string> ReadId(const Json& value) {
  return ReadMatching(value, IsId, "1 to 128 of A-Z a-z 0-9 . _ : + -, beginning with a letter or digit");
}

Result<std::string> ReadSiteName(const Json& value) {
  return ReadMatching(value, IsSiteName, "1 to 192 of A-Z a-z 0-9 . _ / -, no empty, . or .. between slashes");
}

Result<Digest> ReadDigest(const Json& value) {
  VENEER_ASSIGN(const std::string text, value.String());
  return ParseDigest(text, value.at);
}

Result<std::uint64_t> ReadInteger(const Json& value) { return value.U64(); }

Result<Decimal> ReadWeight(const Json& value) {
  VENEER_ASSIGN(const std::string_view text, DecimalText(value));
  return Decimal::FromAuthored(text, value.at);
}

Result<Decimal> ReadFraction(const Json& value) {
  VENEER_ASSIGN(Decimal decimal, ReadWeight(value));
  if (decimal.value() < 0 || decimal.value() > 1)
    return Fail(Code::WEIGHT_INVALID, value.at, fmt::format("found {}, allowed is 0 to 1", decimal.text()));
  return decimal;
}

Result<std::string> ReadTimestamp(const Json& value) {
  VENEER_ASSIGN(std::string text, value.String());
  VENEER_TRY(CheckTimestamp(text, value.at));
  return text;
}

Result<std::string> ReadBaseFormat(const Json& value) {
  constexpr std::string_view kFormats[] = {"gguf", "hf"};
  return ReadChoice(value, kFormats);
}

Result<std::string> ReadAdapterFormat(const Json& value) {
  constexpr std::string_view kFormats[] = {"safetensors", "gguf"};
  return ReadChoice(value, kFormats);
}

Result<std::string> ReadTiedWeights(const Json& value) {
  constexpr std::string_view kPolicies[] = {"separate", "forbid"};
  return ReadChoice(value, kPolicies);
}

Result<QuantizationClaim> ReadQuantization(const Json& value) {
  constexpr FieldRule kRules[] = {{"dtype", true}, {"scheme", true}, {"block_size", true}};
  VENEER_TRY(CheckFields(value, kRules));
  QuantizationClaim claim;
  VENEER_ASSIGN(claim.dtype, ReadRequired(value, "dtype", ReadId));
  VENEER_ASSIGN(claim.scheme, ReadRequired(value, "scheme", ReadScheme));
  VENEER_ASSIGN(claim.block_size, ReadRequired(value, "block_size", ReadInteger));
  return claim;
}

Result<std::pair<std::string, std::string>> ReadRuntime(const Json& value) {
  constexpr FieldRule kRules[] = {{"name", true}, {"version", true}};
  VENEER_TRY(CheckFields(value, kRules));
  std::pair<std::string, std::string> runtime;
  VENEER_ASSIGN(runtime.first, ReadRequired(value, "name", ReadId));
  VENEER_ASSIGN(runtime.second, ReadRequired(value, "version", ReadId));
  return runtime;
}

Result<std::vector<std::string>> ReadTargets(const Json& value) {
  if (!value.is_array()) return Fail(Code::FIELD_TYPE, value.at, "must be an array of site names");
  if (value.elements.size() > kMaxTargets)
    return Fail(Code::LIMIT, value.at, fmt::format("{} targets, at most {} are allowed", value.elements.size(), kMaxTargets));
  std::vector<std::string> targets;
  std::set<std::string_view> seen;
  for (const Json& element : value.elements) {
    VENEER_ASSIGN(targets.emplace_back(), ReadSiteName(element));
    if (!seen.insert(element.text).second)
      return Fail(Code::NAME_DUPLICATE, element.at, fmt::format("the target {} stands twice; keep one", Shown(element.text)));
  }
  return targets;
}

Result<std::vector<ManifestParam>> ReadParams(const Json& value) {
  if (!value.is_object()) return Fail(Code::FIELD_TYPE, value.at, "must be an object of strings and whole numbers");
  if (value.members.size() > kMaxParams)
    return Fail(Code::LIMIT, value.at, fmt::format("{} parameters, at most {} are allowed", value.members.size(), kMaxParams));
  std::vector<const Json::Member*> sorted;
  for (const Json::Member& member : value.members) sorted.push_back(&member);
  std::ranges::sort(sorted, {}, [](const Json::Member* member) -> const std::string& { return member->first; });
  std::vector<ManifestParam> params;
  for (const Json::Member* const member : sorted) {
    const auto& [key, param] = *member;
    if (!IsId(key)) return Fail(Code::NAME_INVALID, param.at, "a parameter's key has 1 to 128 of A-Z a-z 0-9 . _ : + -");
    if (param.is_string()) {
      if (!IsPrintableAscii(param.text))
        return Fail(Code::NAME_INVALID, param.at, fmt::format("found {}, allowed is printable ASCII", Shown(param.text)));
      params.emplace_back(key, param.text);
    } else {
      VENEER_ASSIGN(const std::uint64_t number, param.U64());
      params.emplace_back(key, number);
    }
  }
  return params;
}

Result<PluginPin> ReadPlugin(const Json& value) {
  constexpr FieldRule kRules[] = {{"name", true}, {"version", false}, {"sha256", false}};
  VENEER_TRY(CheckFields(value, kRules));
  PluginPin pin;
  VENEER_ASSIGN(pin.name, ReadRequired(value, "name", ReadId));
  VENEER_ASSIGN(auto version, ReadOptional(value, "version", ReadId));
  pin.version = version.value_or("");
  VENEER_ASSIGN(pin.sha256, ReadOptional(value, "sha256", ReadDigest));
  return pin;
}

}  // namespace veneer
