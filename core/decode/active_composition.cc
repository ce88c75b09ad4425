#include "core/decode/active_composition.h"

#include <fmt/format.h>

#include <utility>

namespace veneer {

ActiveComposition::ActiveComposition(std::shared_ptr<const StagedComposition> first)
    : current_(std::move(first)), identity_(current_.get()) {}

std::shared_ptr<const StagedComposition> ActiveComposition::Current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::shared_ptr<const StagedComposition> ActiveComposition::Publish(std::shared_ptr<const StagedComposition> next) {
  const std::lock_guard lock(mutex_);
  identity_.store(next.get(), std::memory_order_relaxed);
  return std::exchange(current_, std::move(next));
}

CancelCheck ActiveComposition::AbortWhenReplaced(const StagedComposition& mine) const {
  return [this, &mine]() -> std::optional<Error> {
    if (identity_.load(std::memory_order_relaxed) == &mine) return std::nullopt;
    return Error{Code::COMPOSITION_CHANGED, "decode",
                 fmt::format("another composition was activated while decoding under {}; what was decoded so far is under that one, "
                             "decode again to use the new one",
                             mine.id().Text())};
  };
}

}  // namespace veneer
