// F32, F16 and BF16 for rows.h. A block is an element, so a row may have any number of them.
#ifndef VENEER_KERNELS_AVX2_FLOATS_H_
#define VENEER_KERNELS_AVX2_FLOATS_H_

#include <cstdint>

#include "kernels/avx2/simd.h"

namespace veneer::kernels::avx2 {
namespace {  // NOLINT: internal linkage on purpose, see simd.h

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
}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_FLOATS_H_
