#include "core/model/hf_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
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

Status CheckBiases(std::span<const Site> sites, std::string_view part, const std::optional<bool>& stated, std::string_view key) {
  if (!stated) return {};
  for (const Site& site : sites)
    if (site.shape_class == SiteClass::kLinear && site.id.contains(part) && site.bias.has_value() != *stated)
      return Fail(Code::HEADER_CORRUPT, site.id + ".bias",
                  fmt::format("is {}, and config.json says {} {}; download the model again", *stated ? "missing" : "there", key, *stated));
  return {};
}

}  // namespace

Result<std::vector<Site>> BuildHfSites(std::span<const BaseTensor> tensors, const HfConfig& config) {
  if (config.model.tied_head) {
    const BaseTensor *const head = Find(tensors, "lm_head.weight"), *const embedding = Find(tensors, "model.embed_tokens.weight");
    if (head != nullptr && embedding != nullptr &&
        (head->view.dtype != embedding->view.dtype || !std::ranges::equal(head->view.bytes, embedding->view.bytes)))
      return Fail(
          Code::HEADER_CORRUPT, head->view.name,
          "is another matrix than model.embed_tokens, and config.json says tie_word_embeddings; set it to false if the head is meant");
  }
  VENEER_ASSIGN(std::vector<Site> sites, BuildSites(tensors, config.model, Format(config.model.tied_head)));
  VENEER_ASSIGN(const Architecture* const architecture, FindArchitecture(config.model.arch));
  // Where q, k and v always have one the key does not count.
  if (!architecture->has_qkv_biases) VENEER_TRY(CheckBiases(sites, ".self_attn.", config.attention_bias, "attention_bias"));
  VENEER_TRY(CheckBiases(sites, ".mlp.", config.mlp_bias, "mlp_bias"));
  return sites;
}

}  // namespace veneer
