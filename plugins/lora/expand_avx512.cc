// AVX-512F beside AVX2, FMA and F16C, for several tokens: the multiply-adds bound those, and twice as many lanes go into a vector. What
// does not fill its blocks is AVX2's, which computes the same bits. Intrinsics only, as in expand_avx2.cc.
#include <immintrin.h>

#include <cstdint>

#include "plugins/lora/expand.h"

namespace veneer_lora::avx512 {
namespace {

// A vector of two neighbouring groups, the second `group_bytes` after the first.
struct F32 {
  static constexpr std::uint64_t kBytes = 4;
  static inline __m512 Load(const std::uint8_t* p, std::uint64_t group_bytes) {
    const __m256 low = _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    const __m256 high = _mm256_loadu_ps(reinterpret_cast<const float*>(p + group_bytes));
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
  }
};
inline __m256i LoadHalves(const std::uint8_t* p, std::uint64_t group_bytes) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + group_bytes)), 1);
}
struct F16 {
  static constexpr std::uint64_t kBytes = 2;
  static inline __m512 Load(const std::uint8_t* p, std::uint64_t group_bytes) { return _mm512_cvtph_ps(LoadHalves(p, group_bytes)); }
};
struct BF16 {
  static constexpr std::uint64_t kBytes = 2;
  static inline __m512 Load(const std::uint8_t* p, std::uint64_t group_bytes) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(LoadHalves(p, group_bytes)), 16));
  }
};

constexpr std::uint32_t kTokens = 4;   // share a loaded B in registers
constexpr std::uint64_t kVectors = 4;  // of lanes: 16 sums, 4 of B and a factor in 32 registers
constexpr std::uint64_t kLanes = 16, kBlockLanes = kVectors * kLanes;

// kTokens tokens from `token` on over kBlockLanes lanes from `lane` on.
template <class Type>
inline void Block(const ExpandCall& call, std::uint32_t token, std::uint64_t lane) {
  const std::uint64_t group_bytes = call.rank * kGroup * Type::kBytes;
  const std::uint8_t* b = static_cast<const std::uint8_t*>(call.b) + lane / kGroup * group_bytes;
  const float* t = call.t + token * call.t_stride;
  float* y = call.y + token * call.y_stride + lane;
  __m512 sum[kTokens][kVectors];
  for (std::uint64_t i = 0; i < kTokens; ++i)
    for (std::uint64_t v = 0; v < kVectors; ++v) sum[i][v] = _mm512_loadu_ps(y + i * call.y_stride + v * kLanes);
  for (std::uint64_t u = 0; u < call.rank; ++u) {
    __m512 wide[kVectors];
    for (std::uint64_t v = 0; v < kVectors; ++v) wide[v] = Type::Load(b + 2 * v * group_bytes + u * kGroup * Type::kBytes, group_bytes);
    for (std::uint64_t i = 0; i < kTokens; ++i) {
      const __m512 factor = _mm512_set1_ps(t[i * call.t_stride + u]);
      for (std::uint64_t v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(wide[v], factor, sum[i][v]);
    }
  }
  for (std::uint64_t i = 0; i < kTokens; ++i)
    for (std::uint64_t v = 0; v < kVectors; ++v) _mm512_storeu_ps(y + i * call.y_stride + v * kLanes, sum[i][v]);
}

template <class Type>
inline void ExpandOf(const ExpandCall& call, Expand narrow) {
  const std::uint32_t tokens = call.tokens / kTokens * kTokens;
  std::uint64_t lane = call.lane0;
  for (; tokens > 0 && lane + kBlockLanes <= call.lane1; lane += kBlockLanes)
    for (std::uint32_t token = 0; token < tokens; token += kTokens) Block<Type>(call, token, lane);
  ExpandCall rest = call;  // the lanes that are left, of all tokens; then the tokens that are left, of the lanes before
  rest.lane0 = lane;
  if (lane < call.lane1) narrow(rest);
  if (tokens == call.tokens || lane == call.lane0) return;
  rest.lane0 = call.lane0;
  rest.lane1 = lane;
  rest.tokens = call.tokens - tokens;
  rest.t += tokens * call.t_stride;
  rest.y += tokens * call.y_stride;
  narrow(rest);
}

}  // namespace

void ExpandF32(const ExpandCall& call) { ExpandOf<F32>(call, avx2::ExpandF32); }
void ExpandF16(const ExpandCall& call) { ExpandOf<F16>(call, avx2::ExpandF16); }
void ExpandBF16(const ExpandCall& call) { ExpandOf<BF16>(call, avx2::ExpandBF16); }

}  // namespace veneer_lora::avx512
