// The bytes of truth: the pointer CURRENT and the generation records it names. Pure functions of text; no files here.
#ifndef VENEER_CORE_STORE_RECORDS_H_
#define VENEER_CORE_STORE_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/error.h"

namespace veneer {

inline constexpr std::uint64_t kMaxCurrentBytes = 512;
inline constexpr std::uint64_t kMaxRecordBytes = 64 << 10;

// The remedy when nothing says which generation is active.
inline constexpr std::string_view kChooseGeneration =
    "veneer never guesses which composition is active: restore the store from a copy, or choose a generation of `veneer log` with "
    "`veneer fsck --set-current N`";

// state/CURRENT.
struct Current {
  std::uint64_t generation = 0;
  std::optional<Digest> composition;  // nothing: no composition is active
  Digest record;                      // of the bytes of gen/<generation>
  std::string tx;                     // 32 hex digits: the transaction that wrote it
  bool operator==(const Current&) const = default;
};
std::string PrintCurrent(const Current& current);
// E602 for anything but the exact bytes PrintCurrent gives.
Result<Current> ParseCurrent(std::string_view text);

enum class GenerationOp { kInit, kActivate, kRollback, kDeactivate, kSetCurrent };
std::string_view GenerationOpName(GenerationOp op);  // "init", "activate", …

enum class VerifyMode {
  kStamp,  // trust a stamp of an earlier full hash while the file is unchanged since
  kFull    // hash every byte now
};
std::string_view VerifyModeName(VerifyMode mode);  // "stamp", "full"

// gen/<N>.
struct GenerationRecord {
  std::uint64_t generation = 0;
  GenerationOp op = GenerationOp::kInit;
  std::optional<Digest> composition;
  std::uint64_t ancestor = 0;         // the generation that rollback returns to; 0: none
  std::optional<Digest> prev_record;  // of gen/<N-1>; nothing for generation 1
  std::string tx;
  std::optional<Digest> statement;
  VerifyMode verify = VerifyMode::kStamp;
  std::map<Digest, Digest> verity;  // of the blobs that fs-verity sealed: by their digest, what the kernel measures
  std::string build, time;          // information only
  bool operator==(const GenerationRecord&) const = default;
};
std::string PrintGeneration(const GenerationRecord& record);
// E602 at gen/<N> for anything but the exact bytes PrintGeneration gives for that generation.
Result<GenerationRecord> ParseGeneration(std::string_view text, std::uint64_t generation);

bool IsTransactionId(std::string_view text);  // 32 lower-case hex digits

}  // namespace veneer

#endif  // VENEER_CORE_STORE_RECORDS_H_
