#include "core/store/follow.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

namespace veneer {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFar = 60s;  // a wait that only the change ends

TEST_CASE("follow: a generation that is current already when the wait begins is told at once") {
  StoreFixture fixture;
  REQUIRE(fixture.Activate(fixture.a));
  const Store store = fixture.Open();
  GenerationFollower follower = store.Follow();
  CHECK(follower.polls_because().empty());
  const auto current = Must(follower.Wait(1, kFar));
  REQUIRE(current);
  CHECK(current->generation == 2);
  CHECK(current->composition == fixture.a);
  const auto start = Clock::now();
  CHECK_FALSE(Must(follower.Wait(2, 30ms)));
  CHECK(Clock::now() - start >= 30ms);
}

TEST_CASE("follow: an activation, a rollback and a deactivation by another handle each end the wait, by the watch, without polling") {
  StoreFixture fixture;
  SimSys sys(fixture.posix);
  const Store store = Must(fixture.TryOpen(sys));
  GenerationFollower follower = store.Follow(kFar);
  std::uint64_t seen = 1;
  const std::vector<std::function<void()>> changes = {
      [&] { (void)Must(fixture.Activate(fixture.a)); }, [&] { (void)Must(fixture.Activate(fixture.b)); },
      [&] { (void)Must(fixture.Rollback()); }, [&] { (void)Must(fixture.Open().Deactivate({})); }};
  for (const auto& change : changes) {
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      change();
    });
    const auto start = Clock::now();
    const auto current = Must(follower.Wait(seen, kFar));
    other.join();
    REQUIRE(current);
    CHECK(current->generation == ++seen);
    CHECK(Clock::now() - start < 900ms);  // below the look that is taken every second anyway
  }
  CHECK(follower.polls_because().empty());
}

TEST_CASE("follow: without a watch, and after one has failed, it polls and says why") {
  for (const auto& [line, error, words] :
       {std::tuple{"watch veneer/state", ENOSPC, "cannot watch the directory"}, std::tuple{"watch veneer/state", EMFILE, "ulimit -n"},
        std::tuple{"wait", EBADF, "cannot wait for a change"}}) {
    CAPTURE(line, error);
    StoreFixture fixture;
    SimSys sys(fixture.posix);
    const Store store = Must(fixture.TryOpen(sys));
    sys.FailOn(line, error);
    GenerationFollower follower = store.Follow(5ms);
    CHECK_FALSE(Must(follower.Wait(1, 20ms)));
    CHECK(follower.polls_because().find(words) != std::string::npos);
    std::thread other([&] { (void)Must(fixture.Activate(fixture.a)); });
    const auto current = Must(follower.Wait(1, kFar));
    other.join();
    REQUIRE(current);
    CHECK(current->generation == 2);
  }
}

TEST_CASE("follow: a signal ends no wait and costs no watch") {
  StoreFixture fixture;
  SimSys sys(fixture.posix);
  const Store store = Must(fixture.TryOpen(sys));
  GenerationFollower follower = store.Follow();
  sys.FailOn("wait", EINTR);
  CHECK_FALSE(Must(follower.Wait(1, 20ms)));
  CHECK(follower.polls_because().empty());
}

TEST_CASE("follow: a pointer that cannot be read is E602 when the wait is over, and the next good one is told") {
  StoreFixture fixture;
  REQUIRE(fixture.Activate(fixture.a));
  const Store store = fixture.Open();
  GenerationFollower follower = store.Follow(5ms);
  const std::string good = ::ReadAll(fixture.state());
  WriteFile(fixture.state(), "garbage");
  const auto start = Clock::now();
  const auto torn = follower.Wait(1, 30ms);
  CHECK(Clock::now() - start >= 30ms);
  REQUIRE_FALSE(torn);
  CHECK(torn.error().code == Code::STATE_CORRUPT);
  WriteFile(fixture.state(), good);
  CHECK(Must(follower.Wait(1, kFar))->generation == 2);
}

}  // namespace
}  // namespace veneer
