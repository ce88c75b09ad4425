#include "core/store/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/store/index.h"
#include "core/store/staging.h"

namespace veneer {
namespace {

// Step 1. Without a pointer only a store that never had one may go on: then there is no generation beyond the first.
Result<Current> ReadPointer(const StoreContext& store, PointerRule rule) {
  if (rule == PointerRule::kMustExist) return ReadCurrentFile(store);
  VENEER_ASSIGN(const auto text, ReadSmallFile(*store.sys, store.state, kCurrentName, kMaxCurrentBytes));
  if (text) return ParseCurrent(*text);
  VENEER_ASSIGN(const auto second, ReadSmallFile(*store.sys, store.gen, "2", kMaxRecordBytes));
  if (!second) return Current{};
  return Fail(Code::STATE_CORRUPT, store.state.At(kCurrentName), "is missing in a store that has been in use; restore it from a copy");
}

// Step 2.
Status CheckRecord(const StoreContext& store, const Current& current) {
  if (current.generation == 0) return {};
  VENEER_TRY(ReadActiveRecord(store, current));
  return {};
}

// Step 3.
Result<AuditLog> OpenLog(const StoreContext& store, const Current& current, std::vector<std::string>& actions) {
  VENEER_ASSIGN(AuditLog log, AuditLog::OpenLast(store));
  if (log.state().generation > current.generation) return Fail(Regressed(store, current.generation, log.state().generation));
  // The begin is durable before the pointer is visible, so no crash leaves a pointer that the log has never heard of.
  const auto& open = log.state().open_transactions;
  const bool is_known = current.generation <= log.state().generation || std::ranges::find(open, current.tx) != open.end();
  if (!current.tx.empty() && !is_known)
    return Fail(
        Code::AUDIT_CHAIN, store.audit.path,
        fmt::format("generation {} is active and not in the log, which ends with generation {}: its end was cut off; restore it from "
                    "a copy",
                    current.generation, log.state().generation));
  if (log.NeedsNewSegment()) {
    VENEER_TRY(log.StartSegment(store));
    actions.push_back("started a new segment of the log");
  } else if (log.IsFresh()) {
    VENEER_TRY(SyncDir(*store.sys, store.audit));
  }
  return log;
}

// Without a pointer nothing tells a crash from a commit that was not recorded.
Status EndWithoutPointer(const StoreContext& store, AuditLog& log) {
  for (const std::string& tx : log.state().open_transactions)
    VENEER_TRY(log.Append(store, "abort", {{"tx", CanonicalString(tx)}, {"code", CanonicalString("CURRENT_LOST")}}));
  return {};
}

// Step 4. The rename may be visible and not durable: without the sync a power cut could take it back after the log said "commit".
Status EndOpenTransactions(const StoreContext& store, const Current& current, AuditLog& log, std::vector<std::string>& actions) {
  if (log.state().open_transactions.empty()) return {};
  VENEER_TRY(SyncDir(*store.sys, store.state));
  for (const std::string& tx : log.state().open_transactions) {
    CanonicalMembers end{{"tx", CanonicalString(tx)}};
    const bool committed = current.tx == tx;
    if (committed) {
      end["gen"] = CanonicalInteger(current.generation);
      end["composition"] = CanonicalString(current.composition ? current.composition->Text() : std::string(kNone));
      end["recovered"] = CanonicalInteger(1);
    } else {
      end["code"] = CanonicalString("CRASHED");
    }
    VENEER_TRY(log.Append(store, committed ? "commit" : "abort", std::move(end)));
    actions.push_back(fmt::format("{} transaction {}", committed ? "completed" : "aborted", tx));
  }
  // The view of a generation whose activation stopped before step 13. Best effort, as there: the view is no truth.
  if (std::string warning = UpdateIndexOrWarn(store, current); !warning.empty()) actions.push_back(std::move(warning));
  return {};
}

// Step 5.
Status RemoveBesides(const StoreContext& store, const Dir& dir, std::vector<std::string>& actions) {
  VENEER_ASSIGN(const auto names, ListNames(*store.sys, dir));
  for (const std::string& name : names) {
    if (!IsBesideName(name)) continue;
    VENEER_TRY(RemoveFile(*store.sys, dir, name));
    actions.push_back(fmt::format("removed {}", dir.At(name)));
  }
  return {};
}

Status RemoveUncommitted(const StoreContext& store, const Current& current, std::vector<std::string>& actions) {
  VENEER_ASSIGN(const auto names, ListNames(*store.sys, store.gen));
  for (const std::string& name : names) {
    if (GenerationNumber(name).value_or(0) <= current.generation) continue;
    VENEER_TRY(RemoveFile(*store.sys, store.gen, name));
    actions.push_back(fmt::format("removed {}", store.gen.At(name)));
  }
  return {};
}

Status RemoveLitter(const StoreContext& store, const Current& current, std::vector<std::string>& actions) {
  VENEER_TRY(RemoveUncommitted(store, current, actions));
  VENEER_TRY(RemoveBesides(store, store.state, actions));
  VENEER_TRY(RemoveBesides(store, store.veneer, actions));
  VENEER_TRY(RemoveBesides(store, store.root, actions));
  for (const Dir& dir : store.refs) VENEER_TRY(RemoveBesides(store, dir, actions));
  VENEER_ASSIGN(const int swept, SweepStaging(store));
  if (swept > 0) actions.push_back(fmt::format("removed {} files of staging/", swept));
  return {};
}

// The highest number in gen/, committed or not: a number is never given twice when nobody knows.
Result<std::uint64_t> HighestGeneration(const StoreContext& store) {
  VENEER_ASSIGN(const auto names, ListNames(*store.sys, store.gen));
  std::uint64_t highest = 0;
  for (const std::string& name : names) highest = std::max(highest, GenerationNumber(name).value_or(0));
  return highest;
}

}  // namespace

std::optional<std::uint64_t> GenerationNumber(const std::string& name) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) return std::nullopt;
  return number;
}

