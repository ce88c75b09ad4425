// A fixed set of workers for regions in which all of them run the same function, with a barrier inside.
#ifndef VENEER_CORE_DECODE_THREAD_POOL_H_
#define VENEER_CORE_DECODE_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/decode/function_ref.h"

namespace veneer {

class ThreadPool {
 public:
  // The caller of Run is worker 0; n - 1 threads are started. Throws std::system_error when one is refused.
  explicit ThreadPool(std::uint32_t n_workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] std::uint32_t size() const { return n_workers_; }

  using Body = FunctionRef<void(std::uint32_t worker)>;
  // Runs body(worker) on every worker and returns when all are done. Not reentrant; one caller at a time; body must not throw.
  // Allocates nothing, and takes a lock only to wake workers that have gone to sleep between regions.
  void Run(Body body);

  // Inside Run: returns when every worker has called it. Spins for a moment, then yields: with another busy process on the machine
  // two workers that only spin lose to one.
  void Barrier();

  // Inside Run: a barrier in two halves, between which a worker does what needs nothing of the others. Every worker arrives once, and a
  // Barrier lies between two such rounds. Await returns when all have arrived.
  struct Arrival {
    std::uint64_t complete = 0;  // arrivals of all rounds, when this one is whole
  };
  Arrival Arrive();
  void Await(Arrival arrival);

  struct Range {  // [begin, end)
    std::uint64_t begin, end;
  };
  // Inside Run: the next items of n that no worker has taken since the last barrier or the start; empty when none is left. First a worker
  // takes its own share in order, at most `at_most` at once, so that what it computes lies together; then it takes from the ends of
  // others' shares, so that all finish together though one core may be slower than another, which on shared machines is the rule. All
  // workers give the same n, below 2^20.
  Range Claim(std::uint64_t n, std::uint64_t at_most, std::uint32_t worker);

  // The part of n items that a worker owns when they are split evenly and in order.
  [[nodiscard]] Range Share(std::uint64_t n, std::uint32_t worker) const {
    return {n * worker / n_workers_, n * (worker + 1) / n_workers_};
  }

 private:
  void Serve(std::uint32_t worker);
  void AwaitRegion(std::uint64_t seen);
  void StartRegion();
  void Stop();
  [[nodiscard]] Range Left(std::uint64_t word, std::uint64_t n, std::uint32_t owner) const;
  [[nodiscard]] std::uint64_t WordOf(Range left) const;

  std::uint32_t n_workers_;
  std::vector<std::thread> threads_;
  const Body* body_ = nullptr;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint64_t> region_{0};  // counts Run calls; workers wait for it to change
  std::atomic<std::uint32_t> sleepers_{0};            // workers that look at region_ only when woken
  std::mutex mutex_;
  std::condition_variable wake_;
  alignas(64) std::atomic<std::uint32_t> running_{0};  // workers still inside the region
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  alignas(64) std::atomic<std::uint64_t> arrivals_{0};  // of Arrive, in all rounds
  std::atomic<std::uint32_t> epoch_{1};                 // changes with every barrier and region
  struct alignas(64) Claimed {
    std::atomic<std::uint64_t> word{
        0};  // of a worker's share: epoch (24 bits), end (20), begin (20) of what is left; of an old epoch all is
  };
  std::unique_ptr<Claimed[]> claimed_;
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_THREAD_POOL_H_
