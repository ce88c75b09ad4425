#include "core/decode/thread_pool.h"

#include <sched.h>

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace veneer {
namespace {

constexpr int kSpins = 1000;  // about 1000 pauses before yielding measured best with a busy neighbour
// Decode steps follow each other closely: a worker that slept at once would cost each of them a wake-up. About a millisecond.
constexpr int kSpinsBeforeSleep = 20 * kSpins;

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
  try {
    for (std::uint32_t worker = 1; worker < n_workers_; ++worker) threads_.emplace_back([this, worker] { Serve(worker); });
  } catch (...) {
    Stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stop_.store(true, std::memory_order_relaxed);
  StartRegion();
  for (std::thread& thread : threads_) thread.join();
}

// A worker either sees the new region_ before it sleeps or has counted itself among the sleepers before region_ is changed: both
// sides write their own variable before they read the other's, sequentially consistent.
void ThreadPool::StartRegion() {
  region_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  {
    const std::lock_guard lock(mutex_);
  }  // a sleeper between its check and its wait holds the mutex
  wake_.notify_all();
}

void ThreadPool::AwaitRegion(std::uint64_t seen) {
  for (int i = 1; i <= kSpinsBeforeSleep; ++i) {
    if (region_.load(std::memory_order_acquire) != seen) return;
    Pause();
    if (i % kSpins == 0) sched_yield();
  }
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [this, seen] { return region_.load(std::memory_order_seq_cst) != seen; });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::Run(Body body) {
  claimed_.store(0, std::memory_order_relaxed);
  if (n_workers_ == 1) {
    body(0);
    return;
  }
  body_ = &body;
  running_.store(n_workers_ - 1, std::memory_order_relaxed);
  StartRegion();
  body(0);
  SpinUntil([this] { return running_.load(std::memory_order_acquire) == 0; });
}

void ThreadPool::Serve(std::uint32_t worker) {
  for (std::uint64_t seen = 0;; ++seen) {
    AwaitRegion(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    (*body_)(worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::Barrier() {
  if (n_workers_ == 1) {
    claimed_.store(0, std::memory_order_relaxed);
    return;
  }
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_workers_) {
    arrived_.store(0, std::memory_order_relaxed);
    claimed_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  SpinUntil([this, phase] { return phase_.load(std::memory_order_acquire) != phase; });
}

// Relaxed: who computes an item orders nothing; the barriers do.
ThreadPool::Range ThreadPool::Claim(std::uint64_t n, std::uint64_t at_most) {
  std::uint64_t begin = claimed_.load(std::memory_order_relaxed);
  for (;;) {
    if (begin >= n) return {n, n};
    const std::uint64_t fair = (n - begin) / (2 * std::uint64_t{n_workers_});  // half of what would be this worker's share of the rest
    const std::uint64_t take = n_workers_ == 1 ? std::min(at_most, n - begin) : std::clamp<std::uint64_t>(fair, 1, at_most);
    if (claimed_.compare_exchange_weak(begin, begin + take, std::memory_order_relaxed)) return {begin, begin + take};
  }
}

}  // namespace veneer
