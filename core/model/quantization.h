// The quantization claim of a base (DESIGN 7).
#ifndef VENEER_CORE_MODEL_QUANTIZATION_H_
#define VENEER_CORE_MODEL_QUANTIZATION_H_

#include <span>

#include "core/model/base.h"
#include "core/model/site_builder.h"

namespace veneer {

// Type that holds most elements of the 2-D tensors; of two with equally many, the one with the lower ggml number. The block of NF4 is that
// of its first tensor; int8 rows have one scale for a row of any length, and a block of 1.
Quantization QuantizationOf(std::span<const BaseTensor> tensors);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_QUANTIZATION_H_
