#include "kernels/avx2/q4_k.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/tile.h"

namespace veneer::kernels::avx2 {

const TypeKernels kQ4_K = {DequantizeRow<Q4_K>, DotRows<Q4_K>, DotRowsQ8<Q4_K>, MultiplyTile<Q4_K>};
const TypeKernels kQ5_K = {DequantizeRow<Q5_K>, DotRows<Q5_K>, DotRowsQ8<Q5_K>, MultiplyTile<Q5_K>};

}  // namespace veneer::kernels::avx2
