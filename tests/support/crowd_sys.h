// How many threads read a file at once.
#ifndef VENEER_TESTS_SUPPORT_CROWD_SYS_H_
#define VENEER_TESTS_SUPPORT_CROWD_SYS_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "core/store/counting_sys.h"

// Counts how many threads are in Pread of a blob at once. `wanted`: each waits until so many are there, or some time has passed.
class CrowdSys final : public veneer::CountingSys {
 public:
  CrowdSys(veneer::Sys& inner, std::uint32_t wanted) : CountingSys(inner), wanted_(wanted) {}
  veneer::SysResult<std::size_t> Pread(int fd, std::span<std::byte> buffer, std::uint64_t offset) override {
    {
      std::unique_lock lock(mutex_);
      most_ = std::max(most_, ++inside_);
      changed_.notify_all();
      const bool is_blob = buffer.size() > (1 << 16);  // the store's small files are read by less
      if (is_blob && !gave_up_) gave_up_ = !changed_.wait_for(lock, std::chrono::seconds(5), [&] { return most_ >= wanted_; });
    }
    auto got = CountingSys::Pread(fd, buffer, offset);
    const std::scoped_lock lock(mutex_);
    --inside_;
    return got;
  }
  [[nodiscard]] std::uint32_t most() const { return most_; }

 private:
  const std::uint32_t wanted_;
  std::uint32_t inside_ = 0, most_ = 0;
  bool gave_up_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

#endif  // VENEER_TESTS_SUPPORT_CROWD_SYS_H_
