#include "core/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/architecture.h"

namespace veneer {
namespace {

std::unexpected<Error> Unsupported(std::string key, std::string detail) {
  return Fail(Code::FORMAT_UNSUPPORTED, std::move(key), std::move(detail));
}

Result<std::uint64_t> OptionalU64(const GgufFile& file, const std::string& key, std::uint64_t fallback) {
  return file.Find(key) == nullptr ? Result<std::uint64_t>(fallback) : file.U64(key);
}

Result<double> OptionalF64(const GgufFile& file, const std::string& key, double fallback) {
  return file.Find(key) == nullptr ? Result<double>(fallback) : file.F64(key);
}

Status RefuseOtherFiles(const GgufFile& file) {
  if (file.Find("general.type") != nullptr) {
    VENEER_ASSIGN(const std::string type, file.String("general.type"));
    if (type != "model")
      return Unsupported("general.type", fmt::format("found \"{}\", a base is a \"model\"; give the file of the whole model", type));
  }
  VENEER_ASSIGN(const std::uint64_t parts, OptionalU64(file, "split.count", 0));
  if (parts > 1) return Unsupported("split.count", fmt::format("one of {} parts; merge them first (llama-gguf-split --merge)", parts));
  VENEER_ASSIGN(const std::uint64_t blocks_version, OptionalU64(file, "general.quantization_version", 2));
  if (blocks_version != 2)
    return Unsupported("general.quantization_version",
                       fmt::format("found {}, blocks of version 2 are read; requantize the model", blocks_version));
  return {};
}

// The keys of one architecture, "<architecture>.<name>".
class Reader {
 public:
  Reader(const GgufFile& file, const Architecture& architecture) : file_(file), arch_(architecture.name) {}

  Result<ModelConfig> Read() const {
    VENEER_TRY(RefuseOtherArithmetic());
    ModelConfig config;
    config.arch = arch_;
    VENEER_ASSIGN(config.n_layers, Required("block_count", kMaxModelLayers));
    VENEER_ASSIGN(config.hidden, Required("embedding_length", kMaxModelWidth));
    VENEER_ASSIGN(config.context_length, Required("context_length", std::numeric_limits<std::int32_t>::max()));
    VENEER_ASSIGN(config.ffn, Uniform("feed_forward_length", config.n_layers));
    VENEER_TRY(ReadHeads(config));
    VENEER_ASSIGN(const double epsilon, file_.F64(Key("attention.layer_norm_rms_epsilon")));
    config.rms_epsilon = static_cast<float>(epsilon);
    if (epsilon < 0 || !std::isfinite(config.rms_epsilon))
      return Fail(Code::HEADER_CORRUPT, Key("attention.layer_norm_rms_epsilon"), fmt::format("found {}, must be 0 or more", epsilon));
    VENEER_TRY(ReadRope(config));
    VENEER_TRY(ReadVocabulary(config));
    return config;
  }

 private:
  std::string Key(std::string_view name) const { return fmt::format("{}.{}", arch_, name); }

  Result<std::uint32_t> Required(std::string_view name, std::uint64_t limit) const {
    const std::string key = Key(name);
    VENEER_ASSIGN(const std::uint64_t value, file_.U64(key));
    return DimensionInRange(key, value, limit);
  }

  // A number, or one number per layer, all equal.
  Result<std::uint32_t> Uniform(std::string_view name, std::uint32_t n_layers) const {
    const std::string key = Key(name);
    const GgufValue* const value = file_.Find(key);
    if (value == nullptr || value->type != GgufType::kArray) return Required(name, kMaxModelWidth);
    VENEER_ASSIGN(const std::vector<std::int32_t> per_layer, file_.I32s(key));
    if (per_layer.size() != n_layers)
      return Fail(Code::HEADER_CORRUPT, key, fmt::format("{} numbers for {} layers, must be one for each", per_layer.size(), n_layers));
    const auto other = std::ranges::find_if(per_layer, [&](std::int32_t number) { return number != per_layer.front(); });
    if (other != per_layer.end())
      return Unsupported(key,
                         fmt::format("found {} and {}: layers of different size are not implemented; use a model whose layers are alike",
                                     per_layer.front(), *other));
    return DimensionInRange(key, per_layer.front() < 0 ? 0 : static_cast<std::uint64_t>(per_layer.front()), kMaxModelWidth);
  }

