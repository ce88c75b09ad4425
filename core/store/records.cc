#include "core/store/records.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "core/format/json.h"
#include "core/manifest/canonical.h"
#include "core/store/crc32c.h"
#include "core/store/layout.h"

namespace veneer {
namespace {

constexpr const char* kCurrentAt = "veneer/state/CURRENT";

constexpr std::array<std::pair<GenerationOp, std::string_view>, 5> kOps{{{GenerationOp::kInit, "init"},
                                                                         {GenerationOp::kActivate, "activate"},
                                                                         {GenerationOp::kRollback, "rollback"},
                                                                         {GenerationOp::kDeactivate, "deactivate"},
                                                                         {GenerationOp::kSetCurrent, "set-current"}}};

std::string DigestText(const std::optional<Digest>& digest) { return digest ? digest->Text() : std::string(kNone); }

Result<std::optional<Digest>> ParseOptionalDigest(std::string_view text, std::string_view at) {
  if (text == kNone) return std::nullopt;
  VENEER_ASSIGN(const Digest digest, ParseDigest(text, at));
  return std::optional<Digest>(digest);
}

// The value of the line "<name> <value>\n" that starts the text, which moves on.
std::optional<std::string_view> TakeLine(std::string_view& text, std::string_view name) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(name) || name.size() >= end || text[name.size()] != ' ') return std::nullopt;
  const std::string_view value = text.substr(name.size() + 1, end - name.size() - 1);
  text.remove_prefix(end + 1);
  return value;
}

std::optional<Current> ReadCurrentLines(std::string_view body) {
  Current current;
  const auto version = TakeLine(body, "veneer-current");
  const auto generation = TakeLine(body, "gen");
  const auto composition = TakeLine(body, "composition");
  const auto record = TakeLine(body, "record");
  const auto tx = TakeLine(body, "tx");
  if (!version || *version != "1" || !generation || !composition || !record || !tx || !IsTransactionId(*tx)) return std::nullopt;
  const auto number = std::from_chars(generation->data(), generation->data() + generation->size(), current.generation);
  if (number.ec != std::errc() || current.generation == 0) return std::nullopt;
  const auto composition_digest = ParseOptionalDigest(*composition, kCurrentAt);
  const auto record_digest = ParseDigest(*record, kCurrentAt);
  if (!composition_digest || !record_digest) return std::nullopt;
  current.composition = *composition_digest;
  current.record = *record_digest;
  current.tx = *tx;
  return current;
}

template <class T>
Result<T> FindName(const auto& table, std::string_view name, std::string_view at) {
  for (const auto& [value, text] : table)
    if (text == name) return value;
  return Fail(Code::VALUE_UNKNOWN, std::string(at), fmt::format("\"{}\" is not known", name));
}

Result<std::string> Member(const Json& object, std::string_view name) {
  VENEER_ASSIGN(const Json* value, object.Get(name));
  return value->String();
}

Result<std::uint64_t> IntegerMember(const Json& object, std::string_view name) {
  VENEER_ASSIGN(const Json* value, object.Get(name));
  return value->U64();
}

Result<std::optional<Digest>> DigestMember(const Json& object, std::string_view name) {
  VENEER_ASSIGN(const std::string text, Member(object, name));
  return ParseOptionalDigest(text, name);
}

