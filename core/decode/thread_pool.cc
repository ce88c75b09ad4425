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

// Of a word of Claimed (thread_pool.h).
constexpr int kIndexBits = 20;
constexpr std::uint64_t kIndexMask = (1ULL << kIndexBits) - 1, kEpochMask = (1ULL << 24) - 1;

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

ThreadPool::ThreadPool(std::uint32_t n_workers) : n_workers_(n_workers == 0 ? 1 : n_workers), claimed_(new Claimed[n_workers_]) {
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
  epoch_.fetch_add(1, std::memory_order_relaxed);
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
    epoch_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_workers_) {
    arrived_.store(0, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  SpinUntil([this, phase] { return phase_.load(std::memory_order_acquire) != phase; });
}

ThreadPool::Arrival ThreadPool::Arrive() {
  const std::uint64_t arrived = arrivals_.fetch_add(1, std::memory_order_acq_rel);
  return {(arrived / n_workers_ + 1) * n_workers_};
}

void ThreadPool::Await(Arrival arrival) {
  SpinUntil([this, arrival] { return arrivals_.load(std::memory_order_acquire) >= arrival.complete; });
}

// ---- claims: relaxed, since who computes an item orders nothing; the barriers do ----

ThreadPool::Range ThreadPool::Left(std::uint64_t word, std::uint64_t n, std::uint32_t owner) const {
  if (word >> (2 * kIndexBits) != (epoch_.load(std::memory_order_relaxed) & kEpochMask)) return Share(n, owner);  // untouched since then
  return {word & kIndexMask, word >> kIndexBits & kIndexMask};
}

std::uint64_t ThreadPool::WordOf(Range left) const {
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed) & kEpochMask;
  return epoch << (2 * kIndexBits) | left.end << kIndexBits | left.begin;
}

ThreadPool::Range ThreadPool::Claim(std::uint64_t n, std::uint64_t at_most, std::uint32_t worker) {
  for (std::uint32_t i = 0; i < n_workers_; ++i) {
    const std::uint32_t owner = (worker + i) % n_workers_;
    std::atomic<std::uint64_t>& word = claimed_[owner].word;
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    for (;;) {
      const Range left = Left(seen, n, owner);
      if (left.begin >= left.end) break;
      const std::uint64_t rest = left.end - left.begin;
      // Something stays for others until the end: a quarter of a worker's own rest, half of another's.
      const std::uint64_t take = n_workers_ == 1 ? std::min(at_most, rest) : std::min(at_most, i == 0 ? rest - rest / 4 : (rest + 1) / 2);
      const Range taken = i == 0 ? Range{left.begin, left.begin + take} : Range{left.end - take, left.end};
      const Range rest_of_it = i == 0 ? Range{taken.end, left.end} : Range{left.begin, taken.begin};
      if (word.compare_exchange_weak(seen, WordOf(rest_of_it), std::memory_order_relaxed)) return taken;
    }
  }
  return {n, n};
}

}  // namespace veneer
