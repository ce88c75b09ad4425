// Writes safetensors files: tensors in the given order, without holes, the header padded to 8 bytes as the reference writer does.
#ifndef VENEER_CORE_FORMAT_SAFETENSORS_WRITER_H_
#define VENEER_CORE_FORMAT_SAFETENSORS_WRITER_H_

#include <span>
#include <string>

#include "core/base/error.h"
#include "core/format/tensor_file.h"

namespace veneer {

// The whole file. E401 for an element type that the format has no name for.
Result<std::string> WriteSafetensors(std::span<const TensorView> tensors);

}  // namespace veneer

#endif  // VENEER_CORE_FORMAT_SAFETENSORS_WRITER_H_
