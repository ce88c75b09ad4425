// The architectures that are read. All are Llama's block (RMS norms, grouped-query attention with rotary embedding, SwiGLU); an entry
// says in what it differs. Source of each: adapter-formats e.6 and g.3, and the architecture's module in Hugging Face transformers.
#ifndef VENEER_CORE_MODEL_ARCHITECTURE_H_
#define VENEER_CORE_MODEL_ARCHITECTURE_H_

#include <array>
#include <string_view>

#include "core/base/error.h"

namespace veneer {

struct Architecture {
  std::string_view name;  // general.architecture, and the prefix of the metadata keys
  // A GGUF holds the rows of q_proj and k_proj (weight and bias) interleaved within each head, for a rotary embedding of adjacent
  // pairs. Otherwise they lie in Hugging Face order, and the pairs are (i, i + head_dim / 2).
  bool has_interleaved_heads;
  // q_proj, k_proj and v_proj always have a bias, so that a file without one is damaged. Elsewhere a bias may be there or not.
  bool has_qkv_biases;
  // q_norm and k_norm [head_dim]: an RMS norm of each head of q and of k, before the rotary embedding.
  bool has_head_norms;
};

inline constexpr std::array kArchitectures = {
    Architecture{"llama", true, false, false},
    Architecture{"qwen2", false, true, false},
    Architecture{"qwen3", false, false, true},
};

// E401 at the key that holds the name, for one that is not among them; the message lists them.
Result<const Architecture*> FindArchitecture(std::string_view name, std::string_view key = "general.architecture");

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_ARCHITECTURE_H_