Result<GenerationRecord> ReadGenerationMembers(const Json& json) {
  constexpr std::array<std::pair<VerifyMode, std::string_view>, 2> kModes{{{VerifyMode::kStamp, "stamp"}, {VerifyMode::kFull, "full"}}};
  GenerationRecord record;
  VENEER_ASSIGN(record.generation, IntegerMember(json, "gen"));
  VENEER_ASSIGN(record.ancestor, IntegerMember(json, "ancestor"));
  VENEER_ASSIGN(record.composition, DigestMember(json, "composition"));
  VENEER_ASSIGN(record.prev_record, DigestMember(json, "prev_record"));
  VENEER_ASSIGN(record.statement, DigestMember(json, "statement"));
  VENEER_ASSIGN(record.tx, Member(json, "tx"));
  VENEER_ASSIGN(record.build, Member(json, "build"));
  VENEER_ASSIGN(record.time, Member(json, "time"));
  VENEER_ASSIGN(const std::string op, Member(json, "op"));
  VENEER_ASSIGN(record.op, FindName<GenerationOp>(kOps, op, "/op"));
  VENEER_ASSIGN(const std::string verify, Member(json, "verify"));
  VENEER_ASSIGN(record.verify, FindName<VerifyMode>(kModes, verify, "/verify"));
  const Json* const verity = json.Find("verity");
  if (verity == nullptr) return record;
  for (const auto& [blob, measured] : verity->members) {
    VENEER_ASSIGN(const Digest digest, ParseDigest(blob, "/verity"));
    VENEER_ASSIGN(const std::string text, measured.String());
    VENEER_ASSIGN(record.verity[digest], ParseDigest(text, "/verity"));
  }
  return record;
}

}  // namespace

bool IsTransactionId(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string PrintCurrent(const Current& current) {
  return WithCrcLine(fmt::format("veneer-current 1\ngen {}\ncomposition {}\nrecord {}\ntx {}\n", current.generation,
                                 DigestText(current.composition), current.record.Text(), current.tx));
}

Result<Current> ParseCurrent(std::string_view text) {
  const auto body = CheckCrcLine(text);
  if (!body)
    return Fail(Code::STATE_CORRUPT, kCurrentAt, fmt::format("its checksum does not fit its {} bytes; {}", text.size(), kChooseGeneration));
  auto current = ReadCurrentLines(*body);
  if (!current || PrintCurrent(*current) != text)
    return Fail(Code::STATE_CORRUPT, kCurrentAt, fmt::format("is not a pointer of version 1; {}", kChooseGeneration));
  return *std::move(current);
}

std::string_view GenerationOpName(GenerationOp op) {
  for (const auto& [value, name] : kOps)
    if (value == op) return name;
  return "";
}

std::string_view VerifyModeName(VerifyMode mode) { return mode == VerifyMode::kStamp ? "stamp" : "full"; }

std::string PrintGeneration(const GenerationRecord& record) {
  CanonicalMembers members{{"gen", CanonicalInteger(record.generation)},
                           {"op", CanonicalString(GenerationOpName(record.op))},
                           {"composition", CanonicalString(DigestText(record.composition))},
                           {"ancestor", CanonicalInteger(record.ancestor)},
                           {"prev_record", CanonicalString(DigestText(record.prev_record))},
                           {"tx", CanonicalString(record.tx)},
                           {"statement", CanonicalString(DigestText(record.statement))},
                           {"verify", CanonicalString(VerifyModeName(record.verify))},
                           {"build", CanonicalString(record.build)},
                           {"time", CanonicalString(record.time)}};
  CanonicalMembers verity;
  for (const auto& [blob, measured] : record.verity) verity[blob.Text()] = CanonicalString(measured.Text());
  if (!verity.empty()) members["verity"] = CanonicalObject(verity);
  return CanonicalObject(members);
}

Result<GenerationRecord> ParseGeneration(std::string_view text, std::uint64_t generation) {
  const std::string at = fmt::format("veneer/gen/{}", generation);
  const auto corrupt = [&at](std::string_view why) { return Fail(Code::STATE_CORRUPT, at, std::string(why)); };
  const auto json = ParseJson(text, {.bytes = kMaxRecordBytes, .depth = 2, .items = 512});
  if (!json) return corrupt(json.error().Text());
  auto record = ReadGenerationMembers(*json);
  if (!record) return corrupt(record.error().Text());
  if (PrintGeneration(*record) != text) return corrupt("its bytes are not canonical");
  if (record->generation != generation) return corrupt(fmt::format("is the record of generation {}", record->generation));
  if (!IsTransactionId(record->tx) || record->ancestor >= generation) return corrupt("its transaction or ancestor is impossible");
  return *std::move(record);
}

}  // namespace veneer
