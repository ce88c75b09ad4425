// The audit log: audit/seg-<k>, append-only framed records, each with the SHA-256 of the one before. It is also the intent journal: a
// `begin` without an end is a transaction that recovery must end. Evidence, never truth.
#ifndef VENEER_CORE_STORE_AUDIT_H_
#define VENEER_CORE_STORE_AUDIT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/manifest/canonical.h"
#include "core/store/layout.h"

namespace veneer {

// One record. Values are strings, and integers as their digits; "type", "time" and "prev" are among them.
struct AuditRecord {
  std::map<std::string, std::string> values;
  std::string text;                                                 // canonical JSON as stored
  [[nodiscard]] std::string_view Get(std::string_view name) const;  // "" when absent
  [[nodiscard]] std::string_view type() const { return Get("type"); }
  [[nodiscard]] std::uint64_t Number(std::string_view name) const;  // 0 when absent or no number
};

// "<len, 4 hex> <CRC-32C of the JSON, 8 hex> <JSON>\n"
std::string FrameRecord(std::string_view json);

struct SegmentScan {
  std::vector<AuditRecord> records;        // valid from the start
  std::uint64_t good_bytes = 0;            // what the records take
  std::uint64_t torn_bytes = 0;            // after them, with no valid record among them: an append that was cut short
  std::optional<std::uint64_t> broken_at;  // a record that is damaged or does not chain, with records after it: E611
};
SegmentScan ScanSegment(std::string_view bytes);

std::optional<std::uint64_t> SegmentNumber(std::string_view name);  // of "seg-<k>", k from 1

// A begin that has no end yet, and how far the log has got.
struct AuditState {
  std::vector<std::string> open_transactions;
  std::uint64_t generation = 0;  // the highest one known as committed
};
AuditState StateOf(const std::vector<AuditRecord>& segment);

// All records of all segments in order. E610 no segment, E611 broken, E603.
Result<std::vector<AuditRecord>> ReadAudit(const StoreContext& store);

// The last segment, open for appending; under byte 0.
class AuditLog {
 public:
  static Result<AuditLog> OpenLast(const StoreContext& store);  // E610, E611
  // The first segment; an existing one is fine. Init only.
  static Status CreateFirst(const StoreContext& store);

  [[nodiscard]] const AuditState& state() const { return state_; }
  [[nodiscard]] bool NeedsNewSegment() const;  // torn, or long enough
  // Nothing was appended yet: whoever made the segment may have died before its name was durable.
  [[nodiscard]] bool IsFresh() const { return fresh_; }
  // Starts the next segment with what this one ends with.
  Status StartSegment(const StoreContext& store);

  // Appends a record and syncs it; `type`, `prev` and the time are added. After a failure the segment is cut back where that is
  // possible, and this object appends no more: what reached the disk is not known.
  Status Append(const StoreContext& store, std::string_view type, CanonicalMembers members);

 private:
  Status Settle(const StoreContext& store);
  std::string name_;
  std::uint64_t number_ = 0;
  UniqueFd fd_;
  std::uint64_t size_ = 0, torn_bytes_ = 0;
  Digest last_;  // of the last record
  AuditState state_;
  bool fresh_ = false, failed_ = false, settled_ = false;
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_AUDIT_H_
