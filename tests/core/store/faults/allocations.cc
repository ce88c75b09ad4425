#include "tests/core/store/faults/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> alive{0};
thread_local bool armed = false, fail_once = true;
thread_local int paused = 0;
thread_local std::uint64_t counted = 0, fail_at = 0;

constexpr std::size_t kHeader = 16;  // keeps the alignment of malloc; its last byte says whether the block was counted

std::size_t Offset(std::size_t alignment) { return alignment > kHeader ? alignment : kHeader; }

void* Allocate(std::size_t size, std::size_t alignment) {
  const bool counts = armed && paused == 0;
  if (counts) {
    ++counted;
    if (fail_at != 0 && (counted == fail_at || (counted > fail_at && !fail_once))) throw std::bad_alloc();
  }
  const std::size_t offset = Offset(alignment);
  auto* const raw = static_cast<unsigned char*>(std::aligned_alloc(offset, (size + offset + offset - 1) / offset * offset));
  if (raw == nullptr) throw std::bad_alloc();
  raw[offset - 1] = counts ? 1 : 0;
  if (counts) alive.fetch_add(1, std::memory_order_relaxed);
  return raw + offset;
}

void Release(void* block, std::size_t alignment) {
  if (block == nullptr) return;
  auto* const bytes = static_cast<unsigned char*>(block);
  if (bytes[-1] == 1) alive.fetch_sub(1, std::memory_order_relaxed);
  std::free(bytes - Offset(alignment));
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size, 0); }
void* operator new[](std::size_t size) { return Allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) { return Allocate(size, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return Allocate(size, static_cast<std::size_t>(alignment)); }
void operator delete(void* block) noexcept { Release(block, 0); }
void operator delete[](void* block) noexcept { Release(block, 0); }
void operator delete(void* block, std::size_t) noexcept { Release(block, 0); }
void operator delete[](void* block, std::size_t) noexcept { Release(block, 0); }
void operator delete(void* block, std::align_val_t alignment) noexcept { Release(block, static_cast<std::size_t>(alignment)); }
void operator delete[](void* block, std::align_val_t alignment) noexcept { Release(block, static_cast<std::size_t>(alignment)); }
void operator delete(void* block, std::size_t, std::align_val_t a) noexcept { Release(block, static_cast<std::size_t>(a)); }
void operator delete[](void* block, std::size_t, std::align_val_t a) noexcept { Release(block, static_cast<std::size_t>(a)); }

namespace allocations {

std::int64_t Alive() { return alive.load(std::memory_order_relaxed); }

void FailAt(std::uint64_t nth, bool once) {
  counted = 0;
  fail_at = nth;
  fail_once = once;
  armed = true;
}

std::uint64_t Stop() {
  armed = false;
  return counted;
}

Pause::Pause() { ++paused; }
Pause::~Pause() { --paused; }

}  // namespace allocations
