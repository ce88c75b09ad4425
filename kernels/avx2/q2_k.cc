#include "kernels/avx2/q2_k.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/tile.h"

namespace veneer::kernels::avx2 {

const TypeKernels kQ2_K = {DequantizeRow<Q2_K>, DotRows<Q2_K>, DotRowsQ8<Q2_K>, MultiplyTile<Q2_K>};

}  // namespace veneer::kernels::avx2
