// The expansion of a low-rank overlay: y[t, lane] += sum_u B[lane, u] * t[t, u].
//
// B lies in groups of eight lanes, [ceil(lanes / 8)][rank][8], so the sum runs along the lanes with the rank inside: no short dot
// product, and one group is one contiguous stream. Per (token, lane): one fused multiply-add for each u, ascending, starting from y.
// The order does not depend on the range of lanes, the number of tokens or the instruction set, so neither do the bits.
#ifndef VENEER_PLUGINS_LORA_EXPAND_H_
#define VENEER_PLUGINS_LORA_EXPAND_H_

#include <cstdint>

namespace veneer_lora {

inline constexpr std::uint64_t kGroup = 8;  // lanes

struct ExpandCall {
  const void* b;  // groups of B in f32, f16 or bf16, padded with zeros to whole groups
  std::uint64_t rank;
  const float* t;  // token i begins at t + i * t_stride; rank floats, the scale is in them
  std::uint64_t t_stride;
  float* y;  // y[i * y_stride + lane]
  std::uint64_t y_stride;
  std::uint32_t tokens;
  std::uint64_t lane0, lane1;  // lane0 is a multiple of kGroup
};

using Expand = void (*)(const ExpandCall& call);

// The kernel for B stored as `dtype` (VNR_F32, VNR_F16, VNR_BF16), for a CPU of which `cpu_features` (VNR_CPU_*) may be used.
Expand SelectExpand(std::uint32_t dtype, std::uint64_t cpu_features);

namespace scalar {
void ExpandF32(const ExpandCall& call);
void ExpandF16(const ExpandCall& call);
void ExpandBF16(const ExpandCall& call);
}  // namespace scalar
namespace avx2 {
void ExpandF32(const ExpandCall& call);
void ExpandF16(const ExpandCall& call);
void ExpandBF16(const ExpandCall& call);
}  // namespace avx2
namespace avx512 {
void ExpandF32(const ExpandCall& call);
void ExpandF16(const ExpandCall& call);
void ExpandBF16(const ExpandCall& call);
}  // namespace avx512

}  // namespace veneer_lora

#endif  // VENEER_PLUGINS_LORA_EXPAND_H_
