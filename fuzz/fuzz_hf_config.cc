// Any bytes are a config.json of a Hugging Face directory or are refused; an accepted one has every size in range, heads that fit together,
// and rotations that are numbers.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/model/architecture.h"
#include "core/model/config.h"
#include "core/model/hf_config.h"
#include "fuzz/expect.h"

namespace {

bool IsNumberAboveZero(float value) { return std::isfinite(value) && value > 0; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = veneer::ReadHfConfig(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!config) return 0;
  const veneer::ModelConfig& model = config->model;
  FUZZ_EXPECT(veneer::FindArchitecture(model.arch, "").has_value());
  FUZZ_EXPECT(model.n_layers >= 1 && model.n_layers <= veneer::kMaxModelLayers);
  for (const std::uint32_t width : {model.hidden, model.ffn, model.vocab, model.n_heads, model.n_kv_heads, model.head_dim})
    FUZZ_EXPECT(width >= 1 && width <= veneer::kMaxModelWidth);
  FUZZ_EXPECT(model.context_length >= 1);
  FUZZ_EXPECT(model.n_heads % model.n_kv_heads == 0);
  FUZZ_EXPECT(model.head_dim % 2 == 0);  // the pairs that turn
  FUZZ_EXPECT(std::isfinite(model.rms_epsilon) && model.rms_epsilon >= 0);
  FUZZ_EXPECT(IsNumberAboveZero(model.rope_base));
  FUZZ_EXPECT(IsNumberAboveZero(model.rope_frequency_scale));
  FUZZ_EXPECT(model.rope_factors.empty() || model.rope_factors.size() == model.head_dim / 2);
  FUZZ_EXPECT(std::ranges::all_of(model.rope_factors, IsNumberAboveZero));
  FUZZ_EXPECT(std::ranges::all_of(config->end_tokens, [](std::int32_t token) { return token >= 0; }));
  return 0;
}
