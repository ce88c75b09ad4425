#include "kernels/avx2/iq4_nl.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"
#include "kernels/avx2/rows_q8.h"
#include "kernels/avx2/tile.h"

namespace veneer::kernels::avx2 {

const TypeKernels kIq4Nl = {DequantizeRow<Iq4Nl>, DotRows<Iq4Nl>, DotRowsQ8<Iq4Nl>, MultiplyTile<Iq4Nl>};

}  // namespace veneer::kernels::avx2
