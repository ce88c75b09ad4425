#include "kernels/avx2/q6_k.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/tile.h"

namespace veneer::kernels::avx2 {

const TypeKernels kQ6_K = {DequantizeRow<Q6_K>, DotRows<Q6_K>, DotRowsQ8<Q6_K>, MultiplyTile<Q6_K>};

}  // namespace veneer::kernels::avx2
