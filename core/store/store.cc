#include "core/store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/store/index.h"
#include "core/store/live.h"
#include "core/store/lock.h"
#include "core/store/midstates.h"
#include "core/store/recovery.h"

namespace veneer {
Store::Store(StoreContext context)
    : context_(std::make_unique<const StoreContext>(std::move(context))), closed_for_writing_(std::make_unique<std::atomic<bool>>(false)) {}

Result<Store> Store::Init(Sys& sys, const std::string& path, const StoreOptions& options) {
  return OrOutOfMemory([&]() -> Result<Store> {
    VENEER_ASSIGN(const StoreContext context, CreateLayout(sys, path, options));
    VENEER_ASSIGN(const std::vector<std::string> warnings, RunInit(context));
    VENEER_ASSIGN(StoreContext opened, OpenLayout(sys, path, options));
    opened.warnings.insert(opened.warnings.end(), warnings.begin(), warnings.end());
    return Store(std::move(opened));
  });
}

Result<Store> Store::Open(Sys& sys, const std::string& path, const StoreOptions& options) {
  return OrOutOfMemory([&]() -> Result<Store> {
    VENEER_ASSIGN(StoreContext context, OpenLayout(sys, path, options));
    return Store(std::move(context));
  });
}

Status Store::CheckWritable() const {
  if (!*closed_for_writing_) return {};
  return Fail(Code::HANDLE_CLOSED, "", "an earlier activation ended with E604; open the store again");
}

Result<StagedBlob> Store::StageFile(const UniqueFd& source, const std::string& name, const Progress& progress) const {
  return OrOutOfMemory([&]() -> Result<StagedBlob> { return veneer::StageFile(*context_, source, name, progress); });
}

Result<StagedBlob> Store::StageBytes(std::string_view bytes) const {
  return OrOutOfMemory([&] { return veneer::StageBytes(*context_, bytes); });
}

Result<ImportOutcome> Store::Import(std::span<const StagedBlob> blobs, const std::optional<Ref>& ref) {
  return OrOutOfMemory([&]() -> Result<ImportOutcome> {
    VENEER_TRY(CheckWritable());
    if (ref) VENEER_TRY(CheckRef(*ref));
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(*context_));
    VENEER_ASSIGN(Recovered recovered, Recover(*context_));
    ImportOutcome outcome;
    for (const StagedBlob& blob : blobs) {
      VENEER_ASSIGN(const Placement placement, PlaceBlob(*context_, blob));
      auto& list = placement == Placement::kNew ? outcome.added : placement == Placement::kPresent ? outcome.present : outcome.repaired;
      list.push_back(blob.digest());
    }
    // Also for blobs that were there, and those that the name needs: whoever linked them may have died before this.
    VENEER_TRY(SyncDir(*context_->sys, context_->blobs));
    for (const StagedBlob& blob : blobs)  // of one that was present they were read or left when it was proven
      if (std::ranges::find(outcome.present, blob.digest()) == outcome.present.end())
        WriteMidstates(*context_, blob.digest(), blob.size(), blob.midstates());
    CanonicalMembers members{{"blobs", CanonicalString(fmt::format("{}", blobs.size()))}};
    if (ref) {
      members["ref"] = CanonicalString(fmt::format("{}/{}", RefKindName(ref->kind), ref->name));
      VENEER_TRY(WriteRef(*context_, *ref));
    }
    LogChange(recovered, blobs.empty() ? "ref" : "import", std::move(members), outcome.warnings);
    return outcome;
  });
}

// After the change itself, which stands whatever becomes of its record, of the index, and of a warning for which there is no memory.
void Store::LogChange(Recovered& recovered, std::string_view event, CanonicalMembers members, std::vector<std::string>& warnings) const {
  (void)OrOutOfMemory([&]() -> Status {
    if (const Status logged = recovered.log.Append(*context_, event, std::move(members)); !logged)
      warnings.push_back(fmt::format("W1 AUDIT_DEFERRED at={} {}", context_->audit.path, logged.error().Text()));
    if (std::string warning = UpdateIndexOrWarn(*context_, recovered.current); !warning.empty()) warnings.push_back(std::move(warning));
    return {};
  });
}

Result<Digest> Store::PutBlob(std::string_view bytes) {
  VENEER_ASSIGN(const StagedBlob blob, StageBytes(bytes));
  VENEER_TRY(Import({&blob, 1}));
  return blob.digest();
}

