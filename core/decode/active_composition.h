// The composition that a process decodes under: switched in one step, leased by each decode from its start to its end, freed with its
// last holder.
//
//   ActiveComposition active(first);
//   VENEER_ASSIGN(const ActiveDecode decode, BeginDecode(active, options));
//   VENEER_TRY(Generate(*decode.decoder, …));      // meanwhile, on another thread:
//   VENEER_ASSIGN(const auto previous, active.Switch(next, SwitchPolicy::kDrain, 30s));
#ifndef VENEER_CORE_DECODE_ACTIVE_COMPOSITION_H_
#define VENEER_CORE_DECODE_ACTIVE_COMPOSITION_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/compose/staged_composition.h"
#include "core/decode/decoder.h"

namespace veneer {

// What a switch does about the decodes that are in flight, under whichever composition. After all but kKeep, no decode that goes on
// is under another composition than the new one.
enum class SwitchPolicy {
  kAbort,   // they end at their next layer or token with E616; what they have made so far is theirs
  kReject,  // the switch is refused (E615)
  kDrain,   // the switch waits until they have ended, and new ones wait for the switch
  kKeep,    // they go on under their own composition; memory must suffice for both (E501)
};
std::string_view SwitchPolicyName(SwitchPolicy policy);                // "abort", …
std::optional<SwitchPolicy> ParseSwitchPolicy(std::string_view name);  // nothing for any other word
inline constexpr std::chrono::milliseconds kSwitchPatience{60'000};    // how long callers wait when they do not say

// What compositions and decodes in a process may hold. `process_bytes`: the process itself, as PlanMemory's runtime term.
struct MemoryAllowance {
  std::uint64_t budget_bytes = UINT64_MAX;
  std::uint64_t process_bytes = 0;
};

// Any number of threads may call everything at any time, while it lives; it outlives its leases.
class ActiveComposition {
 public:
  class Lease;

  explicit ActiveComposition(std::shared_ptr<const StagedComposition> first, MemoryAllowance allowance = {});

  // Starts a decode. Waits while a switch drains. E605 when no composition is active, E615 when the wait was too long.
  [[nodiscard]] Result<Lease> Begin(std::chrono::milliseconds patience = kSwitchPatience);

  // Makes `next` (null: none) the composition of every decode that begins from now on, and returns the one before, so that the caller
  // decides where that may be freed. Takes place at once, except that kDrain waits, and that switches wait for one that drains. An
  // error means that nothing has changed: E615 when decodes are in flight (kReject) or still are after `patience`; E501 (kKeep).
  // A thread that holds a lease should not drain: it would wait for itself, until `patience` is over.
  Result<std::shared_ptr<const StagedComposition>> Switch(std::shared_ptr<const StagedComposition> next, SwitchPolicy policy,
                                                          std::chrono::milliseconds patience = kSwitchPatience);

  [[nodiscard]] std::shared_ptr<const StagedComposition> Current() const;

  // What is held now: compositions that are current or leased, each base once, and what the decodes in flight said they hold.
  struct Held {
    std::uint64_t composition_bytes = 0, decode_bytes = 0;
    std::uint32_t decodes = 0;
  };
  // `besides`: a base that the caller counts itself.
  [[nodiscard]] Held Holds(const Base* besides = nullptr) const;

 private:
  // From one switch to the next. A decode belongs to the era it began in.
  struct Era {
    std::shared_ptr<const StagedComposition> composition;
    std::atomic<bool> is_ended{false};  // its decodes are to end; read at every layer, without the lock
    std::uint32_t decodes = 0;          // in flight; under the lock, as all below
    std::uint64_t decode_bytes = 0;
  };
  Status Reserve(Era& era, std::uint64_t decode_bytes);
  void End(const std::shared_ptr<Era>& era, std::uint64_t decode_bytes);
  [[nodiscard]] Held HoldsLocked(const Base* besides, const StagedComposition* beside) const;

  const MemoryAllowance allowance_;
  mutable std::mutex mutex_;         // libstdc++ 12's atomic<shared_ptr> is not clean under TSan
  std::condition_variable changed_;  // a decode has ended, or a drain
  std::shared_ptr<Era> current_;
  std::vector<std::shared_ptr<Era>> kept_;  // earlier ones with decodes in flight
  std::uint32_t in_flight_ = 0;             // of all eras
  bool is_draining_ = false;
};

// A decode's hold on its composition. Ends when destroyed.
class ActiveComposition::Lease {
 public:
  Lease(Lease&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)), era_(std::move(other.era_)), decode_bytes_(other.decode_bytes_) {}
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  [[nodiscard]] const std::shared_ptr<const StagedComposition>& composition() const { return era_->composition; }
  // Before the decode allocates them: its scratch and K/V. E501 when they do not fit beside all that the process holds.
  Status Reserve(std::uint64_t decode_bytes);
  // For the decoder: E616 once a switch has ended this decode. Takes no lock. May be used as long as the lease lives.
  [[nodiscard]] CancelCheck cancel_check() const;

 private:
  friend class ActiveComposition;
  Lease(ActiveComposition* owner, std::shared_ptr<Era> era) : owner_(owner), era_(std::move(era)) {}
  ActiveComposition* owner_;
  std::shared_ptr<Era> era_;
  std::uint64_t decode_bytes_ = 0;
};

// A decoder with the lease that it runs under; begun together, ended together.
struct ActiveDecode {
  ActiveComposition::Lease lease;
  std::unique_ptr<Decoder> decoder;  // goes first
};
// Lease, admission, decoder, cancel check. Errors of Begin, Reserve and Decoder::Create.
[[nodiscard]] Result<ActiveDecode> BeginDecode(ActiveComposition& active, const DecoderOptions& options,
                                               std::chrono::milliseconds patience = kSwitchPatience);

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_ACTIVE_COMPOSITION_H_
