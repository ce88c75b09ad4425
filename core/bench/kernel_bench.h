// Speed of the product kernels, type by type, without a model: bytes of weights a second for one token, multiply-adds for many.
#ifndef VENEER_CORE_BENCH_KERNEL_BENCH_H_
#define VENEER_CORE_BENCH_KERNEL_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "kernels/kernels.h"

namespace veneer {

struct KernelBenchOptions {
  std::uint64_t bytes = 256 << 20;  // of weights, in rows of kKernelBenchColumns; more than the caches hold, or it is the caches' speed
  std::uint32_t threads = 1;
  std::uint32_t tokens = 256;  // of the product of many
  std::uint64_t runs = 5;
};
inline constexpr std::uint64_t kKernelBenchColumns = 2048;

struct KernelResult {
  std::string type;             // "q4_0"
  bool is_integer = false;      // quantized activations; false: f32
  double bytes_per_weight = 0;  // of the rows; scales that lie in tensors of their own are not counted, here and in the speeds
  double gb_per_s = 0;          // one token, all threads; median of the runs
  double control_gb_per_s = 0;  // a pass that only reads the same bytes, run in turn
  double gop_per_s = 0;         // many tokens: two operations for each weight and token
};
// For every type that the table has a product for. E504 when the weights do not fit into memory.
Result<std::vector<KernelResult>> BenchKernels(const kernels::Table& table, const KernelBenchOptions& options);

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_KERNEL_BENCH_H_