  // Keys that change the arithmetic unless they hold their neutral value.
  Status RefuseOtherArithmetic() const {
    struct Refused {
      std::string_view name, what;
    };
    constexpr Refused kCounts[] = {
        {"expert_count", "a mixture of experts"},
        {"attention.sliding_window", "sliding-window attention"},
    };
    for (const auto& [name, what] : kCounts) {
      VENEER_ASSIGN(const std::uint64_t count, OptionalU64(file_, Key(name), 0));
      if (count > 0) return Unsupported(Key(name), fmt::format("found {}: {} is not implemented; use a model without it", count, what));
    }
    constexpr Refused kFactors[] = {
        {"attention.scale", "a changed attention scale"},
        {"attention.clamp_kqv", "clamped q, k and v"},
        {"attn_logit_softcapping", "capped attention"},
        {"final_logit_softcapping", "capped logits"},
        {"logit_scale", "scaled logits"},
        {"embedding_scale", "a scaled embedding"},
        {"residual_scale", "scaled residuals"},
    };
    for (const auto& [name, what] : kFactors) {
      VENEER_ASSIGN(const double factor, OptionalF64(file_, Key(name), 0));
      if (factor != 0) return Unsupported(Key(name), fmt::format("found {}: {} is not implemented; use a model without it", factor, what));
    }
    if (const std::string key = Key("attention.causal"); file_.Find(key) != nullptr) {
      VENEER_ASSIGN(const bool causal, file_.Bool(key));
      if (!causal) return Unsupported(key, "found false: only causal attention is implemented; use a text generation model");
    }
    return {};
  }

  Status ReadHeads(ModelConfig& config) const {
    VENEER_ASSIGN(config.n_heads, Uniform("attention.head_count", config.n_layers));
    config.n_kv_heads = config.n_heads;
    if (file_.Find(Key("attention.head_count_kv")) != nullptr) {
      VENEER_ASSIGN(config.n_kv_heads, Uniform("attention.head_count_kv", config.n_layers));
    }
    const std::string key_length = Key("attention.key_length"), value_length = Key("attention.value_length");
    if (file_.Find(key_length) != nullptr) {
      VENEER_ASSIGN(config.head_dim, Required("attention.key_length", kMaxModelWidth));
    }
    const std::string heads = Key("attention.head_count"), kv_heads = Key("attention.head_count_kv");
    VENEER_TRY(CheckHeads(config, {.heads = heads, .kv_heads = kv_heads, .head_dim = key_length}));
    VENEER_ASSIGN(const std::uint64_t value_dim, OptionalU64(file_, value_length, config.head_dim));
    if (value_dim != config.head_dim)
      return Unsupported(value_length,
                         fmt::format("found {} beside keys of {}: only equal lengths are implemented", value_dim, config.head_dim));
    return {};
  }

  Status ReadRopeScaling(ModelConfig& config) const {
    const std::string type_key = Key("rope.scaling.type");
    std::string type = "linear";
    if (file_.Find(type_key) != nullptr) {
      VENEER_ASSIGN(type, file_.String(type_key));
    }
    if (type != "none" && type != "linear")
      return Unsupported(type_key, fmt::format("\"{}\" is not implemented; \"none\", \"linear\" and the rope_freqs tensor are", type));
    VENEER_ASSIGN(const double attention_factor, OptionalF64(file_, Key("rope.scaling.attn_factor"), 1));
    if (attention_factor != 1)
      return Unsupported(Key("rope.scaling.attn_factor"), fmt::format("found {}, only 1 is implemented", attention_factor));
    // rope.scale_linear is the key of older converters.
    const std::string factor_key =
        file_.Find(Key("rope.scaling.factor")) != nullptr ? Key("rope.scaling.factor") : Key("rope.scale_linear");
    VENEER_ASSIGN(const double factor, OptionalF64(file_, factor_key, 0));
    if (type == "none" || factor == 0) return {};
    VENEER_ASSIGN(const double checked, RopeNumberInRange(factor_key, factor));
    config.rope_frequency_scale = static_cast<float>(1 / checked);
    return {};
  }

  Status ReadRopeFactors(ModelConfig& config) const {
    const TensorView* const tensor = file_.FindTensor("rope_freqs.weight");
    if (tensor == nullptr) return {};
    const std::vector<std::uint64_t> shape = {config.head_dim / 2};
    if (tensor->shape != shape)
      return Fail(Code::SHAPE_MISMATCH, tensor->name, fmt::format("shape {}, must be {}", ShapeText(tensor->shape), ShapeText(shape)));
    if (tensor->dtype != VNR_F32)
      return Unsupported(tensor->name, fmt::format("type {}, only f32 is read; convert the model again", InfoOf(tensor->dtype).name));
    config.rope_factors.resize(shape[0]);
    std::memcpy(config.rope_factors.data(), tensor->bytes.data(), tensor->bytes.size());
    for (const float factor : config.rope_factors)
      if (!std::isfinite(factor) || factor <= 0)
        return Fail(Code::NOT_FINITE, tensor->name, fmt::format("holds {}, must be above 0", factor));
    return {};
  }

