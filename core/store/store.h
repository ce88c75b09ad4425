// The store: blobs by digest, names, and the one composition that is active. It knows nothing of models, plugins or adapters; callers
// pass what they have validated. Layout, bytes and crash behaviour: LAYOUT.md.
//
//   PosixSys sys;
//   VENEER_ASSIGN(Store store, Store::Open(sys, path));
//   VENEER_ASSIGN(StagedBlob blob, store.StageFile(fd, "bard.gguf", progress));      // hashed, not yet visible
//   VENEER_TRY(store.Import({&blob, 1}, Ref{RefKind::kAdapter, "bard", record}));
//   VENEER_ASSIGN(Activation done, store.Activate(composition_id, std::nullopt, {.validate = …}));
#ifndef VENEER_CORE_STORE_STORE_H_
#define VENEER_CORE_STORE_STORE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/store/audit.h"
#include "core/store/blobs.h"
#include "core/store/follow.h"
#include "core/store/fsck.h"
#include "core/store/gc.h"
#include "core/store/layout.h"
#include "core/store/records.h"
#include "core/store/refs.h"
#include "core/store/transaction.h"

namespace veneer {

struct Recovered;

struct ImportOutcome {
  std::vector<Digest> added;     // new in the store
  std::vector<Digest> present;   // were there already, and are right
  std::vector<Digest> repaired;  // a bad file had the name; it was moved to quarantine/
  std::vector<std::string> warnings;
};

struct OpenedActive {
  Current current;
  OpenedComposition opened;
};

// A handle; cheap to open, holds no lock between calls. All calls may be made from several threads and processes at once: writers
// wait for each other (E601 after the timeout), readers wait only for garbage collection. `sys` outlives the handle. A lack of memory is
// E504 from every call, and nothing has changed; where something has, it is a success (W1, W2) or E604.
class Store {
 public:
  // Makes an empty store (generation 1, composition none) in a new or empty folder. E607 when one is there already.
  static Result<Store> Init(Sys& sys, const std::string& path, const StoreOptions& options = {});
  // E607 no store or a later format, E608 file system, E609 owner or permissions.
  static Result<Store> Open(Sys& sys, const std::string& path, const StoreOptions& options = {});

  [[nodiscard]] std::uint32_t threads() const { return context_->options.threads; }              // that hash a large blob
  [[nodiscard]] const std::vector<std::string>& warnings() const { return context_->warnings; }  // W4 VOLATILE_STORE

  // --- blobs -------------------------------------------------------------------------------------------------------------------
  // Copy and hash, outside all locks. The result can be inspected before it is imported.
  Result<StagedBlob> StageFile(const UniqueFd& source, const std::string& name, const Progress& progress = {}) const;
  Result<StagedBlob> StageBytes(std::string_view bytes) const;
  // All blobs and, if given, the name: one transaction. What was there already is proven by hashing it.
  Result<ImportOutcome> Import(std::span<const StagedBlob> blobs, const std::optional<Ref>& ref = std::nullopt);
  // Stage and import one blob without a name.
  Result<Digest> PutBlob(std::string_view bytes);
  Result<Digest> PutBlob(const UniqueFd& source, const std::string& name, const Progress& progress = {});

  // An open, proven blob. E301-E305 at blobs/sha256/<hex>, or at `at` when it is given.
  Result<OpenedBlob> OpenBlob(const Digest& digest, std::optional<std::uint64_t> size = std::nullopt, VerifyMode mode = VerifyMode::kStamp,
                              const Progress& progress = {}, const std::string& at = {}) const;
  // Whether a copy of a blob that this process has made hashes to the digest, by all threads. false says nothing of the copy (most often
  // that the store keeps no midstates of such a blob): then it is for the caller to hash it.
  [[nodiscard]] bool ProveCopy(const UniqueFd& copy, const Digest& digest, std::uint64_t size) const;
  // The bytes of a small blob (compositions, statements, configurations); E101 above `limit`.
  Result<std::string> ReadBlob(const Digest& digest, std::uint64_t limit) const;
  // A second descriptor of an opened blob, for what takes ownership (FileBytes::MapFd).
  Result<UniqueFd> Duplicate(const OpenedBlob& blob) const;
  // The same of a staged one, as it is now.
  Result<OpenedBlob> Duplicate(const StagedBlob& blob) const;

