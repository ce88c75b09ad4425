#include "core/model/quantization.h"

#include <map>
#include <string_view>
#include <utility>

namespace veneer {
namespace {

std::string_view SchemeOf(DType dtype) {
  switch (dtype) {
    case VNR_Q4_0:
    case VNR_Q5_0:
    case VNR_Q8_0:
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
      return "codebook";
    default:
      return "none";
  }
}

}  // namespace

Quantization QuantizationOf(const GgufFile& file) {
  std::map<std::uint32_t, std::pair<std::uint64_t, DType>> elements;  // by ggml number
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.shape.size() != 2) continue;
    auto& [count, dtype] = elements[GgmlTypeId(tensor.dtype).value_or(UINT32_MAX)];
    count += tensor.elements();
    dtype = tensor.dtype;
  }
  std::uint64_t most = 0;
  DType dtype = VNR_F32;
  for (const auto& [id, entry] : elements) {
    if (entry.first <= most) continue;
    most = entry.first;
    dtype = entry.second;
  }
  return {.dtype = std::string(InfoOf(dtype).name), .scheme = std::string(SchemeOf(dtype)), .block_size = InfoOf(dtype).block_elements};
}

}  // namespace veneer
