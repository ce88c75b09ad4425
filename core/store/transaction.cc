#include "core/store/transaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/store/index.h"
#include "core/store/lock.h"
#include "core/store/recovery.h"
#include "core/store/staging.h"

namespace veneer {
namespace {

constexpr std::uint64_t kMaxCompositionBytes = 256 << 10;

std::string DigestText(const std::optional<Digest>& digest) { return digest ? digest->Text() : std::string(kNone); }

// What the request means while this generation is the current one.
struct Target {
  std::optional<Digest> composition, statement;
  std::uint64_t ancestor = 0;
};

Result<Target> ResolveRollback(const StoreContext& store, const SwitchRequest& request, const Current& current) {
  std::uint64_t generation = request.to_generation.value_or(0);
  if (!request.to_generation) {
    VENEER_ASSIGN(const StoredGeneration now, ReadGenerationFile(store, current.generation));
    generation = now.record.ancestor;
    if (generation == 0)
      return Fail(Code::NO_ROLLBACK_TARGET, store.gen.At(std::to_string(current.generation)),
                  "has nothing before it to go back to; activate a composition instead");
  }
  if (generation == 0 || generation > current.generation)
    return Fail(Code::NO_ROLLBACK_TARGET, store.gen.At(std::to_string(generation)),
                fmt::format("generations go from 1 to {}; `veneer log` lists them", current.generation));
  VENEER_ASSIGN(const StoredGeneration target, ReadGenerationFile(store, generation));
  return Target{target.record.composition, target.record.statement, target.record.ancestor};
}

Result<Target> Resolve(const StoreContext& store, const SwitchRequest& request, const Current& current) {
  if (request.op == GenerationOp::kRollback) return ResolveRollback(store, request, current);
  return Target{request.composition, request.statement, current.generation};
}

// The long part, before the lock: hash what no stamp covers, so that step 4 costs an fstat. Best effort; step 4 decides.
std::vector<OpenedBlob> VerifyAhead(const StoreContext& store, const SwitchRequest& request, const SwitchOptions& options) {
  const auto current = ReadCurrentFile(store);
  if (!current) return {};
  const auto target = Resolve(store, request, *current);
  if (!target || !target->composition || target->composition == current->composition) return {};
  const auto lock = StoreLock::ForReader(store);  // byte 1: no collection takes the files away meanwhile
  if (!lock) return {};
  auto opened = OpenComposition(store, *target->composition, target->statement, options.verify, {}, options.progress);
  return opened ? std::move(opened->blobs) : std::vector<OpenedBlob>();
}

Status CheckExpected(const Current& current, const std::optional<ExpectedCurrent>& expect) {
  if (!expect || expect->composition == current.composition) return {};
  return Fail(Code::EXPECTED_CURRENT, "veneer/state/CURRENT",
              fmt::format("{} is active, {} was expected; look at `veneer status` and decide again", DigestText(current.composition),
                          DigestText(expect->composition)));
}

// Steps 7 to 13 for one new generation. Each function is a row of the table in LAYOUT.md.
class Commit {
 public:
  Commit(const StoreContext& store, Recovered& recovered, GenerationRecord record, ActivationProgress& progress)
      : store_(store), sys_(*store.sys), log_(recovered.log), old_(recovered.current), record_(std::move(record)), progress_(progress) {}

  // All that a success needs is made before the commit point, so that no lack of memory can turn one into an error.
  Result<Activation> Run() {
    Activation activation{record_.generation, record_.composition, true, {}};
    activation.warnings.reserve(2);
    std::string unlogged = fmt::format("W1 AUDIT_DEFERRED at={} {}", store_.audit.path, kNoMemory);
    std::string stale = fmt::format("W2 INDEX_STALE at={} {}", kIndexName, kNoMemory);
    if (Status prepared = OrOutOfMemory([&] { return Prepare(); }); !prepared) {
      Undo(prepared.error());
      return Fail(std::move(prepared).error());
    }
    if (Status swapped = OrOutOfMemory([&] { return Swap(); }); !swapped) {
      if (undecided_ && swapped.error().code == Code::OUT_OF_MEMORY) return Fail(Code::DURABILITY_UNKNOWN, "", kNoMemory);
      return Fail(std::move(swapped).error());
    }
    if (!OrOutOfMemory([&] { return LogCommit(activation); })) activation.warnings.push_back(std::move(unlogged));
    if (!OrOutOfMemory([&] { return ShowInIndex(activation); })) activation.warnings.push_back(std::move(stale));
    return activation;
  }

