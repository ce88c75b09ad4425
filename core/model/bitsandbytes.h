// Weights that bitsandbytes stored: a packed tensor with its scales in tensors beside it becomes one logical weight (adapter-formats f).
#ifndef VENEER_CORE_MODEL_BITSANDBYTES_H_
#define VENEER_CORE_MODEL_BITSANDBYTES_H_

#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"
#include "core/model/hf_config.h"
#include "core/model/site_builder.h"

namespace veneer {

// The tensors of all shards, sorted by name, with every packed weight and its state joined into one tensor of type VNR_NF4 or VNR_INT8_ROW
// and logical shape; the others as they are. No number is copied but the two small maps.
// E402 a part of the state is missing or does not fit the weight, E401 a layout that is not implemented, E411 a scale that is not finite;
// each names the tensor.
Result<std::vector<BaseTensor>> JoinQuantized(std::span<const TensorView> tensors, HfQuantization quantization);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_BITSANDBYTES_H_