Result<Digest> Store::PutBlob(const UniqueFd& source, const std::string& name, const Progress& progress) {
  VENEER_ASSIGN(const StagedBlob blob, StageFile(source, name, progress));
  VENEER_TRY(Import({&blob, 1}));
  return blob.digest();
}

Result<OpenedBlob> Store::OpenBlob(const Digest& digest, std::optional<std::uint64_t> size, VerifyMode mode, const Progress& progress,
                                   const std::string& at) const {
  return OrOutOfMemory([&]() -> Result<OpenedBlob> {
    const BlobRef blob{at.empty() ? context_->blobs.At(digest.Hex()) : at, digest, size};
    // Held while it is hashed: a collection that moves the file meanwhile changes its times, and it would look written to.
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForReader(*context_));
    VENEER_ASSIGN(OpenedBlob opened, OpenBlobFile(*context_, blob));
    std::uint64_t done = 0;
    const auto step = [&](std::uint64_t bytes) {
      done += bytes;
      if (progress) progress(done, opened.size);
    };
    VENEER_TRY(VerifyBlob(*context_, opened, mode, step));
    return opened;
  });
}

bool Store::ProveCopy(const UniqueFd& copy, const Digest& digest, std::uint64_t size) const {
  const auto proven = OrOutOfMemory([&]() -> Result<bool> {
    const auto midstates = ReadMidstates(*context_, digest, size);
    return midstates && ProveByMidstates(*context_->sys, copy, digest, size, *midstates, context_->options.threads, {});
  });
  return proven.value_or(false);
}

Result<std::string> Store::ReadBlob(const Digest& digest, std::uint64_t limit) const {
  return OrOutOfMemory([&]() -> Result<std::string> {
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForReader(*context_));
    return veneer::ReadBlob(*context_, {context_->blobs.At(digest.Hex()), digest, std::nullopt}, limit);
  });
}

Result<UniqueFd> Store::Duplicate(const OpenedBlob& blob) const {
  return OrOutOfMemory([&]() -> Result<UniqueFd> {
    auto copy = context_->sys->Duplicate(blob.fd.get());
    if (!copy) return Fail(IoError(copy.error(), blob.at, "duplicate a descriptor"));
    return *std::move(copy);
  });
}

Result<OpenedBlob> Store::Duplicate(const StagedBlob& blob) const {
  return OrOutOfMemory([&]() -> Result<OpenedBlob> {
    OpenedBlob copy{context_->staging.path, blob.digest(), blob.size(), {}, {}};
    auto fd = context_->sys->Duplicate(blob.fd().get());
    if (!fd) return Fail(IoError(fd.error(), copy.at, "duplicate a descriptor"));
    const auto info = context_->sys->Stat(fd->get());
    if (!info) return Fail(IoError(info.error(), copy.at, "stat"));
    copy.fd = *std::move(fd);
    copy.info = *info;
    return copy;
  });
}

Status Store::PutRef(const Ref& ref) {
  return OrOutOfMemory([&]() -> Status {
    VENEER_TRY(Import({}, ref));
    return {};
  });
}

Result<bool> Store::RemoveRef(RefKind kind, const std::string& name, std::vector<std::string>& warnings) {
  return OrOutOfMemory([&]() -> Result<bool> {
    VENEER_TRY(CheckWritable());
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(*context_));
    VENEER_ASSIGN(Recovered recovered, Recover(*context_));
    CanonicalMembers members{{"ref", CanonicalString(fmt::format("{}/{}", RefKindName(kind), name))}};
    VENEER_ASSIGN(const bool removed, veneer::RemoveRef(*context_, kind, name));
    if (!removed) return false;
    LogChange(recovered, "unref", std::move(members), warnings);
    return true;
  });
}

Result<Ref> Store::GetRef(RefKind kind, const std::string& name) const {
  return OrOutOfMemory([&] { return ReadRef(*context_, kind, name); });
}

Result<std::vector<Ref>> Store::ListRefs(RefKind kind) const {
  return OrOutOfMemory([&] { return ReadRefs(*context_, kind); });
}

Result<Current> Store::ReadCurrent() const {
  return OrOutOfMemory([&] { return ReadCurrentFile(*context_); });
}

Result<GenerationRecord> Store::ReadActiveRecord(const Current& current) const {
  return OrOutOfMemory([&] { return veneer::ReadActiveRecord(*context_, current); });
}

Result<GenerationRecord> Store::ReadGeneration(std::uint64_t generation) const {
  return OrOutOfMemory([&]() -> Result<GenerationRecord> {
    VENEER_ASSIGN(StoredGeneration stored, ReadGenerationFile(*context_, generation));
    return std::move(stored.record);
  });
}

