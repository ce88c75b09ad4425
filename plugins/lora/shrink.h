// The first product of a low-rank overlay for several tokens in fast mode: t[i, u] = sum_k x[i, k] * A[u, k] by oneDNN.
//
// Measured against the kernels' dot_rows (one thread, us for 32 tokens; f32 A; oneDNN 2.6.3 in calls of 8 tokens, K = columns, r = rank):
//   K r        256 64   768 16   768 64   2048 8   2048 16   2048 64   5632 8   5632 16   5632 64
//   dot_rows     15.3      9.6     40.4     12.1      24.7     105.9     34.2      75.0     334.1
//   oneDNN       12.9     10.5     27.0     13.1      20.0      73.8     23.2      39.6     272.9
// Calls of 16 or 32 tokens lose to both (up to 3 times at K = 2048), and the second product, 64 lanes a tile, loses 3 to 40 times to
// expand.h. An A in f16 or bf16 would need an f32 copy. So: calls of 8 tokens, A in f32, K r >= 32768.
#ifndef VENEER_PLUGINS_LORA_SHRINK_H_
#define VENEER_PLUGINS_LORA_SHRINK_H_

#include <cstdint>
#include <memory>

namespace veneer_lora {

class Shrink {
 public:
  static constexpr std::uint32_t kTokens = 8;  // of one call

  static bool IsFaster(std::uint64_t columns, std::uint64_t rank, std::uint32_t dtype);  // false without oneDNN
  static std::uint64_t OpaqueBytes();

  Shrink();
  ~Shrink();
  // While staging. False when oneDNN refuses.
  bool Create(std::uint64_t columns, std::uint64_t rank);
  [[nodiscard]] std::uint64_t scratch_bytes() const;
  // Exactly kTokens tokens.
  [[nodiscard]] bool Run(const float* x, std::uint64_t x_stride, const float* a, float* t, std::uint64_t t_stride, void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace veneer_lora

#endif  // VENEER_PLUGINS_LORA_SHRINK_H_
