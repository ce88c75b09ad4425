#include "kernels/avx2/q8_0.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/tile.h"

namespace veneer::kernels::avx2 {

const TypeKernels kQ8_0 = {DequantizeRow<Q8_0>, DotRows<Q8_0>, DotRowsQ8<Q8_0>, MultiplyTile<Q8_0>};

}  // namespace veneer::kernels::avx2
