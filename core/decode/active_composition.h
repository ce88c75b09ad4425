// The composition that a process decodes under: published in one step, held by whoever decodes, freed with its last holder.
#ifndef VENEER_CORE_DECODE_ACTIVE_COMPOSITION_H_
#define VENEER_CORE_DECODE_ACTIVE_COMPOSITION_H_

#include <atomic>
#include <memory>
#include <mutex>

#include "core/compose/staged_composition.h"
#include "core/decode/decoder.h"

namespace veneer {

// Any number of threads may call everything at any time. A decode takes Current() once, at its start, and stays with it: no decode
// ever sees two compositions.
class ActiveComposition {
 public:
  explicit ActiveComposition(std::shared_ptr<const StagedComposition> first);

  [[nodiscard]] std::shared_ptr<const StagedComposition> Current() const;

  // Makes `next` what Current gives from now on and returns what it gave before, so that the caller decides when that may be freed.
  std::shared_ptr<const StagedComposition> Publish(std::shared_ptr<const StagedComposition> next);

  // For the decoder of a decode that began under `mine`: ends it with E616 once another composition has been published, at the next
  // layer or token. Takes no lock. Both objects outlive the decoder's use of it.
  [[nodiscard]] CancelCheck AbortWhenReplaced(const StagedComposition& mine) const;

 private:
  mutable std::mutex mutex_;  // libstdc++ 12's atomic<shared_ptr> is not clean under TSan
  std::shared_ptr<const StagedComposition> current_;
  std::atomic<const StagedComposition*> identity_;  // current_.get(), only ever compared: who compares holds what he compares with
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_ACTIVE_COMPOSITION_H_
