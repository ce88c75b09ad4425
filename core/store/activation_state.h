// Where an activation stands. Every step is reported with the composition it is about and the time; steps that make no sense are
// refused, so the code cannot claim a commit it did not reach.
#ifndef VENEER_CORE_STORE_ACTIVATION_STATE_H_
#define VENEER_CORE_STORE_ACTIVATION_STATE_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/store/sys.h"

namespace veneer {

//   Requested -> Validating -> Staging -> Ready -> Swapped -> Committed
//   Requested -> Committed: the composition was active already
//   every state before Swapped -> Aborted(code)
// Staging: the records of the new generation are being written. Ready: only the rename is missing. Swapped: visible, not yet durable.
enum class ActivationState { kRequested, kValidating, kStaging, kReady, kSwapped, kCommitted, kAborted };
std::string_view ActivationStateName(ActivationState state);
bool IsLegal(ActivationState from, ActivationState to);

struct Transition {
  ActivationState state = ActivationState::kRequested;
  std::optional<Digest> composition;  // the one that is being made active; nothing for a deactivation, or when not known yet
  std::string time_utc;
  std::optional<Code> code;  // of Aborted
};
// "STATE Staging composition=sha256:… time=2026-01-02T03:04:05Z", "STATE Aborted … code=E303"; without a composition where none is known.
std::string TransitionText(const Transition& transition);
using TransitionLog = std::function<void(const Transition&)>;

class ActivationProgress {
 public:
  ActivationProgress(Sys& sys, TransitionLog log, std::optional<Digest> composition);  // reports Requested
  void SetComposition(std::optional<Digest> composition) { composition_ = composition; }
  Status Advance(ActivationState to);  // E902 for an illegal step, which is not taken
  // Aborted with the error's code where that is legal; after Swapped the outcome is unknown and nothing is reported.
  void Abort(const Error& error);
  [[nodiscard]] ActivationState state() const { return state_; }

 private:
  void Report(std::optional<Code> code) const;
  Sys* sys_;
  TransitionLog log_;
  std::optional<Digest> composition_;
  ActivationState state_ = ActivationState::kRequested;
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_ACTIVATION_STATE_H_
