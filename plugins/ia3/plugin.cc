// The entry of the ia3 plugin, and how PEFT's IA3 checkpoints map to it (constant data).
#include "plugins/ia3/overlay.h"

namespace veneer_ia3 {
namespace {

constexpr const char* kFeedforward = R"({"llama":["down_proj"],"qwen2":["down_proj"],"qwen3":["down_proj"]})";

constexpr vnr_import_rule kFeedforwardRule = {sizeof(vnr_import_rule), VNR_CFG_ACCEPT, "feedforward_modules", nullptr, nullptr};
constexpr vnr_import_rule kInitRule = {sizeof(vnr_import_rule), VNR_CFG_ACCEPT, "init_ia3_weights", nullptr, nullptr};
constexpr const vnr_import_rule* kRules[] = {&kFeedforwardRule, &kInitRule};

// The same tensor name serves both forms: the configuration says which modules are feed-forward, and the shape must agree.
constexpr vnr_import_tensor kInput = {sizeof(vnr_import_tensor), VNR_IMPORT_WHEN_LISTED, VNR_BIT(VNR_SITE_LINEAR), 0, ".ia3_l", "l_in",
                                      "feedforward_modules", kFeedforward};
constexpr vnr_import_tensor kOutput = {sizeof(vnr_import_tensor), VNR_IMPORT_WHEN_NOT_LISTED, VNR_BIT(VNR_SITE_LINEAR), 0, ".ia3_l", "l_out",
                                       "feedforward_modules", kFeedforward};
constexpr const vnr_import_tensor* kTensors[] = {&kInput, &kOutput};

constexpr vnr_import kImport = {
    sizeof(vnr_import), 2, 2, 0, "IA3",
    R"({"llama":["k_proj","v_proj","down_proj"],"qwen2":["q_proj","v_proj","down_proj"],"qwen3":["q_proj","v_proj","down_proj"]})",
    nullptr, nullptr, kRules, kTensors, nullptr};

}  // namespace

const vnr_import* Ia3Overlay::import() { return &kImport; }

}  // namespace veneer_ia3

VENEER_OVERLAY("veneer-ia3", "1.0.0", veneer_ia3::Ia3Overlay)
