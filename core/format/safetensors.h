// safetensors: header and tensor views over bytes that the caller keeps alive. Every rule of the reference reader and of its
// README is enforced: no duplicate keys, no holes, no overlap, no trailing bytes, header at most 16 MiB.
#ifndef VENEER_CORE_FORMAT_SAFETENSORS_H_
#define VENEER_CORE_FORMAT_SAFETENSORS_H_

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"

namespace veneer {

struct SafetensorsFile {
  std::vector<TensorView> tensors;                            // sorted by name
  std::vector<std::pair<std::string, std::string>> metadata;  // __metadata__

  // E401 for a pickle, zip or unknown dtype (named), E402 header, E403 offsets, E105 duplicate key.
  static Result<SafetensorsFile> Parse(std::span<const std::byte> bytes);
};

// "BF16": how the format spells an element type; empty for one that it does not have.
std::string_view SafetensorsName(DType dtype);

}  // namespace veneer

#endif  // VENEER_CORE_FORMAT_SAFETENSORS_H_
