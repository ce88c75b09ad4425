// The sites of a GGUF base: every tensor of the file is placed as its architecture asks, or the file is refused.
#ifndef VENEER_CORE_MODEL_GGUF_SITES_H_
#define VENEER_CORE_MODEL_GGUF_SITES_H_

#include <vector>

#include "core/base/error.h"
#include "core/format/gguf.h"
#include "core/model/base.h"
#include "core/model/site.h"

namespace veneer {

// Sites in a fixed order: model.embed_tokens; for each layer input_layernorm, q_proj, k_proj, v_proj, o_proj, q_norm and k_norm where
// the architecture has them, post_attention_layernorm, gate_proj, up_proj, down_proj; model.norm; lm_head. A module with a bias is
// followed by the VECTOR site "<module>.bias".
// E402 a tensor is missing, E404 it has another shape (both are named), E401 it has a type without kernels or no place.
Result<std::vector<Site>> BuildGgufSites(const GgufFile& file, const ModelConfig& config);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_GGUF_SITES_H_