 private:
  Status Prepare() {
    VENEER_TRY(progress_.Advance(ActivationState::kStaging));
    VENEER_TRY(LogBegin());
    begun_ = true;
    VENEER_TRY(WriteRecord());
    VENEER_TRY(WritePointer());
    return progress_.Advance(ActivationState::kReady);
  }

  // Step 7: the intent, durable before anything is visible. A crash after it: recovery writes `abort CRASHED`.
  Status LogBegin() {
    return log_.Append(store_, "begin",
                       {{"tx", CanonicalString(record_.tx)},
                        {"op", CanonicalString(GenerationOpName(record_.op))},
                        {"gen", CanonicalInteger(record_.generation)},
                        {"from", CanonicalString(record_.op == GenerationOp::kSetCurrent ? "unknown" : DigestText(old_.composition))},
                        {"to", CanonicalString(DigestText(record_.composition))}});
  }

  // Step 8: gen/N, whole and synced before it has a name; then the name. A crash after it: recovery removes gen/N, which is above
  // the current generation.
  Status WriteRecord() {
    const std::string text = PrintGeneration(record_);
    VENEER_ASSIGN(const StagedFile file, StagedFile::Create(store_, kPrivatePermissions, text));
    const std::string name = std::to_string(record_.generation);
    VENEER_ASSIGN(record_linked_, file.LinkInto(store_.gen, name));
    if (!record_linked_) return Fail(Code::STATE_CORRUPT, store_.gen.At(name), "a file has the name of the next generation");
    VENEER_TRY(SyncDir(sys_, store_.gen));
    new_ = {record_.generation, record_.composition, Sha256::Of(text), record_.tx};
    return {};
  }

  // Step 9: the next pointer beside the old one. A crash after it: recovery removes it with gen/N.
  Status WritePointer() {
    VENEER_ASSIGN(pointer_, WriteBeside(sys_, store_.state, kCurrentName, PrintCurrent(new_), kPrivatePermissions));
    return {};
  }

  // Steps 10 and 11. After the rename the new composition is visible; after the sync it is durable. In between nobody can know
  // which one a power cut leaves, so no error may claim that nothing has changed.
  Status Swap() {
    undecided_ = true;
    const auto renamed = sys_.Rename(store_.state.fd.get(), pointer_, store_.state.fd.get(), kCurrentName);
    if (!renamed) {
      // The call may have done its work and failed afterwards: what CURRENT says decides.
      const auto now = ReadCurrentFile(store_);
      if (now && now->tx != record_.tx) {
        undecided_ = false;
        const Error error = IoError(renamed.error(), store_.state.At(kCurrentName), "replace");
        Undo(error);
        return Fail(error);
      }
      if (!now) return Unknown(now.error());
    }
    VENEER_TRY(progress_.Advance(ActivationState::kSwapped));
    if (const Status durable = SyncDir(sys_, store_.state); !durable) return Unknown(durable.error());
    return progress_.Advance(ActivationState::kCommitted);
  }

  std::unexpected<Error> Unknown(const Error& cause) const {
    return Fail(Code::DURABILITY_UNKNOWN, store_.state.At(kCurrentName),
                fmt::format("{} is visible, but a power cut may take it back ({}); open the store again, it will find out",
                            DigestText(record_.composition), cause.Text()));
  }

  // Step 12: evidence. It can be made again from CURRENT, so its failure is a warning.
  Status LogCommit(Activation& activation) {
    const Status logged = log_.Append(store_, "commit",
                                      {{"tx", CanonicalString(record_.tx)},
                                       {"gen", CanonicalInteger(record_.generation)},
                                       {"composition", CanonicalString(DigestText(record_.composition))}});
    if (!logged) activation.warnings.push_back(fmt::format("W1 AUDIT_DEFERRED at={} {}", store_.audit.path, logged.error().Text()));
    return {};
  }

  // Step 13.
  Status ShowInIndex(Activation& activation) {
    if (std::string warning = UpdateIndexOrWarn(store_, new_); !warning.empty()) activation.warnings.push_back(std::move(warning));
    return {};
  }

