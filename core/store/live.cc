#include "core/store/live.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/format/json.h"
#include "core/manifest/canonical.h"
#include "core/manifest/fields.h"
#include "core/store/blobs.h"

namespace veneer {
namespace {

// Gathers roots first, then what they name: each composition and statement is read once, however many generations share it.
class LiveBlobs {
 public:
  explicit LiveBlobs(const StoreContext& store) : store_(store) {}

  Status AddGenerations(std::uint64_t current) {
    VENEER_ASSIGN(const RetainedGenerations retained, ReadRetained(store_, current));
    for (const auto& [generation, stored] : retained) {
      if (stored.record.composition) compositions_.insert(*stored.record.composition);
      if (stored.record.statement) statements_.insert(*stored.record.statement);
    }
    return {};
  }

  Status AddNames() {
    for (const RefKind kind : kRefKinds) {
      VENEER_ASSIGN(const std::vector<Ref> refs, ReadRefs(store_, kind));
      for (const Ref& ref : refs) AddName(ref);
    }
    return {};
  }

  Result<std::set<Digest>> Resolve() {
    for (const Digest& id : compositions_) {
      VENEER_ASSIGN(const std::string text, ReadBlob(store_, {store_.blobs.At(id.Hex()), id, std::nullopt}, kMaxCompositionBytes));
      VENEER_ASSIGN(const Composition composition, Composition::Parse(text));
      live_.insert(id);
      VENEER_ASSIGN(const std::vector<BlobRef> blobs, ReferencedBlobs(store_, composition));
      for (const BlobRef& blob : blobs) live_.insert(blob.digest);
    }
    for (const Digest& id : statements_) {
      VENEER_ASSIGN(const std::string text, ReadBlob(store_, {store_.blobs.At(id.Hex()), id, std::nullopt}, kMaxStatementBytes));
      live_.insert(id);
      for (const Digest& digest : DigestsIn(text)) live_.insert(digest);
    }
    return std::move(live_);
  }

 private:
  void AddName(const Ref& ref) {
    const auto composition = ref.kind == RefKind::kComposition ? CompositionOf(ref.record) : std::nullopt;
    if (composition) compositions_.insert(*composition);
    for (const Digest& digest : DigestsIn(ref.record)) {
      // What a composition's name holds beside the composition is its statement.
      if (composition && digest != *composition) statements_.insert(digest);
      live_.insert(digest);
    }
  }

  const StoreContext& store_;
  std::set<Digest> compositions_, statements_, live_;
};

}  // namespace

Result<RetainedGenerations> ReadRetained(const StoreContext& store, std::uint64_t current) {
  RetainedGenerations retained;
  const std::uint64_t oldest = current > kRetainedGenerations ? current - kRetainedGenerations : 1;
  for (std::uint64_t generation = current; generation >= oldest; --generation) {
    VENEER_ASSIGN(StoredGeneration stored, ReadGenerationFile(store, generation));
    retained.emplace(generation, std::move(stored));
  }
  std::uint64_t target = current;
  for (std::uint64_t step = 0; step < kRetainedGenerations && target != 0; ++step) {
    target = retained.at(target).record.ancestor;
    if (target == 0) break;
    if (retained.contains(target)) continue;
    VENEER_ASSIGN(StoredGeneration stored, ReadGenerationFile(store, target));
    // The composition may be there again without the statement, when it was made once more under another one.
    const auto is_gone = [&store](const std::optional<Digest>& id) {
      return id && !OpenBlobFile(store, {store.blobs.At(id->Hex()), *id, std::nullopt});
    };
    if (is_gone(stored.record.composition) || is_gone(stored.record.statement)) break;
    retained.emplace(target, std::move(stored));
  }
  return retained;
}

std::string KeptName(std::uint64_t generation) { return fmt::format("kept-{}", generation); }

Result<Ref> NameToKeep(const StoreContext& store, std::uint64_t generation) {
  VENEER_ASSIGN(const StoredGeneration stored, ReadGenerationFile(store, generation));
  const GenerationRecord& record = stored.record;
  if (!record.composition)
    return Fail(Code::NO_ACTIVE, store.gen.At(std::to_string(generation)), "has no composition; there is nothing to keep");
  VENEER_ASSIGN(const std::string text, ReadBlob(store, {"/composition", *record.composition, std::nullopt}, kMaxCompositionBytes));
  VENEER_ASSIGN(const Composition composition, Composition::Parse(text));
  VENEER_ASSIGN(std::vector<BlobRef> blobs, ReferencedBlobs(store, composition));
  if (record.statement) blobs.push_back({"/statement", *record.statement, std::nullopt});
  for (const BlobRef& blob : blobs) VENEER_TRY(OpenBlobFile(store, blob));
  CanonicalMembers members{{"composition", CanonicalString(record.composition->Text())}, {"generation", CanonicalInteger(generation)}};
  if (record.statement) members["statement"] = CanonicalString(record.statement->Text());
  return Ref{RefKind::kComposition, KeptName(generation), CanonicalObject(members)};
}

bool IsKept(const Ref& ref) {
  const auto json = ParseJson(ref.record, kRefLimits);
  return ref.kind == RefKind::kComposition && json && json->Find("generation") != nullptr;
}

Result<std::set<Digest>> FindLiveBlobs(const StoreContext& store, const Current& current) {
  LiveBlobs live(store);
  VENEER_TRY(live.AddGenerations(current.generation));
  VENEER_TRY(live.AddNames());
  return live.Resolve();
}

}  // namespace veneer