  // --- names -------------------------------------------------------------------------------------------------------------------
  Status PutRef(const Ref& ref);  // E205, E212
  // Forgets the name; what it named stays. False when there was none. `warnings` as of an import.
  Result<bool> RemoveRef(RefKind kind, const std::string& name, std::vector<std::string>& warnings);
  Result<Ref> GetRef(RefKind kind, const std::string& name) const;  // E301 no such name, E205, E602
  Result<std::vector<Ref>> ListRefs(RefKind kind) const;            // sorted by name

  // --- what is active ----------------------------------------------------------------------------------------------------------
  Result<Current> ReadCurrent() const;                                      // E602; composition is empty when none is active
  Result<GenerationRecord> ReadActiveRecord(const Current& current) const;  // E602 when it is not the one that the pointer names
  Result<GenerationRecord> ReadGeneration(std::uint64_t generation) const;  // E606 no such generation, E602
  Result<std::vector<AuditRecord>> ReadLog() const;                         // E610, E611
  // What a reader adopts: durable, open and proven. E605 when none is active.
  Result<OpenedActive> OpenActive(VerifyMode mode = VerifyMode::kStamp, const Progress& progress = {}) const;
  // Tells when another generation becomes current; adopt it with OpenActive. This handle outlives the result.
  [[nodiscard]] GenerationFollower Follow(std::chrono::milliseconds poll = std::chrono::milliseconds(500)) const {
    return GenerationFollower(*context_, poll);
  }
  // As OpenActive, for any stored composition.
  Result<OpenedComposition> OpenComposition(const Digest& id, VerifyMode mode = VerifyMode::kStamp, const Progress& progress = {}) const;

  // Codes of the three: E301-E306, E2xx, what `validate` returns, E601-E604, E606, E611-E614. On E604 this handle is closed for
  // writing (E614 from then on); open the store again, its first writer finds out which composition is active.
  Result<Activation> Activate(const Digest& composition, const std::optional<Digest>& statement, const SwitchOptions& options);
  // To the ancestor of the current generation, or to generation `to`. E606 when there is none.
  Result<Activation> Rollback(std::optional<std::uint64_t> to, const SwitchOptions& options);
  // Composition none: readers get E605.
  Result<Activation> Deactivate(const SwitchOptions& options);

  // When CURRENT is damaged, and only then (E613): makes active what a generation activated. Codes of Activate, E606.
  Result<Activation> SetCurrent(std::uint64_t generation, const SwitchOptions& options);
  // Gives a generation the composition name KeptName(generation), so that garbage collection leaves what it needs; and takes it away
  // again (false: it had none). E606, E605, E301-E305, E206 when another composition has the name. `warnings` as of an import.
  Status KeepGeneration(std::uint64_t generation, std::vector<std::string>& warnings);
  Result<bool> ReleaseGeneration(std::uint64_t generation, std::vector<std::string>& warnings);
  // Takes what nothing needs out of the store. Codes: see RunGc.
  Result<GcReport> CollectGarbage(const GcOptions& options);
  // Finds what is wrong, and with `repair` mends what can be mended without choosing a composition.
  Result<FsckReport> Fsck(const FsckOptions& options);

 private:
  explicit Store(StoreContext context);
  Status CheckWritable() const;  // E614
  void LogChange(Recovered& recovered, std::string_view event, CanonicalMembers members, std::vector<std::string>& warnings) const;
  Result<Activation> Watched(Result<Activation> activation);  // closes the handle on E604
  Result<Activation> Switch(const SwitchRequest& request, const SwitchOptions& options);

  std::unique_ptr<const StoreContext> context_;
  std::unique_ptr<std::atomic<bool>> closed_for_writing_;
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_STORE_H_
