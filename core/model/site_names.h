// The modules of the architectures that are read, under their Hugging Face and their GGUF names (adapter-formats e.6).
#ifndef VENEER_CORE_MODEL_SITE_NAMES_H_
#define VENEER_CORE_MODEL_SITE_NAMES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace veneer {

struct ModuleName {
  std::string_view gguf, hf;
};

inline constexpr ModuleName kEmbedTokens = {"token_embd", "model.embed_tokens"};
inline constexpr ModuleName kFinalNorm = {"output_norm", "model.norm"};
inline constexpr ModuleName kLmHead = {"output", "lm_head"};

// "blk.N.<gguf>" is "model.layers.N.<hf>". In the order of the sites within a layer.
inline constexpr ModuleName kInputNorm = {"attn_norm", "input_layernorm"};
inline constexpr ModuleName kQ = {"attn_q", "self_attn.q_proj"};
inline constexpr ModuleName kK = {"attn_k", "self_attn.k_proj"};
inline constexpr ModuleName kV = {"attn_v", "self_attn.v_proj"};
inline constexpr ModuleName kO = {"attn_output", "self_attn.o_proj"};
inline constexpr ModuleName kQNorm = {"attn_q_norm", "self_attn.q_norm"};
inline constexpr ModuleName kKNorm = {"attn_k_norm", "self_attn.k_norm"};
inline constexpr ModuleName kPostAttentionNorm = {"ffn_norm", "post_attention_layernorm"};
inline constexpr ModuleName kGate = {"ffn_gate", "mlp.gate_proj"};
inline constexpr ModuleName kUp = {"ffn_up", "mlp.up_proj"};
inline constexpr ModuleName kDown = {"ffn_down", "mlp.down_proj"};

inline constexpr std::array kGlobalModules = {kEmbedTokens, kFinalNorm, kLmHead};
inline constexpr std::array kLayerModules = {kInputNorm, kQ, kK, kV, kO, kQNorm, kKNorm, kPostAttentionNorm, kGate, kUp, kDown};

// "blk.3.attn_q", "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj"; "blk.3.attn_q.bias" -> the same with ".bias".
std::optional<std::string> HuggingFaceName(std::string_view gguf_name);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_SITE_NAMES_H_
