#include "core/model/quantization.h"

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/format/gguf.h"

namespace veneer {
namespace {

std::string_view SchemeOf(DType dtype) {
  switch (dtype) {
    case VNR_Q4_0:
    case VNR_Q5_0:
    case VNR_Q8_0:
    case VNR_INT8_ROW:
      return "symmetric";
    case VNR_Q4_1:
    case VNR_Q5_1:
      return "affine";
    case VNR_Q2_K:
    case VNR_Q3_K:
    case VNR_Q4_K:
    case VNR_Q5_K:
    case VNR_Q6_K:
      return "k";
    case VNR_IQ4_NL:
    case VNR_NF4:
      return "codebook";
    default:
      return "none";
  }
}

}  // namespace

Quantization QuantizationOf(std::span<const BaseTensor> tensors) {
  std::map<std::uint32_t, std::pair<std::uint64_t, const BaseTensor*>> elements;  // by ggml number
  for (const BaseTensor& tensor : tensors) {
    if (tensor.view.shape.size() != 2) continue;
    auto& [count, first] = elements[GgmlTypeId(tensor.view.dtype).value_or(UINT32_MAX)];
    count += tensor.view.elements();
    if (first == nullptr) first = &tensor;
  }
  std::uint64_t most = 0;
  const BaseTensor* chosen = nullptr;
  for (const auto& [id, entry] : elements) {
    if (entry.first <= most) continue;
    most = entry.first;
    chosen = entry.second;
  }
  const DType dtype = chosen == nullptr ? DType{VNR_F32} : chosen->view.dtype;
  const std::uint64_t block =
      dtype == VNR_NF4 ? std::uint64_t{1} << chosen->scales->block_shift : std::uint64_t{InfoOf(dtype).block_elements};
  return {.dtype = std::string(InfoOf(dtype).name), .scheme = std::string(SchemeOf(dtype)), .block_size = block};
}

}  // namespace veneer
