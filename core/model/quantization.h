// The quantization claim of a GGUF base (DESIGN 7).
#ifndef VENEER_CORE_MODEL_QUANTIZATION_H_
#define VENEER_CORE_MODEL_QUANTIZATION_H_

#include "core/format/gguf.h"
#include "core/model/base.h"

namespace veneer {

// Type that holds most elements of the 2-D tensors; of two with equally many, the one with the lower ggml number.
Quantization QuantizationOf(const GgufFile& file);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_QUANTIZATION_H_
