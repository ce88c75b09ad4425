// AVX2 + FMA + F16C. Intrinsics only: no library templates in this file (its flags must not leak into shared code).
#include <immintrin.h>

#include <cstdint>

#include "plugins/lora/expand.h"

namespace veneer_lora::avx2 {
namespace {

struct F32 {
  static constexpr std::uint64_t kBytes = 4;
  static inline __m256 Load(const std::uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};
struct F16 {
  static constexpr std::uint64_t kBytes = 2;
  static inline __m256 Load(const std::uint8_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
};
struct BF16 {
  static constexpr std::uint64_t kBytes = 2;
  static inline __m256 Load(const std::uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
  }
};

constexpr std::uint64_t kLine = 64, kAhead = 6144;  // bytes: of a cache line; that are on their way while others are multiplied
inline void Prefetch(const std::uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// kGroups neighbouring groups for kTokens tokens, all sums in registers. `b` is the first group, `y` its first lane of the first token.
// One token waits for B, so each line asks for the one `ahead` bytes on; a prefetch past the end cannot fault.
template <class Type, int kTokens, int kGroups>
inline void Block(const ExpandCall& call, const std::uint8_t* b, const float* t, float* y, std::uint64_t ahead = 0) {
  const std::uint64_t group_bytes = call.rank * kGroup * Type::kBytes;
  __m256 sum[kTokens][kGroups];
  for (int i = 0; i < kTokens; ++i)
    for (int g = 0; g < kGroups; ++g) sum[i][g] = _mm256_loadu_ps(y + static_cast<std::uint64_t>(i) * call.y_stride + g * 8);
  for (std::uint64_t u = 0; u < call.rank; ++u) {
    __m256 wide[kGroups];
    if (kTokens == 1 && u * kGroup * Type::kBytes % kLine == 0) {
      for (int g = 0; g < kGroups; ++g) Prefetch(b + static_cast<std::uint64_t>(g) * group_bytes + u * kGroup * Type::kBytes + ahead);
    }
    for (int g = 0; g < kGroups; ++g) wide[g] = Type::Load(b + static_cast<std::uint64_t>(g) * group_bytes + u * kGroup * Type::kBytes);
    for (int i = 0; i < kTokens; ++i) {
      const __m256 factor = _mm256_broadcast_ss(t + static_cast<std::uint64_t>(i) * call.t_stride + u);
      for (int g = 0; g < kGroups; ++g) sum[i][g] = _mm256_fmadd_ps(wide[g], factor, sum[i][g]);
    }
  }
  for (int i = 0; i < kTokens; ++i)
    for (int g = 0; g < kGroups; ++g) _mm256_storeu_ps(y + static_cast<std::uint64_t>(i) * call.y_stride + g * 8, sum[i][g]);
}

// All tokens over kGroups groups. One token alone is bound by the reading of B, several by the multiply-adds: four tokens share a
// loaded B in registers.
template <class Type, int kGroups>
inline void Tokens(const ExpandCall& call, const std::uint8_t* b, float* y, std::uint64_t y_stride) {
  ExpandCall local = call;
  local.y_stride = y_stride;
  std::uint32_t i = 0;
  for (; i + 4 <= call.tokens; i += 4) Block<Type, 4, kGroups>(local, b, call.t + i * call.t_stride, y + i * y_stride);
  for (; i < call.tokens; ++i) Block<Type, 1, kGroups>(local, b, call.t + i * call.t_stride, y + i * y_stride);
}

// One token over the groups from `lane` on, kGroups at a time, as far as whole blocks go; `lane` moves along.
template <class Type, int kGroups>
inline void Blocks(const ExpandCall& call, std::uint64_t ahead, std::uint64_t& lane) {
  const auto* b = static_cast<const std::uint8_t*>(call.b);
  for (; lane + kGroups * kGroup <= call.lane1; lane += kGroups * kGroup)
    Block<Type, 1, kGroups>(call, b + lane * call.rank * Type::kBytes, call.t, call.y + lane, ahead);
}

// The whole groups of a range, eight at a time: as many independent chains of multiply-adds hide their latency. Returns the lane after.
template <class Type>
inline std::uint64_t OneToken(const ExpandCall& call) {
  // Eight groups of a small rank are read faster than memory answers: ask for what comes some blocks later.
  const std::uint64_t lane_bytes = call.rank * Type::kBytes, block_bytes = 8 * kGroup * lane_bytes;
  const std::uint64_t ahead = (kAhead + block_bytes - 1) / block_bytes * block_bytes, bytes = (call.lane1 - call.lane0) * lane_bytes;
  const std::uint8_t* start = static_cast<const std::uint8_t*>(call.b) + call.lane0 * lane_bytes;
  for (std::uint64_t at = 0; at < kAhead && at < bytes; at += kLine) Prefetch(start + at);
  std::uint64_t lane = call.lane0;
  Blocks<Type, 8>(call, ahead, lane);
  Blocks<Type, 4>(call, ahead, lane);
  Blocks<Type, 2>(call, ahead, lane);
  Blocks<Type, 1>(call, ahead, lane);
  return lane;
}

template <class Type>
inline void ExpandOf(const ExpandCall& call) {
  const auto* b = static_cast<const std::uint8_t*>(call.b);
  const std::uint64_t group_bytes = call.rank * kGroup * Type::kBytes;
  std::uint64_t lane = call.lane0;
  if (call.tokens == 1) lane = OneToken<Type>(call);
  for (; lane + 16 <= call.lane1; lane += 16) Tokens<Type, 2>(call, b + lane / kGroup * group_bytes, call.y + lane, call.y_stride);
  for (; lane + 8 <= call.lane1; lane += 8) Tokens<Type, 1>(call, b + lane / kGroup * group_bytes, call.y + lane, call.y_stride);
  if (lane == call.lane1) return;
  const std::uint64_t rest = call.lane1 - lane;  // the last lanes of the site: through a whole group beside y
  for (std::uint32_t i = 0; i < call.tokens; ++i) {
    alignas(32) float part[kGroup] = {};
    float* y = call.y + i * call.y_stride + lane;
    for (std::uint64_t j = 0; j < rest; ++j) part[j] = y[j];
    Block<Type, 1, 1>(call, b + lane / kGroup * group_bytes, call.t + i * call.t_stride, part);
    for (std::uint64_t j = 0; j < rest; ++j) y[j] = part[j];
  }
}

}  // namespace

void ExpandF32(const ExpandCall& call) { ExpandOf<F32>(call); }
void ExpandF16(const ExpandCall& call) { ExpandOf<F16>(call); }
void ExpandBF16(const ExpandCall& call) { ExpandOf<BF16>(call); }

}  // namespace veneer_lora::avx2
