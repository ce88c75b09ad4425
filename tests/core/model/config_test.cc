#include "core/model/config.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/hf_config.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

Result<ModelConfig> Read(const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)));
  if (!file) FAIL(file.error().Text());
  return ReadConfig(*file);
}
Error ErrorOf(const GgufWriter& writer) {
  const auto config = Read(writer);
  REQUIRE_FALSE(config.has_value());
  return config.error();
}
ModelConfig ConfigOf(const GgufWriter& writer) {
  auto config = Read(writer);
  if (!config) FAIL(config.error().Text());
  return *std::move(config);
}

TEST_CASE("config: every hyperparameter comes from its key") {
  GgufWriter writer =
      TinyLlama({.n_layers = 3, .hidden = 96, .ffn = 160, .n_heads = 6, .n_kv_heads = 2, .vocab = 311, .rope_base = 500000});
  writer.Set("llama.attention.layer_norm_rms_epsilon", 1e-6f);
  const ModelConfig config = ConfigOf(writer);
  CHECK(config.arch == "llama");
  CHECK(config.n_layers == 3);
  CHECK(config.hidden == 96);
  CHECK(config.ffn == 160);
  CHECK(config.n_heads == 6);
  CHECK(config.n_kv_heads == 2);
  CHECK(config.head_dim == 16);
  CHECK(config.vocab == 311);
  CHECK(config.context_length == 128);
  CHECK(config.rms_epsilon == 1e-6f);
  CHECK(config.rope_base == 500000);
  CHECK(config.rope_frequency_scale == 1);
  CHECK(config.rope_factors.empty());
  CHECK(config.tied_head);
}

TEST_CASE("config: every key of another architecture stands under that architecture's name") {
  GgufWriter writer = TinyLlama({.arch = "qwen3", .n_layers = 3, .hidden = 64, .n_heads = 8, .n_kv_heads = 4, .head_dim = 24});
  const ModelConfig config = ConfigOf(writer);
  CHECK(config.arch == "qwen3");
  CHECK(config.n_layers == 3);
  CHECK(config.hidden == 64);
  CHECK(config.head_dim == 24);  // not 64 / 8
  writer.Set("llama.attention.key_length", std::uint32_t{8});
  CHECK(ConfigOf(writer).head_dim == 24);
  writer.Remove("qwen3.block_count");
  writer.Set("llama.block_count", std::uint32_t{3});
  CHECK(ErrorOf(writer).at == "qwen3.block_count");
}

TEST_CASE("config: missing optional keys take the defaults of the format") {
  GgufWriter writer = TinyLlama();
  for (const char* const key : {"llama.attention.head_count_kv", "llama.rope.dimension_count", "llama.rope.freq_base", "general.name"})
    writer.Remove(key);
  const ModelConfig config = ConfigOf(writer);
  CHECK(config.n_kv_heads == config.n_heads);
  CHECK(config.head_dim == 16);
  CHECK(config.rope_base == 10000);
}

TEST_CASE("config: each required key is named when it is missing and refused when it is zero or mistyped") {
  for (const char* const key :
       {"llama.block_count", "llama.embedding_length", "llama.context_length", "llama.feed_forward_length", "llama.attention.head_count"}) {
    GgufWriter writer = TinyLlama();
    writer.Remove(key);
    CHECK(ErrorOf(writer).code == Code::FIELD_MISSING);
    CHECK(ErrorOf(writer).at == key);
    writer.Set(key, std::uint32_t{0});
    CHECK(ErrorOf(writer).at == key);
    writer.Set(key, "many");
    CHECK(ErrorOf(writer).code == Code::FIELD_TYPE);
    writer.Set(key, UINT64_MAX);
    CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  }
  GgufWriter writer = TinyLlama();
  writer.Remove("llama.attention.layer_norm_rms_epsilon");
  CHECK(ErrorOf(writer).at == "llama.attention.layer_norm_rms_epsilon");
}

