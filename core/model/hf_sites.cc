#include "core/model/hf_sites.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace veneer {
namespace {

constexpr std::array<DType, 5> kMatrixTypes = {VNR_F32, VNR_F16, VNR_BF16, VNR_NF4, VNR_INT8_ROW};
constexpr std::array<DType, 3> kVectorTypes = {VNR_F32, VNR_F16, VNR_BF16};

SiteFormat Format(bool is_tied) {
  return {.module = &ModuleName::hf,
          .layer_prefix = "model.layers.",
          .interleaves_heads = false,
          .matrix_types = kMatrixTypes,
          .vector_types = kVectorTypes,
          .authority = "config.json",
          .remedy = "download the model again",
          // Old checkpoints hold the rotary frequencies, which config.json states too.
          .is_ignored = is_tied ? [](std::string_view name) { return name.ends_with(".rotary_emb.inv_freq") || name == "lm_head.weight"; }
                                : [](std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }};
}

const BaseTensor* Find(std::span<const BaseTensor> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, [](const BaseTensor& one) -> const std::string& { return one.view.name; });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

Result<std::vector<Site>> BuildHfSites(std::span<const BaseTensor> tensors, const ModelConfig& config) {
  if (config.tied_head) {
    const BaseTensor *const head = Find(tensors, "lm_head.weight"), *const embedding = Find(tensors, "model.embed_tokens.weight");
    if (head != nullptr && embedding != nullptr &&
        (head->view.dtype != embedding->view.dtype || !std::ranges::equal(head->view.bytes, embedding->view.bytes)))
      return Fail(
          Code::HEADER_CORRUPT, head->view.name,
          "is another matrix than model.embed_tokens, and config.json says tie_word_embeddings; set it to false if the head is meant");
  }
  return BuildSites(tensors, config, Format(config.tied_head));
}

}  // namespace veneer
