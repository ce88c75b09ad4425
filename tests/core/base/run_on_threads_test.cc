#include "core/base/run_on_threads.h"

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "tests/support/catch.h"

namespace veneer {
namespace {

TEST_CASE("run on threads: n calls are under way at once, the first on the caller, and all have returned at the end") {
  for (const std::uint32_t n : {1u, 2u, 5u}) {
    CAPTURE(n);
    std::latch all_here(n);  // a run one after another would never pass it
    std::atomic<std::uint32_t> returned{0}, sum{0};
    std::atomic<bool> first_is_caller{false};
    RunOnThreads(n, [&, caller = std::this_thread::get_id()](std::uint32_t thread) {
      all_here.arrive_and_wait();
      if (thread == 0) first_is_caller = std::this_thread::get_id() == caller;
      sum += thread;
      ++returned;
    });
    CHECK(returned == n);
    CHECK(sum == n * (n - 1) / 2);
    CHECK(first_is_caller);
  }
}

TEST_CASE("run on threads: what the caller's share throws comes out when the others have returned") {
  std::atomic<int> returned{0};
  CHECK_THROWS_AS(RunOnThreads(3,
                               [&](std::uint32_t thread) {
                                 if (thread == 0) throw std::runtime_error("stop");
                                 ++returned;
                               }),
                  std::runtime_error);
  CHECK(returned == 2);
}

}  // namespace
}  // namespace veneer
