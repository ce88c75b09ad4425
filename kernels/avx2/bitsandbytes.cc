// NF4 and LLM.int8: weights whose scales lie in other tensors.
#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/simd.h"
#include "kernels/scaled_rows.h"

namespace veneer::kernels::avx2 {
namespace {

struct Nf4 {
  static constexpr std::uint64_t kBlock = 32;

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const ScaledRow& scaled = *static_cast<const ScaledRow*>(row);
    const __m256 absmax = _mm256_set1_ps(BlockAbsmax(scaled, b));
    const __m256 low = _mm256_loadu_ps(scaled.scales->map), high = _mm256_loadu_ps(scaled.scales->map + 8);
    const __m128i packed = LoadBytes16(static_cast<const std::uint8_t*>(scaled.data) + 16 * b);
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i first = _mm_and_si128(_mm_srli_epi16(packed, 4), nibble), second = _mm_and_si128(packed, nibble);
    const __m128i codes[2] = {_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second)};
    for (int v = 0; v < 4; ++v) {
      const __m256i code = _mm256_cvtepu8_epi32(v % 2 == 0 ? codes[v / 2] : _mm_srli_si128(codes[v / 2], 8));
      // A permutation looks at three bits of the code; the fourth, moved to the sign, chooses the half of the map.
      const __m256 choice = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
      const __m256 value = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, code), _mm256_permutevar8x32_ps(high, code), choice);
      w[v] = _mm256_mul_ps(value, absmax);
    }
  }
};

struct Int8Row {
  static constexpr std::uint64_t kBlock = 32;

  VENEER_INLINE void Decode32(const void* row, std::uint64_t b, __m256 w[4]) {
    const ScaledRow& scaled = *static_cast<const ScaledRow*>(row);
    const __m256 scale = _mm256_set1_ps(StoredFloat(scaled.scales->row_scales, scaled.row)), step = _mm256_set1_ps(kPerStep);
    const std::int8_t* q = static_cast<const std::int8_t*>(scaled.data) + 32 * b;
    for (int v = 0; v < 4; ++v) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q + 8 * v));
      w[v] = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), scale), step);
    }
  }
};

}  // namespace

const TypeKernels kNf4 = {DequantizeRow<Nf4>, DotRows<Nf4>, nullptr};
const TypeKernels kInt8Row = {DequantizeRow<Int8Row>, DotRows<Int8Row>, nullptr};

}  // namespace veneer::kernels::avx2
