// F32, F16, BF16.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/simd.h"

namespace veneer::kernels::avx2 {
namespace {

struct F32 {
  static constexpr std::uint64_t kBlock = 1, kBlockBytes = 4;

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const std::uint8_t* p = static_cast<const std::uint8_t*>(row) + 128 * b;
    for (int v = 0; v < 4; ++v) w[v] = _mm256_castsi256_ps(LoadBytes(p + 32 * v));
  }
};

struct F16 {
  static constexpr std::uint64_t kBlock = 1, kBlockBytes = 2;

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const std::uint8_t* p = static_cast<const std::uint8_t*>(row) + 64 * b;
    for (int v = 0; v < 4; ++v) w[v] = _mm256_cvtph_ps(LoadBytes16(p + 16 * v));
  }
};

struct BF16 {
  static constexpr std::uint64_t kBlock = 1, kBlockBytes = 2;

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const std::uint8_t* p = static_cast<const std::uint8_t*>(row) + 64 * b;
    for (int v = 0; v < 4; ++v) w[v] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadBytes16(p + 16 * v)), 16));
  }
};

}  // namespace

const TypeKernels kF32 = {DequantizeRow<F32>, DotRows<F32>, nullptr};
const TypeKernels kF16 = {DequantizeRow<F16>, DotRows<F16>, nullptr};
const TypeKernels kBF16 = {DequantizeRow<BF16>, DotRows<BF16>, nullptr};

}  // namespace veneer::kernels::avx2
