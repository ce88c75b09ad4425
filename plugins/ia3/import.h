// How PEFT's IA3 checkpoints map to the kind: constant data (veneer.import/1).
#ifndef VENEER_PLUGINS_IA3_IMPORT_H_
#define VENEER_PLUGINS_IA3_IMPORT_H_

#include "veneer/import.hpp"

namespace veneer_ia3 {

inline constexpr vnr_import_rule kRules[] = {
    veneer::accept("feedforward_modules"),
    veneer::accept("init_ia3_weights"),
};
inline constexpr auto kRuleList = veneer::pointers(kRules);

// One tensor name serves both forms: the configuration says which modules are feed-forward, and the shape must agree.
inline constexpr const char* kFeedforward = R"({"llama":["down_proj"],"qwen2":["down_proj"],"qwen3":["down_proj"]})";
inline constexpr vnr_import_tensor kTensors[] = {
    veneer::tensor_when(VNR_IMPORT_WHEN_LISTED, "feedforward_modules", kFeedforward, ".ia3_l", "l_in", VNR_BIT(VNR_SITE_LINEAR)),
    veneer::tensor_when(VNR_IMPORT_WHEN_NOT_LISTED, "feedforward_modules", kFeedforward, ".ia3_l", "l_out", VNR_BIT(VNR_SITE_LINEAR)),
};
inline constexpr auto kTensorList = veneer::pointers(kTensors);

inline constexpr vnr_import kImport = veneer::import_of(
    "IA3", R"({"llama":["k_proj","v_proj","down_proj"],"qwen2":["q_proj","v_proj","down_proj"],"qwen3":["q_proj","v_proj","down_proj"]})",
    nullptr, nullptr, kRuleList, kTensorList);

}  // namespace veneer_ia3

#endif  // VENEER_PLUGINS_IA3_IMPORT_H_
