#include "core/store/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/format/json.h"
#include "core/store/crc32c.h"
#include "core/store/records.h"
#include "core/store/staging.h"

namespace veneer {
namespace {

constexpr std::string_view kPrefix = "seg-";
constexpr std::size_t kHeaderSize = 14;               // "llll cccccccc "
constexpr std::size_t kMaxJson = 0xffff;              // four hex digits
constexpr std::uint64_t kMaxSegmentBytes = 64 << 20;  // what is read; writers start a new one long before
constexpr std::uint64_t kSegmentGoal = 1 << 20;

std::optional<std::uint32_t> ParseHex(std::string_view digits) {
  std::uint32_t value = 0;
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// The JSON of the frame that starts the text, or nothing.
std::optional<std::string_view> TakeFrame(std::string_view text) {
  if (text.size() < kHeaderSize + 1 || text[4] != ' ' || text[13] != ' ') return std::nullopt;
  const auto length = ParseHex(text.substr(0, 4));
  const auto crc = ParseHex(text.substr(5, 8));
  if (!length || !crc || text.size() - kHeaderSize <= *length || text[kHeaderSize + *length] != '\n') return std::nullopt;
  const std::string_view json = text.substr(kHeaderSize, *length);
  if (Crc32c(json) != *crc) return std::nullopt;
  return json;
}

std::optional<AuditRecord> ReadRecord(std::string_view text) {
  const auto json = ParseJson(text, {.bytes = kMaxJson, .depth = 1, .items = 64});
  if (!json || !json->is_object()) return std::nullopt;
  const auto canonical = CanonicalText(*json);
  if (!canonical || *canonical != text) return std::nullopt;
  AuditRecord record;
  for (const auto& [name, value] : json->members) record.values[name] = value.text;
  if (record.type().empty() || record.Get("prev").empty()) return std::nullopt;
  record.text = text;
  return record;
}

// A record that was written after the damage proves that the damage is no torn append. Every offset is tried: the damage may be the
// end of the line before.
bool HasFrameAfter(std::string_view bytes, std::size_t offset) {
  for (std::size_t start = offset + 1; start < bytes.size(); ++start)
    if (TakeFrame(bytes.substr(start))) return true;
  return false;
}

Error Broken(const StoreContext& store, std::string_view segment, std::uint64_t offset) {
  return {Code::AUDIT_CHAIN, store.audit.At(segment),
          fmt::format("the record at byte {} is damaged or does not follow the one before it; the log was changed or has rotted: keep a "
                      "copy of the store as evidence and restore it from a good copy",
                      offset)};
}

Result<std::vector<std::uint64_t>> ListSegments(const StoreContext& store) {
  VENEER_ASSIGN(const auto names, ListNames(*store.sys, store.audit));
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : names)
    if (const auto number = SegmentNumber(name)) numbers.push_back(*number);
  std::ranges::sort(numbers);
  return numbers;
}

Error NoSegment(const StoreContext& store) {
  return {Code::AUDIT_UNAVAILABLE, store.audit.path, "holds no segment of the log; restore the store from a copy"};
}

std::string SegmentText(const CanonicalMembers& members) { return FrameRecord(CanonicalObject(members)); }

CanonicalMembers SegmentMembers(const StoreContext& store, std::string prev, std::uint64_t lost, const AuditState& state) {
  std::string open_tx(kNone);
  if (!state.open_transactions.empty()) open_tx = state.open_transactions.back();
  return {{"type", CanonicalString("segment")},
          {"schema", CanonicalString("veneer.audit/1")},
          {"prev", CanonicalString(prev)},
          {"lost_bytes", CanonicalInteger(lost)},
          {"open_tx", CanonicalString(open_tx)},
          {"gen", CanonicalInteger(state.generation)},
          {"time", CanonicalString(FormatTime(store.sys->WallClockNs()))}};
}

}  // namespace

std::string_view AuditRecord::Get(std::string_view name) const {
  const auto found = values.find(std::string(name));
  return found == values.end() ? std::string_view() : std::string_view(found->second);
}

std::uint64_t AuditRecord::Number(std::string_view name) const {
  const std::string_view digits = Get(name);
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() ? value : 0;
}

std::string FrameRecord(std::string_view json) { return fmt::format("{:04x} {:08x} {}\n", json.size(), Crc32c(json), json); }

SegmentScan ScanSegment(std::string_view bytes) {
  SegmentScan scan;
  std::string prev;
  while (scan.good_bytes < bytes.size()) {
    const auto json = TakeFrame(bytes.substr(scan.good_bytes));
    if (!json) {
      if (scan.records.empty() || HasFrameAfter(bytes, scan.good_bytes)) {
        scan.broken_at = scan.good_bytes;
      } else {
        scan.torn_bytes = bytes.size() - scan.good_bytes;
      }
      return scan;
    }
    auto record = ReadRecord(*json);
    const bool first = scan.records.empty();
    if (!record || first != (record->type() == "segment") || (!first && record->Get("prev") != prev)) {
      scan.broken_at = scan.good_bytes;
      return scan;
    }
    prev = Sha256::Of(*json).Text();
    scan.good_bytes += kHeaderSize + json->size() + 1;
    scan.records.push_back(*std::move(record));
  }
  if (scan.records.empty()) scan.broken_at = 0;  // a segment gets its name only when its first record is durable
  return scan;
}

std::optional<std::uint64_t> SegmentNumber(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ec != std::errc() || number == 0 || name != fmt::format("{}{}", kPrefix, number)) return std::nullopt;
  return number;
}

