// The control of every bandwidth figure: a pass that only reads the weights of one token, in the pattern that this kind of machine reads
// fastest. A speed without it, from the same minute, means little on a machine whose memory is shared.
#ifndef VENEER_CORE_BENCH_READ_CONTROL_H_
#define VENEER_CORE_BENCH_READ_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/decode/thread_pool.h"
#include "core/model/base.h"

namespace veneer {

// The weights that one token reads: all linear sites of the base.
std::vector<std::span<const std::byte>> LinearWeights(const Base& base);

class ReadControl {
 public:
  // Threads are refused with std::system_error.
  ReadControl(std::vector<std::span<const std::byte>> parts, std::uint32_t threads);
  // LinearWeights of a base that outlives the control.
  ReadControl(const Base& base, std::uint32_t threads);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  double Pass();         // reads everything once; GB/s
  double GbPerS(int n);  // median of n passes

 private:
  std::vector<std::span<const std::byte>> parts_;
  std::uint64_t bytes_ = 0;
  ThreadPool pool_;
};

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_READ_CONTROL_H_
