// Small helpers for AVX2 files. Everything is static and always inlined: an ISA object must hold no function that another object could
// share, or the linker may hand AVX2 code to a caller on an older processor.
#ifndef VENEER_KERNELS_AVX2_SIMD_H_
#define VENEER_KERNELS_AVX2_SIMD_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/quant_blocks.h"

#define VENEER_INLINE static inline __attribute__((always_inline))

namespace veneer::kernels::avx2 {

inline constexpr std::uint64_t kLanes = 32;  // four vectors of eight; the order is that of scalar/lanes.h

// Inner loops ask for the lines this far ahead of where they read: rows of a group are more streams than the processor follows by itself,
// and it stops at every page. What lies past the end of a row is the next row of the stream or anything at all: a prefetch cannot fault.
inline constexpr std::uintptr_t kAhead = 1024;
template <std::size_t kBytes>
VENEER_INLINE void PrefetchAhead(const void* p) {
  for (std::size_t at = 0; at < kBytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(p) + kAhead + at), _MM_HINT_T0);
  }
}

VENEER_INLINE __m256i LoadBytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
VENEER_INLINE __m128i LoadBytes16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
// 16 bytes of one row in the low half, of another in the high half.
VENEER_INLINE __m256i LoadPair(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(LoadBytes16(low)), LoadBytes16(high), 1);
}

VENEER_INLINE int HalfBits(const StoredHalf& half) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, &half, sizeof bits);
  return bits;
}
VENEER_INLINE float WidenHalf(const StoredHalf& half) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(HalfBits(half)))); }

VENEER_INLINE std::int32_t Int32At(const void* p) {
  std::int32_t value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

// 32 signed bytes in order.
VENEER_INLINE void WidenBytes(__m256i bytes, __m256 out[4]) {
  const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
  const __m128i eight[4] = {low, _mm_srli_si128(low, 8), high, _mm_srli_si128(high, 8)};
  for (int v = 0; v < 4; ++v) out[v] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight[v]));
}

// Lanes 8 apart, then halves of 4, 2, 1.
VENEER_INLINE float SumLanes(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 s = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

VENEER_INLINE std::int32_t SumInts(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

// `count` elements from `source`, the rest of the N filled with `fill`.
template <std::uint64_t N, class T>
struct Padded {
  alignas(32) T values[N];

  __attribute__((always_inline)) Padded(const T* source, std::uint64_t count, T fill) {
    for (std::uint64_t j = 0; j < N; ++j) values[j] = j < count ? source[j] : fill;
  }
};

}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_SIMD_H_
