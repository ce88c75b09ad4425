#include "core/decode/thread_pool.h"

#include <sched.h>

#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace veneer {
namespace {

constexpr int kSpins = 1000;  // about 1000 pauses before yielding measured best with a busy neighbour

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Spins, then yields, until done() holds.
template <class Done>
void SpinUntil(const Done& done) {
  for (int i = 0; !done(); ++i) {
    if (i < kSpins) {
      Pause();
    } else {
      sched_yield();
    }
  }
}

}  // namespace

ThreadPool::ThreadPool(std::uint32_t n_workers) : n_workers_(n_workers == 0 ? 1 : n_workers) {
  for (std::uint32_t worker = 1; worker < n_workers_; ++worker) threads_.emplace_back([this, worker] { Serve(worker); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++region_;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(const std::function<void(std::uint32_t)>& body) {
  if (n_workers_ == 1) {
    body(0);
    return;
  }
  body_ = &body;
  running_.store(n_workers_ - 1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);  // pairs with the sleepers' check, so that no wake-up is lost
    region_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  body(0);
  SpinUntil([this] { return running_.load(std::memory_order_acquire) == 0; });
}

void ThreadPool::AwaitRegion(std::uint64_t seen) {
  for (int i = 0; i < 20 * kSpins; ++i) {  // decode steps follow each other closely: sleeping at once would cost each of them a wake-up
    if (region_.load(std::memory_order_acquire) != seen) return;
    Pause();
    if (i % kSpins == kSpins - 1) sched_yield();
  }
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this, seen] { return region_.load(std::memory_order_acquire) != seen; });
}

void ThreadPool::Serve(std::uint32_t worker) {
  for (std::uint64_t seen = 0;; ++seen) {
    AwaitRegion(seen);
    if (stop_) return;
    (*body_)(worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::Barrier() {
  if (n_workers_ == 1) return;
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_workers_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  SpinUntil([this, phase] { return phase_.load(std::memory_order_acquire) != phase; });
}

}  // namespace veneer
