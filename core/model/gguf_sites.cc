#include "core/model/gguf_sites.h"

#include <array>
#include <string_view>

namespace veneer {
namespace {

constexpr std::array<DType, 14> kMatrixTypes = {VNR_F32,  VNR_F16,  VNR_BF16, VNR_Q4_0, VNR_Q4_1, VNR_Q5_0, VNR_Q5_1,
                                                VNR_Q8_0, VNR_Q2_K, VNR_Q3_K, VNR_Q4_K, VNR_Q5_K, VNR_Q6_K, VNR_IQ4_NL};
constexpr std::array<DType, 1> kVectorTypes = {VNR_F32};

constexpr SiteFormat kGguf = {
    .module = &ModuleName::gguf,
    .layer_prefix = "blk.",
    .interleaves_heads = true,
    .matrix_types = kMatrixTypes,
    .vector_types = kVectorTypes,
    .authority = "the metadata",
    .remedy = "convert the model again",
    .is_ignored = [](std::string_view name) { return name == "rope_freqs.weight"; },  // read and checked with the configuration
};

}  // namespace

std::vector<BaseTensor> TensorsOf(const GgufFile& file) {
  std::vector<BaseTensor> tensors;
  tensors.reserve(file.tensors().size());
  for (const TensorView& tensor : file.tensors()) tensors.push_back({tensor, nullptr});
  return tensors;
}

Result<std::vector<Site>> BuildGgufSites(std::span<const BaseTensor> tensors, const ModelConfig& config) {
  return BuildSites(tensors, config, kGguf);
}

}  // namespace veneer
