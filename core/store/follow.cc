#include "core/store/follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "core/store/io.h"
#include "core/store/recovery.h"

namespace veneer {
namespace {

constexpr std::chrono::milliseconds kLookAnyway{1000};  // with a watch: for what no watch reports, as a store that was moved away

}  // namespace

// The watch comes before the first look, so that no change falls in between.
GenerationFollower::GenerationFollower(const StoreContext& store, std::chrono::milliseconds poll) : store_(&store), poll_(poll) {
  auto watch = store.sys->WatchDirectory(store.state.fd.get());
  if (watch) {
    watch_ = *std::move(watch);
  } else {
    polls_because_ = IoError(watch.error(), store.state.path, "watch the directory").detail;
  }
}

Result<std::optional<Current>> GenerationFollower::Wait(std::uint64_t seen, std::chrono::milliseconds wait) {
  using std::chrono::milliseconds;
  const std::int64_t deadline_ns = store_->sys->SteadyClockNs() + std::chrono::nanoseconds(wait).count();
  for (;;) {
    auto current = ReadCurrentFile(*store_);
    if (current && current->generation != seen) return std::optional(*std::move(current));
    const milliseconds left((deadline_ns - store_->sys->SteadyClockNs() + 999'999) / 1'000'000);  // never too early
    if (left.count() <= 0) {
      if (!current) return Fail(std::move(current).error());
      return std::optional<Current>();
    }
    Pause(left);
  }
}

void GenerationFollower::Pause(std::chrono::milliseconds at_most) {
  const auto count = [](std::chrono::milliseconds time) { return static_cast<std::uint32_t>(std::max<std::int64_t>(1, time.count())); };
  if (watch_) {
    const auto woken = store_->sys->WaitForChange(watch_->get(), count(std::min(at_most, kLookAnyway)));
    if (woken || woken.error() == EINTR) return;
    polls_because_ = IoError(woken.error(), store_->state.path, "wait for a change").detail;
    watch_.reset();
  }
  store_->sys->SleepMs(count(std::min(at_most, poll_)));
}

}  // namespace veneer