  Status ReadRope(ModelConfig& config) const {
    const std::string rotated_key = Key("rope.dimension_count");
    VENEER_ASSIGN(const std::uint64_t rotated, OptionalU64(file_, rotated_key, config.head_dim));
    if (rotated != config.head_dim)
      return Unsupported(rotated_key,
                         fmt::format("found {} for heads of {}: partial rotation is not implemented", rotated, config.head_dim));
    VENEER_ASSIGN(const double found, OptionalF64(file_, Key("rope.freq_base"), 10000));
    VENEER_ASSIGN(const double base, RopeNumberInRange(Key("rope.freq_base"), found));
    config.rope_base = static_cast<float>(base);
    VENEER_TRY(ReadRopeScaling(config));
    return ReadRopeFactors(config);
  }

  // The vocabulary is what the embedding holds; every other statement about its size must agree.
  Status ReadVocabulary(ModelConfig& config) const {
    const TensorView* const embedding = file_.FindTensor("token_embd.weight");
    if (embedding == nullptr)
      return Fail(Code::HEADER_CORRUPT, "token_embd.weight", "the tensor is missing; this is a vocabulary or a damaged file, not a model");
    if (embedding->shape.size() != 2)
      return Fail(Code::SHAPE_MISMATCH, embedding->name,
                  fmt::format("shape {}, must be [vocabulary, {}]", ShapeText(embedding->shape), config.hidden));
    VENEER_ASSIGN(config.vocab, DimensionInRange(embedding->name, embedding->shape[0], kMaxModelWidth));
    VENEER_ASSIGN(const std::uint64_t stated, OptionalU64(file_, Key("vocab_size"), config.vocab));
    if (stated != config.vocab)
      return Fail(Code::TOKENIZER_MISMATCH, Key("vocab_size"), fmt::format("found {}, the embedding has {} rows", stated, config.vocab));
    const GgufValue* const tokens = file_.Find("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->count != config.vocab)
      return Fail(Code::TOKENIZER_MISMATCH, tokens->key, fmt::format("{} tokens, the embedding has {} rows", tokens->count, config.vocab));
    config.tied_head = file_.FindTensor("output.weight") == nullptr;
    return {};
  }

  const GgufFile& file_;
  std::string_view arch_;
};

}  // namespace

Result<std::uint32_t> DimensionInRange(std::string key, std::uint64_t value, std::uint64_t limit) {
  if (value == 0 || value > limit)
    return Fail(Code::HEADER_CORRUPT, std::move(key), fmt::format("found {}, must be 1 to {}", value, limit));
  return static_cast<std::uint32_t>(value);
}

Result<double> RopeNumberInRange(std::string key, double value) {
  using Limits = std::numeric_limits<float>;
  if (value >= static_cast<double>(Limits::min()) && value <= static_cast<double>(Limits::max())) return value;
  return Fail(Code::HEADER_CORRUPT, std::move(key),
              fmt::format("found {}, must be {} to {}; convert the model again", value, Limits::min(), Limits::max()));
}

Status CheckHeads(ModelConfig& config, const HeadKeys& keys) {
  if (config.n_heads % config.n_kv_heads != 0)
    return Fail(Code::HEADER_CORRUPT, std::string(keys.kv_heads),
                fmt::format("{} heads cannot share {} key-value heads evenly", config.n_heads, config.n_kv_heads));
  if (config.head_dim == 0) {
    if (config.hidden % config.n_heads != 0)
      return Fail(Code::HEADER_CORRUPT, std::string(keys.heads),
                  fmt::format("a width of {} does not divide among {} heads", config.hidden, config.n_heads));
    config.head_dim = config.hidden / config.n_heads;
  }
  if (config.head_dim % 2 == 0) return {};
  return Fail(Code::HEADER_CORRUPT, std::string(keys.head_dim),
              fmt::format("heads of {} elements; rotary embedding needs an even number", config.head_dim));
}

Result<ModelConfig> ReadConfig(const GgufFile& file) {
  VENEER_TRY(RefuseOtherFiles(file));
  VENEER_ASSIGN(const std::string name, file.String("general.architecture"));
  VENEER_ASSIGN(const Architecture* const architecture, FindArchitecture(name));
  return Reader(file, *architecture).Read();
}

}  // namespace veneer
