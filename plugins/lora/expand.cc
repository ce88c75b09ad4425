// Choice of the kernel, and the scalar reference.
#include "plugins/lora/expand.h"

#include "kernels/float_words.h"

namespace veneer_lora {
namespace scalar {
namespace {

using veneer::kernels::words::BF16;
using veneer::kernels::words::F16;
using veneer::kernels::words::F32;

template <class Type>
void ExpandOf(const ExpandCall& call) {
  const auto* b = static_cast<const typename Type::Word*>(call.b);
  for (std::uint64_t lane = call.lane0; lane < call.lane1; ++lane) {
    const typename Type::Word* column = b + lane / kGroup * call.rank * kGroup + lane % kGroup;
    for (std::uint32_t i = 0; i < call.tokens; ++i) {
      float* y = call.y + i * call.y_stride + lane;
      const float* t = call.t + i * call.t_stride;
      float sum = *y;
      for (std::uint64_t u = 0; u < call.rank; ++u) sum = __builtin_fmaf(Type::Value(column[u * kGroup]), t[u], sum);
      *y = sum;
    }
  }
}

}  // namespace

void ExpandF32(const ExpandCall& call) { ExpandOf<F32>(call); }
void ExpandF16(const ExpandCall& call) { ExpandOf<F16>(call); }
void ExpandBF16(const ExpandCall& call) { ExpandOf<BF16>(call); }

}  // namespace scalar

Expand SelectExpand(std::uint32_t dtype, [[maybe_unused]] std::uint64_t cpu_features) {
  const auto of_type = [dtype](Expand f32, Expand f16, Expand bf16) { return dtype == VNR_F16 ? f16 : dtype == VNR_BF16 ? bf16 : f32; };
#if defined(VENEER_LORA_X86)
  if (veneer::kernels::PermitsAvx2(cpu_features)) {
    if ((cpu_features & VNR_CPU_AVX512) != 0) return of_type(avx512::ExpandF32, avx512::ExpandF16, avx512::ExpandBF16);
    return of_type(avx2::ExpandF32, avx2::ExpandF16, avx2::ExpandBF16);
  }
#endif
  return of_type(scalar::ExpandF32, scalar::ExpandF16, scalar::ExpandBF16);
}

}  // namespace veneer_lora
