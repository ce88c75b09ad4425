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

constexpr std::uint64_t kLine = 64;  // bytes of a cache line
inline void Prefetch(const std::uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// Places of kGroups groups that are multiplied at once: the first is at `b` and `y`, each next one `b_step` bytes and `y_step` lanes on.
struct Places {
  const std::uint8_t* b;
  float* y;
  std::uint64_t b_step, y_step;
};

// kGroups groups for kTokens tokens, all sums in registers. Each line of B asks for the one kAhead bytes on, where that is not 0.
template <class Type, int kTokens, int kGroups, std::uint64_t kAhead = 0>
inline void Block(const ExpandCall& call, const Places& at, const float* t) {
  __m256 sum[kTokens][kGroups];
  for (int i = 0; i < kTokens; ++i)
    for (int g = 0; g < kGroups; ++g)
      sum[i][g] = _mm256_loadu_ps(at.y + static_cast<std::uint64_t>(i) * call.y_stride + static_cast<std::uint64_t>(g) * at.y_step);
  for (std::uint64_t u = 0; u < call.rank; ++u) {
    if (kAhead != 0 && u % (kLine / (kGroup * Type::kBytes)) == 0) {
      for (int g = 0; g < kGroups; ++g) Prefetch(at.b + static_cast<std::uint64_t>(g) * at.b_step + u * kGroup * Type::kBytes + kAhead);
    }
    __m256 wide[kGroups];
    for (int g = 0; g < kGroups; ++g) wide[g] = Type::Load(at.b + static_cast<std::uint64_t>(g) * at.b_step + u * kGroup * Type::kBytes);
    for (int i = 0; i < kTokens; ++i) {
      const __m256 factor = _mm256_broadcast_ss(t + static_cast<std::uint64_t>(i) * call.t_stride + u);
      for (int g = 0; g < kGroups; ++g) sum[i][g] = _mm256_fmadd_ps(wide[g], factor, sum[i][g]);
    }
  }
  for (int i = 0; i < kTokens; ++i)
    for (int g = 0; g < kGroups; ++g)
      _mm256_storeu_ps(at.y + static_cast<std::uint64_t>(i) * call.y_stride + static_cast<std::uint64_t>(g) * at.y_step, sum[i][g]);
}

// All tokens over kGroups groups. One token alone is bound by the reading of B, several by the multiply-adds: four tokens share a
// loaded B in registers.
template <class Type, int kGroups>
inline void Tokens(const ExpandCall& call, const std::uint8_t* b, float* y, std::uint64_t y_stride) {
  const std::uint64_t group_bytes = call.rank * kGroup * Type::kBytes;
  ExpandCall local = call;
  local.y_stride = y_stride;
  std::uint32_t i = 0;
  for (; i + 4 <= call.tokens; i += 4)
    Block<Type, 4, kGroups>(local, {b, y + i * y_stride, group_bytes, kGroup}, call.t + i * call.t_stride);
  for (; i < call.tokens; ++i) Block<Type, 1, kGroups>(local, {b, y + i * y_stride, group_bytes, kGroup}, call.t + i * call.t_stride);
}

// One token alone waits for B. A range of it is short, a few pages: it is read fastest as some streams far apart, each asked for a little
// ahead, so the range is cut into kStreams parts that are multiplied side by side (as many chains of multiply-adds hide their latency,
// too). Returns the lane after the parts; a prefetch past the end cannot fault.
template <class Type, int kStreams>
inline std::uint64_t OneToken(const ExpandCall& call, std::uint64_t lane) {
  constexpr std::uint64_t kAhead = 1024;
  const std::uint64_t group_bytes = call.rank * kGroup * Type::kBytes, groups = (call.lane1 - lane) / kGroup / kStreams;
  Places at{static_cast<const std::uint8_t*>(call.b) + lane / kGroup * group_bytes, call.y + lane, groups * group_bytes, groups * kGroup};
  for (std::uint64_t g = 0; g < groups; ++g, at.b += group_bytes, at.y += kGroup) Block<Type, 1, kStreams, kAhead>(call, at, call.t);
  return lane + kStreams * groups * kGroup;
}

template <class Type>
inline void ExpandOf(const ExpandCall& call) {
  const auto* b = static_cast<const std::uint8_t*>(call.b);
  const std::uint64_t group_bytes = call.rank * kGroup * Type::kBytes;
  std::uint64_t lane = call.lane0;
  if (call.tokens == 1) lane = OneToken<Type, 2>(call, OneToken<Type, 8>(call, lane));
  for (; lane + 16 <= call.lane1; lane += 16) Tokens<Type, 2>(call, b + lane / kGroup * group_bytes, call.y + lane, call.y_stride);
  for (; lane + 8 <= call.lane1; lane += 8) Tokens<Type, 1>(call, b + lane / kGroup * group_bytes, call.y + lane, call.y_stride);
  if (lane == call.lane1) return;
  const std::uint64_t rest = call.lane1 - lane;  // the last lanes of the site: through a whole group beside y
  for (std::uint32_t i = 0; i < call.tokens; ++i) {
    alignas(32) float part[kGroup] = {};
    float* y = call.y + i * call.y_stride + lane;
    for (std::uint64_t j = 0; j < rest; ++j) part[j] = y[j];
    Block<Type, 1, 1>(call, {b + lane / kGroup * group_bytes, part, group_bytes, kGroup}, call.t + i * call.t_stride);
    for (std::uint64_t j = 0; j < rest; ++j) y[j] = part[j];
  }
}

}  // namespace

void ExpandF32(const ExpandCall& call) { ExpandOf<F32>(call); }
void ExpandF16(const ExpandCall& call) { ExpandOf<F16>(call); }
void ExpandBF16(const ExpandCall& call) { ExpandOf<BF16>(call); }

}  // namespace veneer_lora::avx2
