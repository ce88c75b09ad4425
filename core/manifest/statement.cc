// The statement: what gets signed. It binds time, channel and provenance to a composition's digest.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>

#include "core/format/json.h"
#include "core/manifest/canonical.h"
#include "core/manifest/document.h"
#include "core/manifest/fields.h"
#include "core/manifest/manifest.h"

namespace veneer {
namespace {

constexpr std::string_view kSchema = "veneer.statement/1";
constexpr FieldRule kFields[] = {
    {"schema", true},    {"composition", true},  {"timestamp_utc", true}, {"channel", false},
    {"sequence", false}, {"expires_utc", false}, {"title", false},        {"description", false},
};

// The digits at [begin, begin + size) of a text whose shape was checked.
int NumberAt(std::string_view text, std::size_t begin, std::size_t size) {
  int value = 0;
  std::from_chars(text.data() + begin, text.data() + begin + size, value);
  return value;
}

bool HasShape(std::string_view text, std::string_view shape) {  // 'd' stands for a digit
  return text.size() == shape.size() &&
         std::ranges::equal(text, shape, [](char c, char want) { return want == 'd' ? c >= '0' && c <= '9' : c == want; });
}

bool IsTimestamp(std::string_view text) {
  if (!HasShape(text, "dddd-dd-ddTdd:dd:ddZ")) return false;
  using std::chrono::day, std::chrono::month, std::chrono::year;
  const std::chrono::year_month_day date{year{NumberAt(text, 0, 4)}, month{static_cast<unsigned>(NumberAt(text, 5, 2))},
                                         day{static_cast<unsigned>(NumberAt(text, 8, 2))}};
  return date.ok() && date.year() >= year{1970} && NumberAt(text, 11, 2) < 24 && NumberAt(text, 14, 2) < 60 && NumberAt(text, 17, 2) < 60;
}

}  // namespace

Status CheckTimestamp(std::string_view text, std::string_view at) {
  if (IsTimestamp(text)) return {};
  return Fail(
      Code::TIMESTAMP_INVALID, std::string(at),
      fmt::format("found {}, allowed is YYYY-MM-DDTHH:MM:SSZ: a real date in UTC from 1970 on, no fraction, no leap second", Shown(text)));
}

std::string Statement::Canonical() const {
  CanonicalMembers members{{"schema", CanonicalString(kSchema)},
                           {"composition", CanonicalString(composition.Text())},
                           {"timestamp_utc", CanonicalString(timestamp_utc)}};
  if (channel) members["channel"] = CanonicalString(*channel);
  if (sequence) members["sequence"] = CanonicalInteger(*sequence);
  if (expires_utc) members["expires_utc"] = CanonicalString(*expires_utc);
  for (const auto& [name, text] : extra) members[name] = text;
  return CanonicalObject(members);
}

Result<Statement> Statement::Parse(std::string_view bytes) {
  VENEER_ASSIGN(const Json document, ParseJson(bytes, {kMaxStatementBytes, kMaxDepth, kMaxItems, true}));
  VENEER_TRY(CheckSchema(document, kSchema));
  VENEER_TRY(CheckFields(document, kFields, ExtraFields::kAllowed));
  Statement statement;
  VENEER_ASSIGN(statement.composition, ReadRequired(document, "composition", ReadDigest));
  VENEER_ASSIGN(statement.timestamp_utc, ReadRequired(document, "timestamp_utc", ReadTimestamp));
  VENEER_ASSIGN(statement.channel, ReadOptional(document, "channel", ReadName));
  VENEER_ASSIGN(statement.sequence, ReadOptional(document, "sequence", ReadInteger));
  VENEER_ASSIGN(statement.expires_utc, ReadOptional(document, "expires_utc", ReadTimestamp));
  VENEER_ASSIGN(statement.extra, ReadExtras(document));
  VENEER_TRY(CheckCanonicalBytes(bytes, statement.Canonical()));
  return statement;
}

Statement MakeStatement(const Manifest& manifest, const Digest& composition) {
  return {composition, manifest.timestamp_utc, manifest.channel, manifest.expires_utc, manifest.sequence, manifest.extra};
}

}  // namespace veneer