Result<Current> ReadCurrentFile(const StoreContext& store) {
  const auto text = ReadSmallFile(*store.sys, store.state, kCurrentName, kMaxCurrentBytes);
  if (!text) return Fail(text.error());
  if (!*text) return Fail(Code::STATE_CORRUPT, store.state.At(kCurrentName), fmt::format("is missing; {}", kChooseGeneration));
  return ParseCurrent(**text);
}

Result<StoredGeneration> ReadGenerationFile(const StoreContext& store, std::uint64_t generation) {
  const std::string name = std::to_string(generation);
  VENEER_ASSIGN(const auto text, ReadSmallFile(*store.sys, store.gen, name, kMaxRecordBytes));
  if (!text) return Fail(Code::NO_ROLLBACK_TARGET, store.gen.At(name), "the store has no such generation; `veneer log` lists them");
  VENEER_ASSIGN(GenerationRecord record, ParseGeneration(*text, generation));
  return StoredGeneration{std::move(record), Sha256::Of(*text)};
}

Result<GenerationRecord> ReadActiveRecord(const StoreContext& store, const Current& current) {
  auto stored = ReadGenerationFile(store, current.generation);
  const std::string at = store.gen.At(std::to_string(current.generation));
  if (!stored && stored.error().code == Code::NO_ROLLBACK_TARGET)
    return Fail(Code::STATE_CORRUPT, at, fmt::format("the record of the active generation is missing; {}", kChooseGeneration));
  if (!stored) return Fail(std::move(stored).error());
  if (stored->digest != current.record || stored->record.tx != current.tx || stored->record.composition != current.composition)
    return Fail(Code::STATE_CORRUPT, at,
                fmt::format("the record of the active generation is not the one CURRENT names; {}", kChooseGeneration));
  return std::move(stored->record);
}

Error Regressed(const StoreContext& store, std::uint64_t current, std::uint64_t logged) {
  const bool can_choose = ReadGenerationFile(store, logged).has_value();
  return {Code::GENERATION_REGRESSED, store.state.At(kCurrentName),
          fmt::format("names generation {}, the log knows {}: an old copy under a newer log; restore the whole store from one copy{}",
                      current, logged, can_choose ? ", or choose one with `veneer fsck --set-current N`" : "")};
}

Result<Recovered> Recover(const StoreContext& store, PointerRule rule) {
  Recovered recovered;
  VENEER_ASSIGN(recovered.current, ReadPointer(store, rule));
  VENEER_TRY(CheckRecord(store, recovered.current));
  // A new store: whoever made it may have died before FORMAT, which was written last, was durable.
  if (recovered.current.generation == 1) VENEER_TRY(SyncDir(*store.sys, store.veneer));
  VENEER_ASSIGN(recovered.log, OpenLog(store, recovered.current, recovered.actions));
  VENEER_TRY(EndOpenTransactions(store, recovered.current, recovered.log, recovered.actions));
  VENEER_TRY(RemoveLitter(store, recovered.current, recovered.actions));
  return recovered;
}

Result<Recovered> RecoverWithoutPointer(const StoreContext& store) {
  const auto current = ReadCurrentFile(store);
  const Status whole = current ? CheckRecord(store, *current) : Status(std::unexpected(current.error()));
  if (whole) {
    // A whole one that the log has left behind is an old copy, and says as little as a damaged one.
    VENEER_ASSIGN(const AuditLog log, AuditLog::OpenLast(store));
    if (log.state().generation <= current->generation)
      return Fail(Code::EXPECTED_CURRENT, store.state.At(kCurrentName),
                  fmt::format("is whole and names generation {}; `veneer rollback --to N` goes to another one", current->generation));
  } else if (whole.error().code != Code::STATE_CORRUPT) {
    return Fail(whole.error());
  }
  Recovered recovered;
  VENEER_ASSIGN(const std::uint64_t highest, HighestGeneration(store));
  recovered.current.generation = std::max(highest, current ? current->generation : 0);  // its record may be what is missing
  const std::string last = std::to_string(recovered.current.generation);
  VENEER_ASSIGN(const auto record, ReadSmallFile(*store.sys, store.gen, last, kMaxRecordBytes));
  recovered.current.record = Sha256::Of(record.value_or(""));  // damaged or not: the chain goes on over these bytes
  VENEER_ASSIGN(recovered.log, OpenLog(store, recovered.current, recovered.actions));
  VENEER_TRY(EndWithoutPointer(store, recovered.log));
  return recovered;
}

}  // namespace veneer
