#include "core/store/activation_state.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/out_of_memory.h"
#include "core/store/io.h"

namespace veneer {

std::string_view ActivationStateName(ActivationState state) {
  constexpr std::string_view kNames[] = {"Requested", "Validating", "Staging", "Ready", "Swapped", "Committed", "Aborted"};
  return kNames[static_cast<std::size_t>(state)];
}

bool IsLegal(ActivationState from, ActivationState to) {
  using enum ActivationState;
  switch (to) {
    case kRequested:
      return false;
    case kValidating:
      return from == kRequested;
    case kStaging:
      return from == kValidating;
    case kReady:
      return from == kStaging;
    case kSwapped:
      return from == kReady;
    case kCommitted:
      return from == kSwapped || from == kRequested;
    case kAborted:
      return from < kSwapped;
  }
  return false;
}

std::string TransitionText(const Transition& transition) {
  std::string text = fmt::format("STATE {}", ActivationStateName(transition.state));
  if (transition.composition) text += fmt::format(" composition={}", transition.composition->Text());
  text += fmt::format(" time={}", transition.time_utc);
  if (transition.code) text += fmt::format(" code=E{}", static_cast<int>(*transition.code));
  return text;
}

ActivationProgress::ActivationProgress(Sys& sys, TransitionLog log, std::optional<Digest> composition)
    : sys_(&sys), log_(std::move(log)), composition_(composition) {
  Report(std::nullopt);
}

Status ActivationProgress::Advance(ActivationState to) {
  if (!IsLegal(state_, to))
    return Fail(Code::INTERNAL, "activation", fmt::format("cannot go from {} to {}", ActivationStateName(state_), ActivationStateName(to)));
  state_ = to;
  Report(std::nullopt);
  return {};
}

void ActivationProgress::Abort(const Error& error) {
  if (!IsLegal(state_, ActivationState::kAborted)) return;
  state_ = ActivationState::kAborted;
  Report(error.code);
}

// A report for which there is no memory is lost; it must not end a transaction, least of all one that is visible already.
void ActivationProgress::Report(std::optional<Code> code) const {
  if (!log_) return;
  (void)OrOutOfMemory([&]() -> Status {
    log_({state_, composition_, FormatTime(sys_->WallClockNs()), code});
    return {};
  });
}

}  // namespace veneer
