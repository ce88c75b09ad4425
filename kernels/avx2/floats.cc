// F32, F16, BF16.
#include "kernels/avx2/floats.h"

#include "kernels/avx2/avx2.h"
#include "kernels/avx2/rows.h"

namespace veneer::kernels::avx2 {

const TypeKernels kF32 = {DequantizeRow<F32>, DotRows<F32>, nullptr};
const TypeKernels kF16 = {DequantizeRow<F16>, DotRows<F16>, nullptr};
const TypeKernels kBF16 = {DequantizeRow<BF16>, DotRows<BF16>, nullptr};

}  // namespace veneer::kernels::avx2
