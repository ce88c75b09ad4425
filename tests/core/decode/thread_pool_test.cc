#include "core/decode/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace veneer {
namespace {

TEST_CASE("thread pool: every worker runs each region once, after pauses long enough to fall asleep too") {
  for (const std::uint32_t n : {1U, 2U, 3U, 8U}) {
    ThreadPool pool(n);
    REQUIRE(pool.size() == n);
    std::vector<std::atomic<int>> runs(n);
    for (int region = 0; region < 50; ++region) {
      pool.Run([&](std::uint32_t worker) { ++runs[worker]; });
      if (region % 25 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      for (const auto& count : runs) REQUIRE(count == region + 1);
    }
  }
}

TEST_CASE("thread pool: no worker passes a barrier before all have reached it") {
  ThreadPool pool(4);
  constexpr std::uint32_t kRounds = 300;
  std::atomic<std::uint32_t> reached{0};
  std::atomic<int> early{0};
  pool.Run([&](std::uint32_t) {
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      ++reached;
      pool.Barrier();
      if (reached < 4 * round) ++early;
      pool.Barrier();
    }
  });
  CHECK(early == 0);
  CHECK(reached == 4 * kRounds);
}

TEST_CASE("thread pool: what workers wrote without atomics is seen after the barrier and after the region") {
  ThreadPool pool(3);
  std::vector<int> values(3);
  std::vector<int> sums(3);
  for (int round = 0; round < 100; ++round) {
    pool.Run([&](std::uint32_t worker) {
      values[worker] = round;
      pool.Barrier();
      sums[worker] = values[0] + values[1] + values[2];
    });
    for (const int sum : sums) REQUIRE(sum == 3 * round);
  }
}

TEST_CASE("thread pool: shares cover all items once, in order, and differ by at most one item") {
  for (const std::uint32_t n_workers : {1U, 2U, 3U, 7U}) {
    const ThreadPool pool(n_workers);
    for (const std::uint64_t n : {0ULL, 1ULL, 2ULL, 6ULL, 7ULL, 100ULL}) {
      std::uint64_t next = 0;
      for (std::uint32_t worker = 0; worker < n_workers; ++worker) {
        const auto share = pool.Share(n, worker);
        CHECK(share.begin == next);
        CHECK(share.end - share.begin <= n / n_workers + 1);
        next = share.end;
      }
      CHECK(next == n);
    }
  }
}

TEST_CASE("thread pool: claims hand out every item once between two barriers, in portions no larger than asked for") {
  for (const std::uint32_t n_workers : {1U, 2U, 3U, 8U}) {
    ThreadPool pool(n_workers);
    for (const std::uint64_t n : {0ULL, 1ULL, 2ULL, 7ULL, 100ULL, 1000ULL}) {
      for (const std::uint64_t at_most : {1ULL, 5ULL, 2000ULL}) {
        std::vector<std::atomic<int>> taken(n), taken_again(n);
        std::atomic<int> too_large{0};
        const auto take_all = [&](std::uint32_t worker, std::vector<std::atomic<int>>& counts) {
          for (auto mine = pool.Claim(n, at_most, worker); mine.begin < mine.end; mine = pool.Claim(n, at_most, worker)) {
            if (mine.end - mine.begin > at_most) ++too_large;
            for (std::uint64_t i = mine.begin; i < mine.end; ++i) ++counts.at(i);
          }
        };
        pool.Run([&](std::uint32_t worker) {
          take_all(worker, taken);
          pool.Barrier();
          take_all(worker, taken_again);
        });
        CHECK(too_large == 0);
        for (std::uint64_t i = 0; i < n; ++i) {
          REQUIRE(taken[i] == 1);
          REQUIRE(taken_again[i] == 1);
        }
      }
    }
  }
}

TEST_CASE("thread pool: a worker takes its own share in order and then, from the end and ever less at once, what others have left") {
  ThreadPool pool(2);
  std::vector<std::uint64_t> taken;  // begin, end, begin, end, …
  pool.Run([&](std::uint32_t worker) {
    if (worker != 0) return;
    for (auto mine = pool.Claim(20, 5, worker); mine.begin < mine.end; mine = pool.Claim(20, 5, worker)) {
      taken.push_back(mine.begin);
      taken.push_back(mine.end);
    }
  });
  CHECK(taken == std::vector<std::uint64_t>{0, 5, 5, 9, 9, 10, /* of the other: */ 15, 20, 12, 15, 11, 12, 10, 11});
}

TEST_CASE("thread pool: a worker that is held up loses its share to the others, but for the portion it holds") {
  ThreadPool pool(3);
  std::atomic<std::uint64_t> done{0};
  std::uint64_t of_the_slow_one = 0;
  pool.Run([&](std::uint32_t worker) {
    for (auto mine = pool.Claim(300, 4, worker); mine.begin < mine.end; mine = pool.Claim(300, 4, worker)) {
      const std::uint64_t n = mine.end - mine.begin;
      if (worker == 2) {
        of_the_slow_one += n;
        while (done < 300 - n) std::this_thread::yield();  // until the others have done all else
      }
      done += n;
    }
  });
  CHECK(done == 300);
  CHECK(of_the_slow_one <= 4);
}

TEST_CASE("thread pool: what a worker wrote before it arrived is seen by all that await the round, in every round") {
  for (const std::uint32_t n : {1U, 2U, 5U}) {
    ThreadPool pool(n);
    std::vector<int> written(n), wrong(n);
    for (int region = 0; region < 3; ++region) {
      pool.Run([&](std::uint32_t worker) {
        for (int round = 1; round <= 50; ++round) {
          written[worker] = 100 * region + round;
          const ThreadPool::Arrival arrival = pool.Arrive();
          pool.Await(arrival);
          for (const int value : written) wrong[worker] += value == 100 * region + round ? 0 : 1;
          pool.Barrier();
        }
      });
    }
    CHECK(wrong == std::vector<int>(n, 0));
  }
}

}  // namespace
}  // namespace veneer
