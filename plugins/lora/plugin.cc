// The entry of the lora plugin, and how PEFT's LoRA checkpoints map to it (constant data).
#include "plugins/lora/overlay.h"

namespace veneer_lora {
namespace {

constexpr vnr_import_rule Rule(uint32_t action, const char* key, const char* values = nullptr, const char* text = nullptr) {
  return {sizeof(vnr_import_rule), action, key, values, text};
}
constexpr vnr_import_tensor Tensor(const char* suffix, const char* role, uint32_t site_class) {
  return {sizeof(vnr_import_tensor), 0, VNR_BIT(site_class), 0, suffix, role, nullptr, nullptr};
}

constexpr const char* kOtherMaths = "this variant computes something else than s B A x; it is another kind, not a lora";
constexpr const char* kBaseChanged =
    "its initialisation changed the base weights, so it is only valid on that changed base; convert it when saving with PEFT's "
    "path_initial_model_for_weight_conversion";

constexpr vnr_import_rule kRules[] = {
    Rule(VNR_CFG_SELECT, "use_dora", "[null,false]"),
    Rule(VNR_CFG_BASE_CHANGED, "init_lora_weights", R"(["pissa*","olora","corda","loftq","lora_ga"])", kBaseChanged),
    Rule(VNR_CFG_ACCEPT, "init_lora_weights", R"([null,true,false,"gaussian","eva","orthogonal","mica"])"),
    Rule(VNR_CFG_ACCEPT, "kasa_config", "[null,{}]"),
    Rule(VNR_CFG_BASE_CHANGED, "kasa_config", nullptr, kBaseChanged),
    Rule(VNR_CFG_ACCEPT, "r"),
    Rule(VNR_CFG_ACCEPT, "lora_alpha"),
    Rule(VNR_CFG_ACCEPT, "rank_pattern"),
    Rule(VNR_CFG_ACCEPT, "alpha_pattern"),
    Rule(VNR_CFG_ACCEPT, "use_rslora"),
    Rule(VNR_CFG_ACCEPT, "lora_bias"),
    Rule(VNR_CFG_ACCEPT, "lora_dropout"),
    Rule(VNR_CFG_ACCEPT, "loftq_config", "[null,{}]"),
    Rule(VNR_CFG_BASE_CHANGED, "loftq_config", nullptr, kBaseChanged),
    Rule(VNR_CFG_ACCEPT, "eva_config"),
    Rule(VNR_CFG_ACCEPT, "corda_config", "[null,{}]"),
    Rule(VNR_CFG_BASE_CHANGED, "corda_config", nullptr, kBaseChanged),
    Rule(VNR_CFG_ACCEPT, "lora_ga_config", "[null,{}]"),
    Rule(VNR_CFG_BASE_CHANGED, "lora_ga_config", nullptr, kBaseChanged),
    Rule(VNR_CFG_ACCEPT, "qalora_group_size"),
    Rule(VNR_CFG_REFUSE, "use_qalora", "[true]", "QALoRA pools the input over groups; this kind does not"),
    Rule(VNR_CFG_ACCEPT, "use_qalora", "[null,false]"),
    Rule(VNR_CFG_ACCEPT, "alora_invocation_tokens", "[null,[]]"),
    Rule(VNR_CFG_REFUSE, "alora_invocation_tokens", nullptr,
         "an activated LoRA acts from an invocation sequence onward; there is no single weight for it"),
    Rule(VNR_CFG_ACCEPT, "megatron_core"),
    Rule(VNR_CFG_ACCEPT, "megatron_config", "[null,{}]"),
    Rule(VNR_CFG_REFUSE, "megatron_config", nullptr, "Megatron's split layers are not read; export for Hugging Face modules"),
    Rule(VNR_CFG_ACCEPT, "use_bdlora", "[null,false]"),
    Rule(VNR_CFG_REFUSE, "use_bdlora", nullptr, kOtherMaths),
    Rule(VNR_CFG_ACCEPT, "velora_config", "[null,{}]"),
    Rule(VNR_CFG_REFUSE, "velora_config", nullptr, kOtherMaths),
    Rule(VNR_CFG_ACCEPT, "monteclora_config", "[null,{}]"),
    Rule(VNR_CFG_REFUSE, "monteclora_config", nullptr, kOtherMaths),
    Rule(VNR_CFG_ACCEPT, "arrow_config", "[null,{}]"),
    Rule(VNR_CFG_REFUSE, "arrow_config", nullptr, kOtherMaths),
};
constexpr vnr_import_tensor kTensors[] = {
    Tensor(".lora_A.weight", "A", VNR_SITE_LINEAR),
    Tensor(".lora_B.weight", "B", VNR_SITE_LINEAR),
    Tensor(".lora_B.bias", "bias", VNR_SITE_LINEAR),
    Tensor(".lora_embedding_A", "embedding_A", VNR_SITE_EMBEDDING),
    Tensor(".lora_embedding_B", "embedding_B", VNR_SITE_EMBEDDING),
};
constexpr vnr_import_scale kScale = {sizeof(vnr_import_scale), 0,   "/scale",       "lora_alpha", "alpha_pattern", "r",
                                     "rank_pattern",           "use_rslora", 8.0, 8.0};

template <class T, size_t N>
struct Pointers {
  const T* p[N];
};
template <class T, size_t N, size_t... I>
constexpr Pointers<T, N> Point(const T (&values)[N], std::index_sequence<I...>) {
  return {{&values[I]...}};
}
constexpr auto kRulePointers = Point(kRules, std::make_index_sequence<sizeof(kRules) / sizeof(kRules[0])>());
constexpr auto kTensorPointers = Point(kTensors, std::make_index_sequence<sizeof(kTensors) / sizeof(kTensors[0])>());

constexpr vnr_import kImport = {
    sizeof(vnr_import), sizeof(kRules) / sizeof(kRules[0]), sizeof(kTensors) / sizeof(kTensors[0]), 0, "LORA",
    R"({"llama":["q_proj","v_proj"],"qwen2":["q_proj","v_proj"],"qwen3":["q_proj","v_proj"]})", "r", &kScale, kRulePointers.p,
    kTensorPointers.p, nullptr};

}  // namespace

const vnr_import* LoraOverlay::import() { return &kImport; }

}  // namespace veneer_lora

VENEER_OVERLAY("veneer-lora", "1.0.0", veneer_lora::LoraOverlay)
