// The sites of a base, whatever format it comes in: every tensor of its files is placed as its architecture asks, or the base is refused.
#ifndef VENEER_CORE_MODEL_SITE_BUILDER_H_
#define VENEER_CORE_MODEL_SITE_BUILDER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"
#include "core/model/architecture.h"
#include "core/model/base.h"
#include "core/model/site.h"
#include "core/model/site_names.h"
#include "kernels/scaled_rows.h"

namespace veneer {

struct BaseTensor {
  TensorView view;
  std::shared_ptr<const kernels::WeightScales> scales;  // of a type whose scales lie in other tensors
};

// What the formats do differently.
struct SiteFormat {
  std::string_view ModuleName::* module;              // how it names modules
  std::string_view layer_prefix;                      // "model.layers.": what stands before the number of a layer
  bool interleaves_heads;                             // the rows of q and k, for architectures that have that order
  std::span<const DType> matrix_types, vector_types;  // that it may hold them in; matrices need kernels beside
  std::string_view authority;                         // "config.json": what states the shapes
  std::string_view remedy;                            // for a base that is damaged or incomplete
  // Tensors that are no site and may be there.
  bool (*is_ignored)(std::string_view name);
};

// Sites in a fixed order: model.embed_tokens; for each layer input_layernorm, q_proj, k_proj, v_proj, o_proj, q_norm and k_norm where
// the architecture has them, post_attention_layernorm, gate_proj, up_proj, down_proj; model.norm; lm_head. A module with a bias is
// followed by the VECTOR site "<module>.bias".
// E402 a tensor is missing, E404 it has another shape (both are named), E401 it has a type without kernels or no place.
Result<std::vector<Site>> BuildSites(std::span<const BaseTensor> tensors, const ModelConfig& config, const SiteFormat& format);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_SITE_BUILDER_H_
