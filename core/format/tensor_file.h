// What the GGUF and the safetensors reader return: named, typed views over bytes that somebody else keeps alive.
#ifndef VENEER_CORE_FORMAT_TENSOR_FILE_H_
#define VENEER_CORE_FORMAT_TENSOR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "veneer/abi.h"

namespace veneer {

// Element or block type; the values are the ABI's (VNR_F32, VNR_Q4_0, ...).
using DType = std::uint32_t;

struct DTypeInfo {
  std::string_view name;         // "q4_0", as llama.cpp and safetensors users write it, lower case
  std::uint32_t block_elements;  // 1 for plain types, 32 for Q4_0, 256 for Q4_K
  std::uint32_t block_bytes;
};
const DTypeInfo& InfoOf(DType dtype);  // aborts on a value that is not a VNR_* type

// Row-major, shape[0] outermost: a GGUF `ne = [in, out]` is shape [out, in].
struct TensorView {
  std::string name;
  DType dtype = VNR_F32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;

  [[nodiscard]] std::uint64_t elements() const;  // checked by the reader that made the view
};

std::string ShapeText(std::span<const std::uint64_t> shape);  // "[4096, 16]"

}  // namespace veneer

#endif  // VENEER_CORE_FORMAT_TENSOR_FILE_H_
