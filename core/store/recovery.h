// The first step of every writer, under byte 0: ends what a crash left open. CURRENT alone decides; nothing here chooses a generation.
// Recovery may itself be killed anywhere and be run again: twice is the same as once.
#ifndef VENEER_CORE_STORE_RECOVERY_H_
#define VENEER_CORE_STORE_RECOVERY_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/store/audit.h"
#include "core/store/layout.h"
#include "core/store/records.h"

namespace veneer {

inline constexpr const char* kCurrentName = "CURRENT";

// E602 when it is absent or damaged.
Result<Current> ReadCurrentFile(const StoreContext& store);
// The record with the digest of its bytes. E606 no such generation, E602 damaged.
struct StoredGeneration {
  GenerationRecord record;
  Digest digest;
};
Result<StoredGeneration> ReadGenerationFile(const StoreContext& store, std::uint64_t generation);

// The number that a name in gen/ is; nothing for any other name.
std::optional<std::uint64_t> GenerationNumber(const std::string& name);

// The record that the pointer names. E602 when it is missing, damaged or another one.
Result<GenerationRecord> ReadActiveRecord(const StoreContext& store, const Current& current);

// E612: the log knows a later generation than the pointer. The remedy depends on whether gen/ has that one.
Error Regressed(const StoreContext& store, std::uint64_t current, std::uint64_t logged);

struct Recovered {
  Current current;                   // generation 0 in an Init that was interrupted before the pointer
  AuditLog log;                      // open for appending
  std::vector<std::string> actions;  // what had to be done, for people
};

enum class PointerRule { kMustExist, kMayBeAbsent };  // kMayBeAbsent: Init
// E602 pointer or record, E610, E611, E612, E603, E502.
Result<Recovered> Recover(const StoreContext& store, PointerRule rule = PointerRule::kMustExist);

// For the explicit choice of a generation, when the pointer or the record it names is damaged, or older than the log; else E613.
// `current` has the highest generation there is, whatever became of it, and no composition.
Result<Recovered> RecoverWithoutPointer(const StoreContext& store);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_RECOVERY_H_
