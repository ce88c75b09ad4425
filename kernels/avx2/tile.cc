#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/simd.h"

namespace veneer::kernels::avx2 {
namespace {

struct Token {
  __m256i q;
  float d;
  std::int32_t sum;
};

VENEER_INLINE void Store16(void* p, __m128i v) { _mm_store_si128(static_cast<__m128i*>(p), v); }

// Four dwords of each of four tokens -> four steps of four tokens.
VENEER_INLINE void StoreFourSteps(const __m128i v[4], std::int8_t (*q)[kPackedTokens][4]) {
  const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpacklo_epi32(v[2], v[3]);
  const __m128i c = _mm_unpackhi_epi32(v[0], v[1]), d = _mm_unpackhi_epi32(v[2], v[3]);
  Store16(q[0], _mm_unpacklo_epi64(a, b));
  Store16(q[1], _mm_unpackhi_epi64(a, b));
  Store16(q[2], _mm_unpacklo_epi64(c, d));
  Store16(q[3], _mm_unpackhi_epi64(c, d));
}

// Two int16 for each token: lanes 0 and 4 of each vector, at most 16 x 127.
VENEER_INLINE __m128i LanePairs(const __m256i v[4]) {
  const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpacklo_epi32(v[2], v[3]);
  const __m256i tokens = _mm256_unpacklo_epi64(a, b);  // lane 0 of tokens 0..3 | lane 4 of them
  const __m128i first = _mm256_castsi256_si128(tokens), second = _mm256_extracti128_si256(tokens, 1);
  return _mm_unpacklo_epi16(_mm_packs_epi32(first, first), _mm_packs_epi32(second, second));
}

VENEER_INLINE void Pack(const Token (&tokens)[kPackedTokens], PackedBlock& block) {
  const __m256i ones8 = _mm256_set1_epi8(1), ones16 = _mm256_set1_epi16(1);
  __m128i low[4], high[4];
  __m256i quarters[4], halves[4];
  for (std::uint32_t t = 0; t < kPackedTokens; ++t) {
    const __m256i q = tokens[t].q;
    const __m128i first = _mm256_castsi256_si128(q), second = _mm256_extracti128_si256(q, 1);
    low[t] = _mm_unpacklo_epi16(first, second);
    high[t] = _mm_unpackhi_epi16(first, second);
    const __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(ones8, q), ones16);
    quarters[t] = _mm256_add_epi32(fours, _mm256_srli_epi64(fours, 32));           // lanes 0 and 4: columns 0..7 and 16..23
    halves[t] = _mm256_add_epi32(quarters[t], _mm256_srli_si256(quarters[t], 8));  // all of the half
    block.d[t] = tokens[t].d;
    block.sum[t] = tokens[t].sum;
  }
  StoreFourSteps(low, block.q);
  StoreFourSteps(high, block.q + 4);
  Store16(block.half, LanePairs(halves));
  Store16(block.first_steps, LanePairs(quarters));
}

}  // namespace

void PackActivations(const QuantizedActivations& x, std::uint32_t tokens, std::uint64_t blocks, PackedBlock* packed) {
  for (std::uint64_t b = 0; b < blocks; ++b) {
    Token group[kPackedTokens] = {};
    for (std::uint32_t t = 0; t < tokens; ++t)
      group[t] = {LoadBytes(x.q + t * x.q_stride + kActivationBlock * b), x.d[t * x.block_stride + b], x.sum[t * x.block_stride + b]};
    Pack(group, packed[b]);
  }
}

}  // namespace veneer::kernels::avx2
