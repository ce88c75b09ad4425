// Exact products of F32, F16 and BF16 for several tokens, with the sums of AVX2 two vectors at a time: each lane sees the same numbers in
// the same order, so the bits are the same.
#include "kernels/avx2/floats.h"

#include <cstdint>

#include "kernels/avx2/rows.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/simd.h"

namespace veneer::kernels::avx512 {
namespace {

struct Vector512 {
  using Floats = __m512;
  static constexpr std::uint64_t kWidth = 16;
  static constexpr int kMostTokens = 6;

  VENEER_INLINE Floats Load(const float* p) { return _mm512_loadu_ps(p); }
  VENEER_INLINE void Store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  VENEER_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats sum) { return _mm512_fmadd_ps(a, b, sum); }
};

}  // namespace

const Table::DotRows kDotRowsF32 = DotRows<F32, Vector512>;
const Table::DotRows kDotRowsF16 = DotRows<F16, Vector512>;
const Table::DotRows kDotRowsBF16 = DotRows<BF16, Vector512>;

}  // namespace veneer::kernels::avx512
