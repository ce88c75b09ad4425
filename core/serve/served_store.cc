#include "core/serve/served_store.h"

#include <algorithm>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/compose/store_source.h"
#include "core/compose/validate.h"
#include "core/decode/plan.h"

namespace veneer {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStopLatency{50};  // of Follow; also the pause after E615

}  // namespace

ServedStore::ServedStore(const Store& store, const Catalog& catalog, const ServeOptions& options, std::uint64_t process_bytes)
    : store_(&store),
      catalog_(&catalog),
      options_(options),
      process_bytes_(process_bytes),
      active_(nullptr, {options.memory_budget, process_bytes}) {}

Result<std::unique_ptr<ServedStore>> ServedStore::Open(const Store& store, const Catalog& catalog, const ServeOptions& options) {
  std::unique_ptr<ServedStore> served(new ServedStore(store, catalog, options, ProcessBytes()));
  VENEER_TRY(served->Adopt());
  return served;
}

ServingStatus ServedStore::status() const {
  const std::lock_guard lock(status_mutex_);
  return status_;
}

template <class Change>
void ServedStore::Update(const Change& change) {
  const std::lock_guard lock(status_mutex_);
  change(status_);
  ++status_changes_;
}

Result<bool> ServedStore::Adopt() {
  const std::lock_guard lock(adopt_mutex_);
  auto adopted = OrOutOfMemory([this] { return AdoptLocked(); }, "adoption");
  const ServingStatus before = status();
  if (!adopted && (!before.error || before.error->Text() != adopted.error().Text()))
    Update([&](ServingStatus& status) { status.error = adopted.error(); });
  return adopted;
}

Result<bool> ServedStore::AdoptLocked() {
  VENEER_ASSIGN(const Current seen, store_->ReadCurrent());
  const ServingStatus before = status();
  if (seen.generation == before.served_generation) {
    if (before.error) Update([](ServingStatus& status) { status.error.reset(); });
    return false;
  }
  if (seen.generation != before.wanted_generation)
    Update([&](ServingStatus& status) {
      status.wanted_generation = seen.generation;
      status.wanted = seen.composition;
    });
  // Syncs state/ first: what a power cut could take back is not adopted.
  auto opened = store_->OpenActive();
  if (!opened && opened.error().code == Code::NO_ACTIVE) {
    if (seen.composition) return false;  // went just now; the next look says what is there
    return Serve(seen, nullptr);
  }
  if (!opened) return Fail(std::move(opened).error());
  const std::shared_ptr<const StagedComposition> served = active_.Current();
  if (served != nullptr && served->id() == opened->opened.id) return Serve(opened->current, served);
  if (pending_ == nullptr || pending_->id() != opened->opened.id) {
    pending_.reset();  // its memory first
    VENEER_ASSIGN(pending_, Load(*opened));
  }
  return Serve(opened->current, pending_);
}

// What stays held while and after the new composition is staged. Decodes of the old one run beside new ones only under kKeep; otherwise
// the larger of both counts.
std::uint64_t ServedStore::HeldBeside(const Base& base, const Decoder::Memory& decoder) const {
  const ActiveComposition::Held held = active_.Holds(&base);
  const std::uint64_t own = decoder.scratch_bytes + decoder.kv_bytes;
  const std::uint64_t decodes =
      options_.policy == SwitchPolicy::kKeep ? held.decode_bytes : held.decode_bytes - std::min(held.decode_bytes, own);
  return held.composition_bytes + decodes;
}

Result<std::shared_ptr<const StagedComposition>> ServedStore::Load(const OpenedActive& opened) {
  StoreSource source(*store_, &opened.opened);
  if (const auto served = active_.Current()) source.Hold(served->shared_base(), served->composition().base_model_hash);
  VENEER_ASSIGN(const ValidatedComposition validated, ValidateComposition(opened.opened.composition, source, *catalog_));
  const Base& base = *validated.base();
  VENEER_ASSIGN(BoundComposition bound, Bind(validated, *catalog_, options_.stage));
  MemoryPlan plan = PlanMemory(base, bound.cost(), options_.stage.mode, options_.decoder);
  // Counted, not measured: what is resident now holds the composition in force as far as it was touched.
  plan.runtime_bytes = process_bytes_ + base.overhead_bytes() + HeldBeside(base, {plan.scratch_bytes, plan.kv_bytes});
  VENEER_ASSIGN(StagedPlan within, StageWithin(std::move(bound), plan, options_.decoder, options_.memory_budget));
  return std::move(within.staged);
}

void ServedStore::Remember(const std::shared_ptr<const StagedComposition>& composition, std::uint64_t generation) {
  const std::lock_guard lock(status_mutex_);
  std::erase_if(generations_, [&](const auto& one) { return one.first.expired() || one.first.lock() == composition; });
  generations_.emplace_back(composition, generation);
}

std::uint64_t ServedStore::GenerationOf(const StagedComposition& composition) const {
  const std::lock_guard lock(status_mutex_);
  const auto found = std::ranges::find_if(generations_, [&](const auto& one) { return one.first.lock().get() == &composition; });
  return found == generations_.end() ? 0 : found->second;
}

Result<bool> ServedStore::Serve(const Current& current, std::shared_ptr<const StagedComposition> next) {
  if (next != nullptr) Remember(next, current.generation);  // before anyone can lease it
  // The same composition under another number needs no switch, and ends no decode.
  if (next != active_.Current()) VENEER_TRY(active_.Switch(std::move(next), options_.policy, options_.patience));
  pending_.reset();
  Update([&](ServingStatus& status) {
    status.served_generation = status.wanted_generation = current.generation;
    status.served = status.wanted = current.composition;
    status.error.reset();
  });
  return true;
}

void ServedStore::Follow(const std::stop_token& stop, const std::function<void(const ServingStatus&)>& on_status) {
  using Clock = std::chrono::steady_clock;
  GenerationFollower follower = store_->Follow();
  std::uint64_t reported = 0;
  Clock::time_point last_try = Clock::now();
  while (!stop.stop_requested()) {
    const ServingStatus before = status();
    const auto seen = follower.Wait(before.wanted_generation, kStopLatency);
    if (before.polls_because != follower.polls_because())
      Update([&](ServingStatus& status) { status.polls_because = follower.polls_because(); });
    const milliseconds pause = before.error && before.error->code == Code::BUSY ? kStopLatency : options_.retry;
    if (!seen || *seen || ((before.error || before.served_generation != before.wanted_generation) && Clock::now() - last_try >= pause)) {
      last_try = Clock::now();
      (void)Adopt();  // status() has what became of it
    }
    std::uint64_t changes = 0;
    {
      const std::lock_guard lock(status_mutex_);
      changes = status_changes_;
    }
    if (on_status && changes != reported) on_status(status());
    reported = changes;
  }
}

}  // namespace veneer
