#include "kernels/avx2/nibbles.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/tile.h"

namespace veneer::kernels::avx2 {
namespace {

template <class Type>
constexpr TypeKernels Make() {
  return {DequantizeRow<Type>, DotRows<Type>, DotRowsQ8<Type>, MultiplyTile<Type>};
}

}  // namespace

const TypeKernels kQ4_0 = Make<Nibbles<BlockQ4_0, 8>>();
const TypeKernels kQ4_1 = Make<Nibbles<BlockQ4_1, 0>>();
const TypeKernels kQ5_0 = Make<Nibbles<BlockQ5_0, 16>>();
const TypeKernels kQ5_1 = Make<Nibbles<BlockQ5_1, 0>>();

}  // namespace veneer::kernels::avx2
