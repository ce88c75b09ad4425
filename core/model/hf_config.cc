// Names, defaults and the llama3 scaling are those of Hugging Face transformers (configuration_llama.py, modeling_rope_utils.py).
#include "core/model/hf_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "core/format/json.h"
#include "core/model/architecture.h"
#include "core/model/config.h"

namespace veneer {
namespace {

std::unexpected<Error> Unsupported(const Json& value, std::string detail) {
  return Fail(Code::FORMAT_UNSUPPORTED, value.at, std::move(detail));
}

// A member that is there and not null.
const Json* Given(const Json& object, std::string_view key) {
  const Json* const value = object.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::uint32_t> Required(const Json& object, std::string_view key, std::uint64_t limit) {
  VENEER_ASSIGN(const Json* const value, object.Get(key));
  VENEER_ASSIGN(const std::uint64_t number, value->U64());
  return DimensionInRange(value->at, number, limit);
}

Result<double> RopeNumber(const Json& object, std::string_view key) {
  VENEER_ASSIGN(const Json* const value, object.Get(key));
  VENEER_ASSIGN(const double number, value->Number());
  return RopeNumberInRange(value->at, number);
}

// Keys that change the arithmetic unless they are absent, null or hold their neutral value.
Status RefuseOtherArithmetic(const Json& config) {
  struct Refused {
    std::string_view key, neutral, what;  // neutral: as Json::Dump prints it
  };
  constexpr Refused kRefused[] = {
      {"hidden_act", "\"silu\"", "another activation than silu"}, {"num_experts", "0", "a mixture of experts"},
      {"num_local_experts", "0", "a mixture of experts"},         {"use_sliding_window", "false", "sliding-window attention"},
      {"attn_logit_softcapping", "0", "capped attention"},        {"final_logit_softcapping", "0", "capped logits"},
      {"add_cross_attention", "false", "cross-attention"},
  };
  for (const auto& [key, neutral, what] : kRefused) {
    const Json* const value = Given(config, key);
    if (value != nullptr && value->Dump() != neutral)
      return Unsupported(*value, fmt::format("found {}: {} is not implemented; use a model without it", value->Dump(), what));
  }
  constexpr std::string_view kFactors[] = {"partial_rotary_factor", "logit_scale", "embedding_multiplier", "residual_multiplier"};
  for (const std::string_view key : kFactors) {
    const Json* const value = Given(config, key);
    if (value == nullptr) continue;
    VENEER_ASSIGN(const double factor, value->Number());
    if (factor != 1) return Unsupported(*value, fmt::format("found {}, only 1 is implemented; use a model without it", factor));
  }
  // Where use_sliding_window stands beside it, that key decides.
  if (const Json* const window = Given(config, "sliding_window"); window != nullptr && Given(config, "use_sliding_window") == nullptr)
    return Unsupported(*window, "sliding-window attention is not implemented; use a model without it");
  if (const Json* const types = Given(config, "layer_types"))
    for (const Json& type : types->elements)
      if (type.text != "full_attention")
        return Unsupported(type, fmt::format("found {}: only \"full_attention\" is implemented; use a model without it", type.Dump()));
  return {};
}

Status ReadHeads(const Json& config, ModelConfig& model) {
  VENEER_ASSIGN(model.n_heads, Required(config, "num_attention_heads", kMaxModelWidth));
  model.n_kv_heads = model.n_heads;
  if (Given(config, "num_key_value_heads") != nullptr) {
    VENEER_ASSIGN(model.n_kv_heads, Required(config, "num_key_value_heads", kMaxModelWidth));
  }
  if (Given(config, "head_dim") != nullptr) {
    VENEER_ASSIGN(model.head_dim, Required(config, "head_dim", kMaxModelWidth));
  }
  return CheckHeads(model, {.heads = "/num_attention_heads", .kv_heads = "/num_key_value_heads", .head_dim = "/head_dim"});
}

// rope_freqs of a GGUF, computed: the slow pairs turn `factor` times slower, the fast ones as they did, those between in proportion.
Status ReadLlama3Scaling(const Json& rope, ModelConfig& model) {
  VENEER_ASSIGN(const double factor, RopeNumber(rope, "factor"));
  VENEER_ASSIGN(const double low, RopeNumber(rope, "low_freq_factor"));
  VENEER_ASSIGN(const double high, RopeNumber(rope, "high_freq_factor"));
  VENEER_ASSIGN(const double context, RopeNumber(rope, "original_max_position_embeddings"));
  if (low >= high)
    return Fail(Code::HEADER_CORRUPT, rope.at + "/low_freq_factor", fmt::format("found {}, must be below high_freq_factor {}", low, high));
  for (std::uint32_t i = 0; i < model.head_dim / 2; ++i) {
    const double frequency = std::pow(static_cast<double>(model.rope_base), -2.0 * i / model.head_dim);
    const double turns = context * frequency / (2 * std::numbers::pi);  // over the original context
    const double smooth = turns < low ? 0 : turns > high ? 1 : (turns - low) / (high - low);
    model.rope_factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  return {};
}

// transformers 5 writes rope_parameters with rope_theta inside, 4 rope_theta and rope_scaling beside each other.
Status ReadRope(const Json& config, ModelConfig& model) {
  const Json* rope = Given(config, "rope_parameters");
  if (rope == nullptr) rope = Given(config, "rope_scaling");
  if (rope != nullptr && !rope->is_object()) return Fail(Code::FIELD_TYPE, rope->at, "must be an object");
  const Json& holder = rope != nullptr && Given(*rope, "rope_theta") != nullptr ? *rope : config;
  if (Given(holder, "rope_theta") != nullptr) {
    VENEER_ASSIGN(const double base, RopeNumber(holder, "rope_theta"));
    model.rope_base = static_cast<float>(base);
  }
  if (rope == nullptr) return {};
  if (const Json* const partial = Given(*rope, "partial_rotary_factor")) {
    VENEER_ASSIGN(const double fraction, partial->Number());
    if (fraction != 1) return Unsupported(*partial, fmt::format("found {}: partial rotation is not implemented", fraction));
  }
  const Json* type = Given(*rope, "rope_type");
  if (type == nullptr) type = Given(*rope, "type");
  if (type == nullptr) return {};
  VENEER_ASSIGN(const std::string name, type->String());
  if (name == "default") return {};
  if (name == "llama3") return ReadLlama3Scaling(*rope, model);
  if (name != "linear")
    return Unsupported(*type, fmt::format("\"{}\" is not implemented; \"default\", \"linear\" and \"llama3\" are", name));
  VENEER_ASSIGN(const double factor, RopeNumber(*rope, "factor"));
  model.rope_frequency_scale = static_cast<float>(1 / factor);
  return {};
}

Result<HfQuantization> ReadQuantization(const Json& config) {
  const Json* const given = Given(config, "quantization_config");
  if (given == nullptr) return HfQuantization::kNone;
  constexpr std::string_view kRemedy = "bitsandbytes NF4 and int8 are read, and F32, F16 and BF16; use such a model, or a GGUF of this one";
  VENEER_ASSIGN(const Json* const method, given->Get("quant_method"));
  if (method->text != "bitsandbytes") return Unsupported(*method, fmt::format("found {}: not implemented; {}", method->Dump(), kRemedy));
  const auto is_set = [given](std::string_view key) {
    const Json* const value = given->Find(key);
    return value != nullptr && value->type == Json::Type::kBool && value->boolean;
  };
  const bool four = is_set("load_in_4bit"), eight = is_set("load_in_8bit");
  if (four == eight)
    return Fail(Code::HEADER_CORRUPT, given->at, fmt::format("{} of load_in_4bit and load_in_8bit, must be one", four ? "both" : "none"));
  if (eight) return HfQuantization::kInt8;
  const Json* const type = given->Find("bnb_4bit_quant_type");
  // Without the key it is bitsandbytes' default, which is fp4.
  if (type == nullptr || type->text != "nf4")
    return Fail(Code::FORMAT_UNSUPPORTED, given->at + "/bnb_4bit_quant_type",
                fmt::format("found {}: not implemented; {}", type == nullptr ? "nothing, which is fp4" : type->Dump(), kRemedy));
  return HfQuantization::kNf4;
}

Status ReadEndTokens(const Json& config, std::vector<std::int32_t>& tokens) {
  const Json* const given = Given(config, "eos_token_id");
  if (given == nullptr) return {};
  const auto add = [&](const Json& one) -> Status {
    VENEER_ASSIGN(const std::uint64_t id, one.U64());
    if (id > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
      return Fail(Code::HEADER_CORRUPT, one.at, fmt::format("found {}, which is no token", id));
    tokens.push_back(static_cast<std::int32_t>(id));
    return {};
  };
  if (!given->is_array()) return add(*given);
  for (const Json& one : given->elements) VENEER_TRY(add(one));
  return {};
}

}  // namespace

Result<HfConfig> ReadHfConfig(std::string_view text) {
  VENEER_ASSIGN(const Json config, ParseJson(text));
  if (!config.is_object()) return Fail(Code::FIELD_TYPE, "", "must be an object");
  VENEER_ASSIGN(const Json* const type, config.Get("model_type"));
  VENEER_ASSIGN(const std::string name, type->String());
  HfConfig result;
  ModelConfig& model = result.model;
  VENEER_ASSIGN(const Architecture* const architecture, FindArchitecture(name, type->at));
  model.arch = architecture->name;
  VENEER_TRY(RefuseOtherArithmetic(config));
  VENEER_ASSIGN(model.n_layers, Required(config, "num_hidden_layers", kMaxModelLayers));
  VENEER_ASSIGN(model.hidden, Required(config, "hidden_size", kMaxModelWidth));
  VENEER_ASSIGN(model.ffn, Required(config, "intermediate_size", kMaxModelWidth));
  VENEER_ASSIGN(model.vocab, Required(config, "vocab_size", kMaxModelWidth));
  VENEER_ASSIGN(model.context_length, Required(config, "max_position_embeddings", std::numeric_limits<std::int32_t>::max()));
  VENEER_TRY(ReadHeads(config, model));
  VENEER_ASSIGN(const Json* const epsilon, config.Get("rms_norm_eps"));
  VENEER_ASSIGN(const double value, epsilon->Number());
  model.rms_epsilon = static_cast<float>(value);
  if (value < 0 || !std::isfinite(model.rms_epsilon))
    return Fail(Code::HEADER_CORRUPT, epsilon->at, fmt::format("found {}, must be 0 or more", value));
  VENEER_TRY(ReadRope(config, model));
  if (const Json* const tied = Given(config, "tie_word_embeddings")) {
    VENEER_ASSIGN(model.tied_head, tied->Bool());
  }
  for (const auto& [key, flag] : {std::pair{"attention_bias", &result.attention_bias}, std::pair{"mlp_bias", &result.mlp_bias}}) {
    const Json* const given = Given(config, key);
    if (given == nullptr) continue;
    VENEER_ASSIGN(*flag, given->Bool());
  }
  VENEER_ASSIGN(result.quantization, ReadQuantization(config));
  VENEER_TRY(ReadEndTokens(config, result.end_tokens));
  return result;
}

}  // namespace veneer