  // Best effort: recovery does the same for what stays.
  void Undo(const Error& error) {
    (void)OrOutOfMemory([&] {
      progress_.Abort(error);
      if (!pointer_.empty()) (void)RemoveFile(sys_, store_.state, pointer_);
      if (record_linked_) (void)RemoveFile(sys_, store_.gen, std::to_string(record_.generation));
      if (!begun_) return Status();
      return log_.Append(
          store_, "abort",
          {{"tx", CanonicalString(record_.tx)}, {"code", CanonicalString(fmt::format("E{}", static_cast<int>(error.code)))}});
    });
  }

  const StoreContext& store_;
  Sys& sys_;
  AuditLog& log_;
  Current old_, new_;
  GenerationRecord record_;
  ActivationProgress& progress_;
  bool begun_ = false;
  bool record_linked_ = false;
  bool undecided_ = false;  // the rename was asked for, and nobody has seen that it did not happen
  std::string pointer_;     // name beside CURRENT
};

Result<GenerationRecord> NextRecord(const StoreContext& store, const Current& current, GenerationOp op, const Target& target,
                                    VerifyMode verify) {
  GenerationRecord record;
  record.generation = current.generation + 1;
  record.op = op;
  record.composition = target.composition;
  record.statement = target.statement;
  record.ancestor = target.ancestor;
  if (current.generation > 0) record.prev_record = current.record;
  VENEER_ASSIGN(record.tx, RandomHex(*store.sys, 16));
  record.verify = verify;
  record.build = store.options.build;
  record.time = FormatTime(store.sys->WallClockNs());
  return record;
}

// The blobs that a switch brings along. A switch that is refused takes out again what it put in, best effort: an error changes nothing,
// and what stays for lack of luck, gc removes.
class BroughtBlobs {
 public:
  explicit BroughtBlobs(const StoreContext& store) : store_(store) {}
  BroughtBlobs(const BroughtBlobs&) = delete;
  BroughtBlobs& operator=(const BroughtBlobs&) = delete;
  ~BroughtBlobs() {
    for (const Digest& digest : added_) (void)OrOutOfMemory([&] { return RemoveFile(*store_.sys, store_.blobs, digest.Hex()); });
  }

  Status Place(std::span<const StagedBlob> blobs) {
    added_.reserve(blobs.size());
    for (const StagedBlob& blob : blobs) {
      VENEER_ASSIGN(const Placement placement, PlaceBlob(store_, blob));
      if (placement == Placement::kNew) added_.push_back(blob.digest());
    }
    return {};
  }
  void Keep() { added_.clear(); }

 private:
  const StoreContext& store_;
  std::vector<Digest> added_;
};

// Steps 4 to 13.
Result<Activation> ProveAndCommit(const StoreContext& store, Recovered& recovered, GenerationOp op, const Target& target,
                                  const SwitchOptions& options, std::vector<OpenedBlob> verified, ActivationProgress& progress) {
  VENEER_TRY(progress.Advance(ActivationState::kValidating));
  BroughtBlobs brought(store);
  VENEER_TRY(brought.Place(options.place));
  std::optional<OpenedComposition> opened;  // keeps the proven files open until the end
  if (target.composition) {
    // Step 4: every blob, proven through the descriptor that stays open. E301-E305, nothing changed.
    VENEER_ASSIGN(opened,
                  OpenComposition(store, *target.composition, target.statement, options.verify, std::move(verified), options.progress));
    // A file that can be opened may still lose its name in a power cut: whoever linked it may have died before the sync.
    VENEER_TRY(SyncDir(*store.sys, store.blobs));
    // Steps 5 and 6: trust, headers, shapes, budget: the caller's. E4xx, E5xx, E7xx, nothing changed.
    if (options.validate) VENEER_TRY(options.validate(*opened));
  }
  VENEER_ASSIGN(GenerationRecord record, NextRecord(store, recovered.current, op, target, options.verify));
  if (opened)
    for (const OpenedBlob& blob : opened->blobs)
      if (blob.verity) record.verity[blob.digest] = *blob.verity;
  auto activation = Commit(store, recovered, std::move(record), progress).Run();  // steps 7 to 13; step 14 is the caller's
  if (activation || activation.error().code == Code::DURABILITY_UNKNOWN) brought.Keep();
  return activation;
}

Result<Activation> SwitchLocked(const StoreContext& store, const SwitchRequest& request, const SwitchOptions& options,
                                std::vector<OpenedBlob> verified, ActivationProgress& progress) {
  // Step 1: byte 0. E601, nothing changed.
  VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(store));
  // Step 2: end what a crash left open. E602 or E603, nothing changed.
  VENEER_ASSIGN(Recovered recovered, Recover(store));
  const Current& current = recovered.current;
  // Step 3: a retry must never destroy the rollback target, so the active composition is not activated again.
  VENEER_ASSIGN(const Target target, Resolve(store, request, current));
  progress.SetComposition(target.composition);
  if (target.composition == current.composition) {
    VENEER_TRY(progress.Advance(ActivationState::kCommitted));
    Activation unchanged{current.generation, current.composition, false, {}};
    if (std::string warning = UpdateIndexOrWarn(store, current); !warning.empty()) unchanged.warnings.push_back(std::move(warning));
    return unchanged;
  }
  VENEER_TRY(CheckExpected(current, options.expect));
  return ProveAndCommit(store, recovered, request.op, target, options, std::move(verified), progress);
}

Result<Activation> SetCurrentLocked(const StoreContext& store, std::uint64_t generation, const SwitchOptions& options,
                                    ActivationProgress& progress) {
  VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(store));
  VENEER_ASSIGN(const StoredGeneration chosen, ReadGenerationFile(store, generation));
  VENEER_ASSIGN(Recovered recovered, RecoverWithoutPointer(store));
  const Target target{chosen.record.composition, chosen.record.statement, chosen.record.ancestor};
  progress.SetComposition(target.composition);
  return ProveAndCommit(store, recovered, GenerationOp::kSetCurrent, target, options, {}, progress);
}

