// How LoRA checkpoints of PEFT and LoRA adapters of llama.cpp map to the kind: constant data (veneer.import/1, veneer.import.gguf/1).
#ifndef VENEER_PLUGINS_LORA_IMPORT_H_
#define VENEER_PLUGINS_LORA_IMPORT_H_

#include "veneer/import.hpp"

namespace veneer_lora {

inline constexpr const char* kOtherMaths = "this variant computes something else than s B A x; it is another kind, not a lora";
inline constexpr const char* kActivated = "an activated LoRA acts only from an invocation sequence onward, so it has no single weight";
inline constexpr const char* kBaseChanged =
    "its initialisation changed the base weights, so it is only valid on that changed base; convert it when saving with PEFT's "
    "path_initial_model_for_weight_conversion";

// PEFT's LoraConfig. What the maths does not use, or what init_lora_weights decides alone, is accepted with any value.
inline constexpr vnr_import_rule kRules[] = {
    veneer::select("use_dora", "[null,false]"),
    veneer::accept("r"),
    veneer::accept("lora_alpha"),
    veneer::accept("rank_pattern"),
    veneer::accept("alpha_pattern"),
    veneer::accept("use_rslora", "[null,true,false]"),
    veneer::accept("lora_bias", "[null,true,false]"),
    veneer::accept("lora_dropout"),
    veneer::base_changed("init_lora_weights", R"(["pissa*","olora","corda","lora_ga","loftq"])", kBaseChanged),
    veneer::accept("init_lora_weights", R"([null,true,false,"gaussian","eva","orthogonal","mica"])"),
    veneer::accept("loftq_config"),
    veneer::accept("eva_config"),
    veneer::accept("corda_config"),
    veneer::accept("lora_ga_config"),
    veneer::accept("kasa_config", "[null,{}]"),
    veneer::base_changed("kasa_config", nullptr, kBaseChanged),
    veneer::accept("use_qalora", "[null,false]"),
    veneer::refuse("use_qalora", nullptr, "QALoRA pools the input over groups; that is another kind, not a lora"),
    veneer::accept("qalora_group_size"),
    veneer::accept("use_bdlora", "[null,false]"),
    veneer::refuse("use_bdlora", nullptr, kOtherMaths),
    veneer::accept("velora_config", "[null,{}]"),
    veneer::refuse("velora_config", nullptr, kOtherMaths),
    veneer::accept("monteclora_config", "[null,{}]"),
    veneer::refuse("monteclora_config", nullptr, kOtherMaths),
    veneer::accept("arrow_config", "[null,{}]"),
    veneer::refuse("arrow_config", nullptr, "Arrow routes between adapters by their input; a kind has one fixed edit"),
    veneer::accept("megatron_config", "[null,{}]"),
    veneer::refuse("megatron_config", nullptr, "Megatron's split layers are not read; export the adapter for Hugging Face modules"),
    veneer::accept("megatron_core"),
    veneer::accept("alora_invocation_tokens", "[null,[]]"),
    veneer::refuse("alora_invocation_tokens", nullptr, kActivated),
};
inline constexpr auto kRuleList = veneer::pointers(kRules);

inline constexpr vnr_import_tensor kTensors[] = {
    veneer::tensor(".lora_A.weight", "A", VNR_BIT(VNR_SITE_LINEAR)),
    veneer::tensor(".lora_B.weight", "B", VNR_BIT(VNR_SITE_LINEAR)),
    veneer::tensor_when(VNR_IMPORT_WHEN_LISTED, "lora_bias", nullptr, ".lora_B.bias", "bias", VNR_BIT(VNR_SITE_LINEAR)),
    veneer::tensor(".lora_embedding_A", "embedding_A", VNR_BIT(VNR_SITE_EMBEDDING)),
    veneer::tensor(".lora_embedding_B", "embedding_B", VNR_BIT(VNR_SITE_EMBEDDING)),
};
inline constexpr auto kTensorList = veneer::pointers(kTensors);

inline constexpr vnr_import_scale kScale = {
    sizeof(vnr_import_scale), 0, "/scale", "lora_alpha", "alpha_pattern", "r", "rank_pattern", "use_rslora", 8.0, 8.0};

inline constexpr vnr_import kImport =
    veneer::import_of("LORA", R"({"llama":["q_proj","v_proj"],"qwen2":["q_proj","v_proj"],"qwen3":["q_proj","v_proj"]})", "r", &kScale,
                      kRuleList, kTensorList);

// llama.cpp's adapters (its llama-adapter.cpp and convert_lora_to_gguf.py). The embedding's A lies token by token there.
inline constexpr vnr_import_rule kGgufRules[] = {
    veneer::refuse("adapter.alora.invocation_tokens", nullptr, kActivated),
    veneer::accept("adapter.lora.task_name"),
    veneer::accept("adapter.lora.prompt_prefix"),
};
inline constexpr auto kGgufRuleList = veneer::pointers(kGgufRules);

inline constexpr vnr_import_gguf_tensor kGgufTensors[] = {
    veneer::gguf_tensor(".lora_a", "A", VNR_BIT(VNR_SITE_LINEAR)),
    veneer::gguf_tensor(".lora_b", "B", VNR_BIT(VNR_SITE_LINEAR)),
    veneer::gguf_tensor(".lora_a", "embedding_A", VNR_BIT(VNR_SITE_EMBEDDING), VNR_IMPORT_GGUF_TRANSPOSED),
    veneer::gguf_tensor(".lora_b", "embedding_B", VNR_BIT(VNR_SITE_EMBEDDING)),
};
inline constexpr auto kGgufTensorList = veneer::pointers(kGgufTensors);

inline constexpr vnr_import_gguf kGgufImport =
    veneer::import_gguf_of("lora", "r", "/scale", "adapter.lora.alpha", kGgufRuleList, kGgufTensorList);

}  // namespace veneer_lora

#endif  // VENEER_PLUGINS_LORA_IMPORT_H_