AuditState StateOf(const std::vector<AuditRecord>& segment) {
  AuditState state;
  for (const AuditRecord& record : segment) {
    const std::string tx(record.Get("tx"));
    if (record.type() == "segment" && IsTransactionId(record.Get("open_tx"))) state.open_transactions.emplace_back(record.Get("open_tx"));
    if (record.type() == "begin") state.open_transactions.push_back(tx);
    if (record.type() == "commit" || record.type() == "abort") std::erase(state.open_transactions, tx);
    if (record.type() == "commit" || record.type() == "segment") state.generation = std::max(state.generation, record.Number("gen"));
  }
  return state;
}

Result<std::vector<AuditRecord>> ReadAudit(const StoreContext& store) {
  VENEER_ASSIGN(const auto numbers, ListSegments(store));
  if (numbers.empty()) return Fail(NoSegment(store));
  std::vector<AuditRecord> records;
  std::string prev(kNone);
  std::uint64_t torn_bytes = 0, expected = 1;
  for (const std::uint64_t number : numbers) {
    const std::string name = fmt::format("{}{}", kPrefix, number);
    VENEER_ASSIGN(const auto bytes, ReadSmallFile(*store.sys, store.audit, name, kMaxSegmentBytes));
    SegmentScan scan = ScanSegment(bytes.value_or(""));
    if (number != expected++ || scan.broken_at || scan.records.front().Get("prev") != prev ||
        scan.records.front().Number("lost_bytes") != torn_bytes)
      return Fail(Broken(store, name, scan.broken_at.value_or(0)));
    prev = Sha256::Of(scan.records.back().text).Text();
    torn_bytes = scan.torn_bytes;
    std::ranges::move(scan.records, std::back_inserter(records));
  }
  return records;
}

Status AuditLog::CreateFirst(const StoreContext& store) {
  VENEER_ASSIGN(const auto numbers, ListSegments(store));
  if (!numbers.empty()) return {};
  VENEER_ASSIGN(const StagedFile file,
                StagedFile::Create(store, kPrivatePermissions, SegmentText(SegmentMembers(store, std::string(kNone), 0, {}))));
  VENEER_TRY(file.LinkInto(store.audit, "seg-1"));
  return SyncDir(*store.sys, store.audit);
}