TEST_CASE("config: head counts and feed-forward lengths may be arrays of one value, not of several") {
  GgufWriter writer = TinyLlama({.n_layers = 2});
  writer.Set("llama.attention.head_count", std::vector<std::int32_t>{4, 4});
  writer.Set("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 2});
  writer.Set("llama.feed_forward_length", std::vector<std::int32_t>{96, 96});
  CHECK(ConfigOf(writer).n_kv_heads == 2);
  writer.Set("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 4});
  CHECK(ErrorOf(writer).code == Code::FORMAT_UNSUPPORTED);
  writer.Set("llama.attention.head_count_kv", std::vector<std::int32_t>{2});
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  writer.Set("llama.attention.head_count_kv", std::vector<std::int32_t>{-2, -2});
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
}

TEST_CASE("config: another architecture is refused by its name, with those that are read") {
  GgufWriter writer = TinyLlama();
  writer.Set("general.architecture", "gemma2");
  const Error error = ErrorOf(writer);
  CHECK(error.code == Code::FORMAT_UNSUPPORTED);
  CHECK(error.at == "general.architecture");
  for (const char* const name : {"gemma2", "llama", "qwen2", "qwen3"}) CHECK(error.detail.find(name) != std::string::npos);
}

TEST_CASE("config: what a Qwen may ask for and is not implemented is refused with key and value") {
  for (const std::string arch : {"qwen2", "qwen3"}) {
    const auto refused = [&](const std::string& name, auto value, const char* shown) {
      GgufWriter writer = TinyLlama({.arch = arch});
      writer.Set(arch + "." + name, value);
      const Error error = ErrorOf(writer);
      CHECK(error.code == Code::FORMAT_UNSUPPORTED);
      CHECK(error.at == arch + "." + name);
      CHECK(error.detail.find(shown) != std::string::npos);
    };
    refused("attention.sliding_window", std::uint32_t{32768}, "32768");
    refused("rope.scaling.type", "yarn", "yarn");
    refused("rope.scaling.type", "longrope", "longrope");
    refused("rope.dimension_count", std::uint32_t{8}, "8");
    refused("expert_count", std::uint32_t{60}, "60");
    refused("attention.causal", false, "false");
    // Under the name of another architecture the keys mean nothing.
    GgufWriter other = TinyLlama({.arch = arch});
    other.Set("llama.rope.scaling.type", "yarn");
    CHECK(Read(other).has_value());
  }
}

TEST_CASE("config: what would change the arithmetic is refused with key and value") {
  const auto refused = [](const char* key, auto value, const char* shown) {
    GgufWriter writer = TinyLlama();
    writer.Set(key, value);
    const Error error = ErrorOf(writer);
    CHECK(error.code == Code::FORMAT_UNSUPPORTED);
    CHECK(error.at == key);
    CHECK(error.detail.find(shown) != std::string::npos);
  };
  refused("llama.expert_count", std::uint32_t{8}, "8");
  refused("llama.attention.sliding_window", std::uint32_t{4096}, "4096");
  refused("split.count", std::uint32_t{3}, "3");
  refused("general.type", "adapter", "adapter");
  refused("general.quantization_version", std::uint32_t{1}, "1");
  refused("llama.rope.scaling.type", "yarn", "yarn");
  refused("llama.rope.scaling.type", "longrope", "longrope");
  refused("llama.rope.scaling.attn_factor", 0.5f, "0.5");
  refused("llama.rope.dimension_count", std::uint32_t{8}, "8");
  refused("llama.attention.value_length", std::uint32_t{32}, "32");
  refused("llama.logit_scale", 0.25f, "0.25");
  refused("llama.attention.scale", 0.5f, "0.5");
  refused("llama.attention.causal", false, "false");
  GgufWriter neutral = TinyLlama();
  neutral.Set("llama.expert_count", std::uint32_t{0});
  neutral.Set("llama.attention.sliding_window", std::uint32_t{0});
  neutral.Set("split.count", std::uint32_t{1});
  neutral.Set("llama.logit_scale", 0.0f);
  neutral.Set("llama.attention.causal", true);
  neutral.Set("llama.rope.scaling.type", "none");
  neutral.Set("general.type", "model");
  CHECK(Read(neutral).has_value());
}

TEST_CASE("config: head counts that do not divide and odd head sizes are refused") {
  GgufWriter writer = TinyLlama();
  writer.Set("llama.attention.head_count_kv", std::uint32_t{3});
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  GgufWriter uneven = TinyLlama();
  uneven.Set("llama.attention.head_count", std::uint32_t{5});
  CHECK(ErrorOf(uneven).code == Code::HEADER_CORRUPT);
  GgufWriter odd = TinyLlama();
  odd.Set("llama.attention.key_length", std::uint32_t{15});
  CHECK(ErrorOf(odd).code == Code::HEADER_CORRUPT);
}

TEST_CASE("config: a head size of its own is read from key_length") { CHECK(ConfigOf(TinyLlama({.head_dim = 32})).head_dim == 32); }

TEST_CASE("config: linear rope scaling is one over the factor, under both keys") {
  GgufWriter writer = TinyLlama();
  writer.Set("llama.rope.scaling.type", "linear");
  writer.Set("llama.rope.scaling.factor", 4.0f);
  CHECK(ConfigOf(writer).rope_frequency_scale == 0.25f);
  writer.Set("llama.rope.scaling.factor", -1.0f);
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  writer.Set("llama.rope.scaling.type", "none");
  CHECK(ConfigOf(writer).rope_frequency_scale == 1);
  GgufWriter old = TinyLlama();
  old.Set("llama.rope.scale_linear", 2.0f);
  CHECK(ConfigOf(old).rope_frequency_scale == 0.5f);
}

TEST_CASE("config: a rope base or factor that is 0, negative or no number of f32 is refused alike in both formats, NaN and infinity too") {
  const std::string range = ", must be 1.1754944e-38 to 3.4028235e+38; convert the model again";  // FLT_MIN to FLT_MAX
  struct Wrong {
    double value;
    std::string shown, json;  // json: the same number in a config.json; empty where JSON has none
  };
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Wrong> all{
      {std::nan(""), "nan", ""},    {inf, "inf", ""},           {-inf, "-inf", ""},           {0, "0", "0"},
      {-10000, "-10000", "-10000"}, {1e300, "1e+300", "1e300"}, {1e-300, "1e-300", "1e-300"}, {1e-40, "1e-40", "1e-40"},
      {3.5e38, "3.5e+38", "3.5e38"}};
  const auto same = [&range](const Error& error, const std::string& at, const Wrong& wrong) {
    CAPTURE(error.Text());
    CHECK(error.at == at);
    if (std::isfinite(wrong.value)) {
      CHECK(error.code == Code::HEADER_CORRUPT);
      CHECK(error.detail == "found " + wrong.shown + range);
    } else {  // the GGUF's numbers themselves
      CHECK(error.code == Code::NOT_FINITE);
      CHECK(error.detail == "found " + wrong.shown + ", must be finite");
    }
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.shown);
    const auto itself = RopeNumberInRange("here", wrong.value);
    REQUIRE_FALSE(itself);
    CHECK(itself.error().Text() == "E402 HEADER_CORRUPT at=here found " + wrong.shown + range);
    constexpr std::uint32_t kF64 = 12;  // the type's number in a GGUF
    const std::string payload(reinterpret_cast<const char*>(&wrong.value), sizeof(wrong.value));
    for (const char* const key : {"llama.rope.freq_base", "llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
      if (wrong.value == 0 && std::string_view(key) != "llama.rope.freq_base") continue;  // there 0 says "no scaling"
      GgufWriter writer = TinyLlama();
      writer.SetRaw(key, kF64, payload);
      same(ErrorOf(writer), key, wrong);
    }
    if (wrong.json.empty()) continue;
    const auto refused = [&](const std::string& member) {
      const auto config =
          ReadHfConfig(R"({"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,)"
                       R"("max_position_embeddings":128,"rms_norm_eps":1e-5,"vocab_size":320,)" +
                       member + "}");
      REQUIRE_FALSE(config.has_value());
      return config.error();
    };
    same(refused(R"("rope_theta":)" + wrong.json), "/rope_theta", wrong);
    same(refused(R"("rope_scaling":{"type":"linear","factor":)" + wrong.json + "}"), "/rope_scaling/factor", wrong);
  }
  // JSON writes no NaN; an infinity is a number beyond its range.
  for (const std::string text : {"NaN", "1e999", "-1e999"}) {
    CAPTURE(text);
    CHECK_FALSE(ReadHfConfig(R"({"rope_theta":)" + text + "}").has_value());
  }
}

TEST_CASE("config: the least and the greatest rope base and factor give finite numbers in f32") {
  constexpr float kLeast = std::numeric_limits<float>::min(), kGreatest = std::numeric_limits<float>::max();
  for (const float base : {kLeast, kGreatest})
    for (const float factor : {kLeast, kGreatest}) {
      GgufWriter writer = TinyLlama();
      writer.Set("llama.rope.freq_base", base);
      writer.Set("llama.rope.scaling.factor", factor);
      const ModelConfig config = ConfigOf(writer);
      CHECK(config.rope_base == base);
      CHECK(std::isfinite(config.rope_frequency_scale));
      CHECK(config.rope_frequency_scale > 0);
    }
}

TEST_CASE("config: rope factors come from rope_freqs and must be one positive number for each pair") {
  GgufWriter writer = TinyLlama({.rope_factors = true});
  CHECK(ConfigOf(writer).rope_factors == std::vector<float>{1, 1, 1, 1, 4, 4, 4, 4});
  writer.SetTensor("rope_freqs.weight", VNR_F32, {4}, std::string(16, '\x01'));
  CHECK(ErrorOf(writer).code == Code::SHAPE_MISMATCH);
  writer.SetTensor("rope_freqs.weight", VNR_F32, {8}, std::string(32, '\0'));
  CHECK(ErrorOf(writer).code == Code::NOT_FINITE);
}

TEST_CASE("config: a vocabulary of another size than the embedding is refused, a file without the embedding named") {
  GgufWriter writer = TinyLlama();
  writer.Set("llama.vocab_size", std::uint32_t{321});
  CHECK(ErrorOf(writer).code == Code::TOKENIZER_MISMATCH);
  GgufWriter shorter = TinyLlama();
  shorter.Set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  CHECK(ErrorOf(shorter).code == Code::TOKENIZER_MISMATCH);
  GgufWriter vocabulary = TinyLlama();
  vocabulary.RemoveTensor("token_embd.weight");
  CHECK(ErrorOf(vocabulary).at == "token_embd.weight");
}

}  // namespace
}  // namespace veneer
