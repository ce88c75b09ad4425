// Hyperparameters out of a Hugging Face config.json, with the ranges and refusals of the GGUF path (core/model/config.h).
#ifndef VENEER_CORE_MODEL_HF_CONFIG_H_
#define VENEER_CORE_MODEL_HF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/model/base.h"

namespace veneer {

// How the projections are stored: as they are, or by bitsandbytes.
enum class HfQuantization { kNone, kNf4, kInt8 };

struct HfConfig {
  ModelConfig model;
  HfQuantization quantization = HfQuantization::kNone;
  std::vector<std::int32_t> end_tokens;          // eos_token_id
  std::optional<bool> attention_bias, mlp_bias;  // whether these projections have one, where the file says
};

// E401 for what is not implemented, by name; E203/E204 for a missing or mistyped key; E402 for numbers that contradict each other; E1xx
// for what is no JSON. `at` is the JSON pointer.
Result<HfConfig> ReadHfConfig(std::string_view text);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_HF_CONFIG_H_