Result<AuditLog> AuditLog::OpenLast(const StoreContext& store) {
  VENEER_ASSIGN(const auto numbers, ListSegments(store));
  if (numbers.empty()) return Fail(NoSegment(store));
  AuditLog log;
  log.number_ = numbers.back();
  log.name_ = fmt::format("{}{}", kPrefix, log.number_);
  VENEER_ASSIGN(log.fd_, OpenFile(*store.sys, store.audit, log.name_, OpenMode::kAppend));
  VENEER_ASSIGN(const std::string bytes, ReadAll(*store.sys, log.fd_, kMaxSegmentBytes, store.audit.At(log.name_)));
  const SegmentScan scan = ScanSegment(bytes);
  if (scan.broken_at) return Fail(Broken(store, log.name_, *scan.broken_at));
  log.size_ = scan.good_bytes;
  log.torn_bytes_ = scan.torn_bytes;
  log.last_ = Sha256::Of(scan.records.back().text);
  log.state_ = StateOf(scan.records);
  log.fresh_ = scan.records.size() == 1;
  return log;
}

bool AuditLog::NeedsNewSegment() const { return torn_bytes_ > 0 || size_ > kSegmentGoal; }

// Before anything follows what was read: its writer may have been killed before its sync, and a power cut that tears it then must not
// leave a whole record behind it, which would be damage and no torn end.
Status AuditLog::Settle(const StoreContext& store) {
  if (settled_) return {};
  const Status synced = SyncFile(*store.sys, fd_, store.audit.At(name_));
  (synced ? settled_ : failed_) = true;  // a second sync would succeed and write nothing
  return synced;
}

Status AuditLog::StartSegment(const StoreContext& store) {
  VENEER_TRY(Settle(store));
  const CanonicalMembers members = SegmentMembers(store, last_.Text(), torn_bytes_, state_);
  const std::string text = SegmentText(members);
  const std::string name = fmt::format("{}{}", kPrefix, number_ + 1);
  VENEER_ASSIGN(const StagedFile file, StagedFile::Create(store, kPrivatePermissions, text));
  VENEER_ASSIGN(const bool linked, file.LinkInto(store.audit, name));
  if (!linked) return Fail(Code::AUDIT_CHAIN, store.audit.At(name), "a file has the name of the next segment");
  VENEER_TRY(SyncDir(*store.sys, store.audit));
  VENEER_ASSIGN(fd_, OpenFile(*store.sys, store.audit, name, OpenMode::kAppend));
  name_ = name;
  ++number_;
  size_ = text.size();
  torn_bytes_ = 0;
  last_ = Sha256::Of(CanonicalObject(members));
  return {};
}

Status AuditLog::Append(const StoreContext& store, std::string_view type, CanonicalMembers members) {
  const std::string at = store.audit.At(name_);
  if (failed_ || torn_bytes_ > 0) return Fail(Code::AUDIT_UNAVAILABLE, at, "an earlier record could not be written");
  members["type"] = CanonicalString(type);
  members["prev"] = CanonicalString(last_.Text());
  members["time"] = CanonicalString(FormatTime(store.sys->WallClockNs()));
  const std::string json = CanonicalObject(members);
  if (json.size() > kMaxJson) return Fail(Code::LIMIT, at, fmt::format("a record of {} bytes, allowed {}", json.size(), kMaxJson));
  const std::string frame = FrameRecord(json);
  const Digest digest = Sha256::Of(json);  // before the write: nothing after it may need memory
  VENEER_TRY(Settle(store));
  failed_ = true;  // until it is known to have worked
  Status status = WriteAll(*store.sys, fd_, frame, at);
  if (status) status = SyncFile(*store.sys, fd_, at);
  if (!status) {
    // Memory and disk may disagree about these bytes now. Taking them away keeps a later record from following a hole.
    (void)store.sys->Truncate(fd_.get(), size_);
    return status;
  }
  failed_ = false;
  size_ += frame.size();
  last_ = digest;
  return {};
}

}  // namespace veneer
