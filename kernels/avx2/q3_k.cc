#include "kernels/avx2/q3_k.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/tile.h"

namespace veneer::kernels::avx2 {

const TypeKernels kQ3_K = {DequantizeRow<Q3_K>, DotRows<Q3_K>, DotRowsQ8<Q3_K>, MultiplyTile<Q3_K>};

}  // namespace veneer::kernels::avx2
