// How PEFT's SHiRA checkpoints map to the kind: constant data (veneer.import/1).
#ifndef VENEER_PLUGINS_SPARSE_DELTA_IMPORT_H_
#define VENEER_PLUGINS_SPARSE_DELTA_IMPORT_H_

#include "veneer/import.hpp"

namespace veneer_sparse_delta {

// PEFT's ShiraConfig. The mask that these keys describe lies in the file, so none of them changes the result; r is a budget of entries,
// r * (in + out) a module, and no dimension of a tensor.
inline constexpr vnr_import_rule kRules[] = {
    veneer::accept("r"),
    veneer::accept("mask_type"),
    veneer::accept("random_seed"),
    veneer::accept("init_weights", "[null,true,false]"),
};
inline constexpr auto kRuleList = veneer::pointers(kRules);

inline constexpr vnr_import_tensor kTensors[] = {
    veneer::tensor(".shira_weight", "values", VNR_BIT(VNR_SITE_LINEAR)),
    veneer::tensor(".shira_indices", "indices", VNR_BIT(VNR_SITE_LINEAR)),
};
inline constexpr auto kTensorList = veneer::pointers(kTensors);

inline constexpr vnr_import kImport =
    veneer::import_of("SHIRA", R"({"llama":["q_proj","v_proj"],"qwen2":["q_proj","v_proj"],"qwen3":["q_proj","v_proj"]})", nullptr, nullptr,
                      kRuleList, kTensorList);

}  // namespace veneer_sparse_delta

#endif  // VENEER_PLUGINS_SPARSE_DELTA_IMPORT_H_
