// Q4_K, Q5_K: as in AVX2, with the 32 bytes of two rows in a vector.
#include <cstdint>

#include "kernels/avx2/q4_k.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/superblocks.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/rows32.h"
#include "kernels/avx512/simd.h"
#include "kernels/avx512/tile.h"
#include "kernels/quant_blocks.h"

namespace veneer::kernels::avx512 {
namespace {

template <class StoredBlock>
struct WideSixBitScales : SixBitScales<StoredBlock> {
  using Base = SixBitScales<StoredBlock>;
  using Base::kHasFifthBit, Base::kRows, Base::kRun;
  using typename Base::Block, typename Base::Header;

  // Groups kFirst and kFirst + 1 of two rows, unsigned.
  template <int kFirst>
  VENEER_INLINE void Decode(const Block& x, const Block& y, __m512i (&out)[kRun]) {
    const __m512i stored = LoadTwo(x.qs + 16 * kFirst, y.qs + 16 * kFirst), low_half = _mm512_set1_epi8(15);
    out[0] = _mm512_and_si512(stored, low_half);
    out[1] = _mm512_and_si512(_mm512_srli_epi16(stored, 4), low_half);
    if constexpr (kHasFifthBit) {
      const __m512i qh = LoadTwo(x.qh, y.qh), bit = _mm512_set1_epi8(16);
      out[0] = OrAnd(out[0], Shift<kFirst - 4>(qh), bit);  // group g's bit g goes to bit 4
      out[1] = OrAnd(out[1], Shift<kFirst - 3>(qh), bit);
    }
  }

  // Every word: byte kByte of a word of `bytes`, in both its halves; words of rows 0..3 for lanes 0 and 1, of rows 4..7 for lanes 2 and 3.
  template <int kByte>
  VENEER_INLINE __m512i RowScales(__m256i bytes) {
    const __m256i scales = PickBytes<kByte, kByte>(bytes);
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3), _mm512_castsi256_si512(scales));
  }

  // Words hold four products, at most 4 x 31 x 127 = 15 748, and sums of eight fit 16 bits too.
  template <int k>
  VENEER_INLINE __m512i Scaled(const __m512i (&w)[4][kRun], const std::int8_t* x, __m512i scales) {
    const __m512i q = Broadcast32(x + static_cast<int>(kActivationBlock) * k), zero = _mm512_setzero_si512();
    const __m512i sums[4] = {_mm512_dpbusd_epi32(zero, w[0][k], q), _mm512_dpbusd_epi32(zero, w[1][k], q),
                             _mm512_dpbusd_epi32(zero, w[2][k], q), _mm512_dpbusd_epi32(zero, w[3][k], q)};
    return ScaledRows(sums, scales);
  }

  template <int kFirst, int kTokens>
  VENEER_INLINE void Dot(const void* const* rows, std::uint64_t s, const Header& header, const QuantizedActivations& x,
                         __m256i (&out)[kRun][kTokens]) {
    const __m512i scales[kRun] = {RowScales<kFirst % 4>(header.scale[kFirst / 4]), RowScales<kFirst % 4 + 1>(header.scale[kFirst / 4])};
    __m512i w[4][kRun];
    for (int i = 0; i < 4; ++i) Decode<kFirst>(Base::At(rows[i], s), Base::At(rows[i + 4], s), w[i]);
    for (std::uint32_t t = 0; t < kTokens; ++t) {
      const std::int8_t* q = x.q + t * x.q_stride;
      StoreTwo(AddLanePairs(Scaled<0>(w, q, scales[0]), Scaled<1>(w, q, scales[1])), out[0][t], out[1][t]);
    }
  }

  template <int kTokens>
  VENEER_INLINE void Multiply(const void* const* rows, std::uint64_t blocks, const QuantizedActivations& x, float (&out)[kTokens][kRows]) {
    MultiplySuperblocks<WideSixBitScales, kTokens>(rows, blocks, x, out);
  }
};

}  // namespace

const Q8Kernels kQ4_K = {DotRowsQ8<WideSixBitScales<BlockQ4_K>>, MultiplyTile<Q4_K, WideSteps>};
const Q8Kernels kQ5_K = {DotRowsQ8<WideSixBitScales<BlockQ5_K>>, MultiplyTile<Q5_K, WideSteps>};

}  // namespace veneer::kernels::avx512
