#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/simd.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx2 {
namespace {

VENEER_INLINE __m256i Magnitude(__m256 v) { return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff)); }

VENEER_INLINE std::uint32_t LargestInt(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1))));
}

// 32 integers in order from four vectors of eight; the two packs interleave 128-bit halves, the permutation undoes it.
VENEER_INLINE __m256i PackBytes(const __m256i v[4]) {
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// 32 values, and the bits of the largest |x| among them.
VENEER_INLINE std::uint32_t LoadBlock(const float* x, __m256 value[4]) {
  for (int v = 0; v < 4; ++v) value[v] = _mm256_loadu_ps(x + 8 * v);
  const __m256i larger = _mm256_max_epi32(Magnitude(value[0]), Magnitude(value[1]));
  return LargestInt(_mm256_max_epi32(larger, _mm256_max_epi32(Magnitude(value[2]), Magnitude(value[3]))));
}

// value / d to the nearest, ties to even.
VENEER_INLINE __m256i DivideToBytes(const __m256 value[4], float d) {
  const __m256 divisor = _mm256_set1_ps(d);
  __m256i rounded[4];
  for (int v = 0; v < 4; ++v) {
    const __m256 quotient = _mm256_div_ps(value[v], divisor);
    rounded[v] = _mm256_cvttps_epi32(_mm256_round_ps(quotient, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return PackBytes(rounded);
}

VENEER_INLINE void QuantizeBlock(const float* x, std::int8_t* q, float* d, std::int32_t* sum) {
  __m256 value[4];
  const std::uint32_t largest = LoadBlock(x, value);
  const bool finite = largest < 0x7f800000u;
  const float scale = __builtin_bit_cast(float, largest) / 127.0f;
  if (!finite || scale < 0x1p-126f) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_setzero_si256());
    *d = finite ? 0.0f : __builtin_bit_cast(float, 0x7fc00000u);
    *sum = 0;
    return;
  }
  const __m256i bytes = DivideToBytes(value, scale);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), bytes);
  *d = scale;
  *sum = SumInts(_mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1)));
}

// The smallest half that is not below max|x| / 127 as scale; a NaN where that is an infinity.
VENEER_INLINE void StoreQ8_0(const float* x, BlockQ8_0* block) {
  __m256 value[4];
  const float largest = __builtin_bit_cast(float, LoadBlock(x, value));  // orders NaN above infinity
  const int rounded_up = _mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(largest / 127.0f), _MM_FROUND_TO_POS_INF));
  const auto half = static_cast<std::uint16_t>(rounded_up >= 0x7c00 ? 0x7e00 : rounded_up);
  __builtin_memcpy(&block->d, &half, sizeof half);
  const bool usable = half != 0 && half < 0x7c00;
  const __m256i bytes = usable ? DivideToBytes(value, WidenHalf(block->d)) : _mm256_setzero_si256();
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(block->qs), bytes);
}

}  // namespace

void ToQ8_0(const float* x, void* out, std::uint64_t n) {
  auto* blocks = static_cast<BlockQ8_0*>(out);
  for (std::uint64_t b = 0; b < n / 32; ++b) StoreQ8_0(x + 32 * b, blocks + b);
}

void QuantizeActivations(const float* x, std::uint64_t n, std::int8_t* q, float* d, std::int32_t* sum) {
  const std::uint64_t blocks = n / 32;
  for (std::uint64_t b = 0; b < blocks; ++b) QuantizeBlock(x + 32 * b, q + 32 * b, d + b, sum + b);
  if (n % 32 != 0) {
    const Padded<32, float> tail(x + 32 * blocks, n % 32, 0.0f);
    QuantizeBlock(tail.values, q + 32 * blocks, d + blocks, sum + blocks);
  }
}

}  // namespace veneer::kernels::avx2
