#include "kernels/avx512/tile.h"

#include <cstdint>

#include "kernels/avx2/avx2.h"
#include "kernels/avx512/avx512.h"

namespace veneer::kernels::avx512 {
namespace {

// AVX2 packs two columns of each half of a block into a step. Where, among the 64 pairs of columns in PackedBlock::q, it has those of steps
// 0..3 of four neighbouring columns; those of steps 4..7 come one later.
struct Places {
  alignas(64) std::int16_t of[32];
  constexpr Places() : of() {
    for (int i = 0; i < 32; ++i) {
      const int step = i / (2 * kTokens), token = i / 2 % kTokens, pair = i % 2;
      of[i] = static_cast<std::int16_t>(2 * (kTokens * (2 * step + pair) + token));
    }
  }
};
constexpr Places kPlaces = {};

}  // namespace

void PackActivations(const QuantizedActivations& x, std::uint32_t tokens, std::uint64_t blocks, PackedBlock* packed) {
  avx2::PackActivations(x, tokens, blocks, packed);
  const __m512i first = _mm512_load_si512(kPlaces.of), second = _mm512_add_epi16(first, _mm512_set1_epi16(1));
  for (std::uint64_t b = 0; b < blocks; ++b) {
    auto& q = packed[b].q;
    const __m512i low = _mm512_load_si512(q[0]), high = _mm512_load_si512(q[4]);
    _mm512_store_si512(q[0], _mm512_permutex2var_epi16(low, first, high));
    _mm512_store_si512(q[4], _mm512_permutex2var_epi16(low, second, high));
  }
}

}  // namespace veneer::kernels::avx512