// Whatever ends it, a lack of memory too, is the last state that is reported.
template <class Body>
Result<Activation> Reported(ActivationProgress& progress, Body&& body) {
  auto activation = OrOutOfMemory(std::forward<Body>(body));
  if (!activation) progress.Abort(activation.error());
  return activation;
}

}  // namespace

const OpenedBlob* OpenedComposition::Find(const Digest& digest) const {
  const auto found = std::ranges::find(blobs, digest, &OpenedBlob::digest);
  return found == blobs.end() ? nullptr : &*found;
}

Result<OpenedComposition> OpenComposition(const StoreContext& store, const Digest& id, const std::optional<Digest>& statement,
                                          VerifyMode mode, std::vector<OpenedBlob> verified, const Progress& progress) {
  OpenedComposition opened;
  opened.id = id;
  VENEER_ASSIGN(opened.canonical, ReadBlob(store, {"/composition", id, std::nullopt}, kMaxCompositionBytes));
  VENEER_ASSIGN(opened.composition, Composition::Parse(opened.canonical));
  VENEER_ASSIGN(std::vector<BlobRef> blobs, ReferencedBlobs(store, opened.composition));
  if (statement) blobs.push_back({"/statement", *statement, std::nullopt});
  VENEER_ASSIGN(opened.blobs, OpenAndVerify(store, blobs, mode, std::move(verified), progress));
  return opened;
}

Result<Activation> RunSwitch(const StoreContext& store, const SwitchRequest& request, const SwitchOptions& options) {
  ActivationProgress progress(*store.sys, options.transitions, request.composition);
  return Reported(progress, [&] { return SwitchLocked(store, request, options, VerifyAhead(store, request, options), progress); });
}

Result<Activation> RunSetCurrent(const StoreContext& store, std::uint64_t generation, const SwitchOptions& options) {
  ActivationProgress progress(*store.sys, options.transitions, std::nullopt);
  return Reported(progress, [&] { return SetCurrentLocked(store, generation, options, progress); });
}

Result<std::vector<std::string>> RunInit(const StoreContext& store) {
  std::vector<std::string> warnings;
  VENEER_TRY(StoreLock::Create(store));
  VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(store));
  VENEER_TRY(AuditLog::CreateFirst(store));
  VENEER_ASSIGN(Recovered recovered, Recover(store, PointerRule::kMayBeAbsent));
  if (recovered.current.generation == 0) {
    ActivationProgress progress(*store.sys, {}, std::nullopt);
    VENEER_TRY(progress.Advance(ActivationState::kValidating));
    VENEER_ASSIGN(GenerationRecord record, NextRecord(store, recovered.current, GenerationOp::kInit, {}, VerifyMode::kStamp));
    VENEER_ASSIGN(const Activation made, Commit(store, recovered, std::move(record), progress).Run());
    warnings = made.warnings;
    VENEER_ASSIGN(recovered.current, ReadCurrentFile(store));
  }
  VENEER_TRY(UpdateIndex(store, recovered.current));
  VENEER_TRY(WriteFormat(store));
  return warnings;
}

}  // namespace veneer