Result<std::vector<AuditRecord>> Store::ReadLog() const {
  return OrOutOfMemory([&] { return ReadAudit(*context_); });
}

Result<OpenedActive> Store::OpenActive(VerifyMode mode, const Progress& progress) const {
  return OrOutOfMemory([&]() -> Result<OpenedActive> {
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForReader(*context_));
    // A pointer that a power cut could still take back is not adopted.
    VENEER_TRY(SyncDir(*context_->sys, context_->state));
    OpenedActive active;
    VENEER_ASSIGN(active.current, ReadCurrentFile(*context_));
    if (!active.current.composition)
      return Fail(Code::NO_ACTIVE, context_->state.At(kCurrentName), "no composition is active; activate one with `veneer activate`");
    VENEER_ASSIGN(active.opened, veneer::OpenComposition(*context_, *active.current.composition, std::nullopt, mode, {}, progress));
    return active;
  });
}

Result<OpenedComposition> Store::OpenComposition(const Digest& id, VerifyMode mode, const Progress& progress) const {
  return OrOutOfMemory([&]() -> Result<OpenedComposition> {
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForReader(*context_));
    return veneer::OpenComposition(*context_, id, std::nullopt, mode, {}, progress);
  });
}

Result<Activation> Store::Watched(Result<Activation> activation) {
  if (!activation && activation.error().code == Code::DURABILITY_UNKNOWN) *closed_for_writing_ = true;
  return activation;
}

Result<Activation> Store::Switch(const SwitchRequest& request, const SwitchOptions& options) {
  VENEER_TRY(OrOutOfMemory([&] { return CheckWritable(); }));
  return Watched(OrOutOfMemory([&] { return RunSwitch(*context_, request, options); }));
}

Result<Activation> Store::SetCurrent(std::uint64_t generation, const SwitchOptions& options) {
  VENEER_TRY(OrOutOfMemory([&] { return CheckWritable(); }));
  return Watched(OrOutOfMemory([&] { return RunSetCurrent(*context_, generation, options); }));
}

Result<Activation> Store::Activate(const Digest& composition, const std::optional<Digest>& statement, const SwitchOptions& options) {
  return Switch({GenerationOp::kActivate, composition, statement, std::nullopt}, options);
}

Result<Activation> Store::Rollback(std::optional<std::uint64_t> to, const SwitchOptions& options) {
  return Switch({GenerationOp::kRollback, std::nullopt, std::nullopt, to}, options);
}

Result<Activation> Store::Deactivate(const SwitchOptions& options) {
  return Switch({GenerationOp::kDeactivate, std::nullopt, std::nullopt, std::nullopt}, options);
}

Status Store::KeepGeneration(std::uint64_t generation, std::vector<std::string>& warnings) {
  return OrOutOfMemory([&]() -> Status {
    VENEER_TRY(CheckWritable());
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(*context_));
    VENEER_ASSIGN(Recovered recovered, Recover(*context_));
    VENEER_ASSIGN(const Ref name, NameToKeep(*context_, generation));
    const auto taken = ReadRef(*context_, name.kind, name.name);
    if (taken && !IsKept(*taken))
      return Fail(Code::NAME_DUPLICATE, name.name, "is the name of a composition that was sealed under it; give that one another name");
    CanonicalMembers members{{"ref", CanonicalString(fmt::format("{}/{}", RefKindName(name.kind), name.name))}};
    VENEER_TRY(WriteRef(*context_, name));
    LogChange(recovered, "ref", std::move(members), warnings);
    return {};
  });
}

Result<bool> Store::ReleaseGeneration(std::uint64_t generation, std::vector<std::string>& warnings) {
  return OrOutOfMemory([&]() -> Result<bool> {
    const auto kept = GetRef(RefKind::kComposition, KeptName(generation));
    if (!kept && kept.error().code != Code::BLOB_MISSING) return Fail(kept.error());
    if (!kept || !IsKept(*kept)) return false;
    return RemoveRef(RefKind::kComposition, KeptName(generation), warnings);
  });
}

Result<GcReport> Store::CollectGarbage(const GcOptions& options) {
  return OrOutOfMemory([&]() -> Result<GcReport> {
    VENEER_TRY(CheckWritable());
    return RunGc(*context_, options);
  });
}

Result<FsckReport> Store::Fsck(const FsckOptions& options) {
  return OrOutOfMemory([&]() -> Result<FsckReport> {
    if (options.repair) VENEER_TRY(CheckWritable());
    return RunFsck(*context_, options);
  });
}

}  // namespace veneer
