#include "core/model/hf_config.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "core/format/gguf.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"

namespace veneer {
namespace {

using Document = nlohmann::ordered_json;

Document Llama() {
  return {{"model_type", "llama"},    {"hidden_size", 256},       {"intermediate_size", 768},       {"num_hidden_layers", 4},
          {"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"max_position_embeddings", 512}, {"rms_norm_eps", 1e-05},
          {"rope_theta", 500000.0},   {"vocab_size", 2048},       {"tie_word_embeddings", true}};
}
Error Refused(const Document& document) {
  const auto config = ReadHfConfig(document.dump());
  INFO(document.dump());
  REQUIRE_FALSE(config.has_value());
  return config.error();
}
HfConfig ConfigOf(const Document& document) {
  auto config = ReadHfConfig(document.dump());
  if (!config) FAIL(config.error().Text());
  return *std::move(config);
}

TEST_CASE("hf config: every hyperparameter comes from its key") {
  Document document = Llama();
  document["eos_token_id"] = {2, 7};
  const HfConfig config = ConfigOf(document);
  const ModelConfig& model = config.model;
  CHECK(model.arch == "llama");
  CHECK(model.n_layers == 4);
  CHECK(model.hidden == 256);
  CHECK(model.ffn == 768);
  CHECK(model.n_heads == 8);
  CHECK(model.n_kv_heads == 4);
  CHECK(model.head_dim == 32);  // 256 / 8
  CHECK(model.vocab == 2048);
  CHECK(model.context_length == 512);
  CHECK(model.rms_epsilon == 1e-5F);
  CHECK(model.rope_base == 500000);
  CHECK(model.rope_factors.empty());
  CHECK(model.tied_head);
  CHECK(config.quantization == HfQuantization::kNone);
  CHECK(config.end_tokens == std::vector<std::int32_t>{2, 7});
}

TEST_CASE("hf config: head_dim of its own, no key-value heads, and the head that is not tied unless said") {
  Document document = Llama();
  document["head_dim"] = 48;
  document.erase("num_key_value_heads");
  document.erase("tie_word_embeddings");
  const ModelConfig model = ConfigOf(document).model;
  CHECK(model.head_dim == 48);
  CHECK(model.n_kv_heads == 8);
  CHECK_FALSE(model.tied_head);
}

TEST_CASE("hf config: a missing, mistyped or impossible number is named by its pointer") {
  for (const char* const key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings",
                                "rms_norm_eps", "vocab_size", "model_type"}) {
    Document document = Llama();
    document.erase(key);
    CHECK(Refused(document).code == Code::FIELD_MISSING);
    CHECK(Refused(document).detail.contains(key));
    document[key] = {1};
    CHECK(Refused(document).code == Code::FIELD_TYPE);
    CHECK(Refused(document).at == std::string("/") + key);
  }
  const auto damaged = [](const char* key, const Document& value, const std::string& at) {
    Document document = Llama();
    document[key] = value;
    CHECK(Refused(document).code == Code::HEADER_CORRUPT);
    CHECK(Refused(document).at == at);
  };
  damaged("hidden_size", 0, "/hidden_size");
  damaged("vocab_size", 1u << 25, "/vocab_size");
  damaged("num_key_value_heads", 3, "/num_key_value_heads");
  damaged("num_attention_heads", 12, "/num_attention_heads");
  damaged("head_dim", 15, "/head_dim");
  damaged("rope_theta", 0, "/rope_theta");
  damaged("rope_theta", 1e-320, "/rope_theta");                                               // 0 in f32
  damaged("rope_scaling", {{"type", "linear"}, {"factor", 1e-300}}, "/rope_scaling/factor");  // an infinite frequency
  damaged("rope_scaling",
          {{"rope_type", "llama3"},
           {"factor", 1e-300},
           {"low_freq_factor", 1},
           {"high_freq_factor", 4},
           {"original_max_position_embeddings", 64}},
          "/rope_scaling/factor");
  damaged("rms_norm_eps", -1.0, "/rms_norm_eps");
}

TEST_CASE("hf config: what would change the arithmetic and is not implemented is refused by name") {
  const auto refused = [](const std::string& key, const Document& value, const std::string& at) {
    Document document = Llama();
    document[key] = value;
    const Error error = Refused(document);
    CAPTURE(error.Text());
    CHECK(error.code == Code::FORMAT_UNSUPPORTED);
    CHECK(error.at == at);
  };
  refused("model_type", "gemma3", "/model_type");
  refused("hidden_act", "gelu", "/hidden_act");
  refused("num_local_experts", 8, "/num_local_experts");
  refused("sliding_window", 4096, "/sliding_window");
  refused("use_sliding_window", true, "/use_sliding_window");
  refused("layer_types", {"full_attention", "sliding_attention"}, "/layer_types/1");
  refused("partial_rotary_factor", 0.5, "/partial_rotary_factor");
  refused("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, "/rope_scaling/type");
  refused("rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}}, "/rope_parameters/rope_type");
  refused("quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}, "/quantization_config/quant_method");
  refused("quantization_config", {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "fp4"}},
          "/quantization_config/bnb_4bit_quant_type");
  refused("quantization_config", {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}}, "/quantization_config/bnb_4bit_quant_type");
}

TEST_CASE("hf config: keys that ask for nothing do not matter") {
  Document document = Llama();
  document["hidden_act"] = "silu";
  document["sliding_window"] = 131072;  // of Qwen2: not used
  document["use_sliding_window"] = false;
  document["rope_scaling"] = nullptr;
  document["layer_types"] = {"full_attention"};
  document["num_experts"] = 0;
  CHECK(ConfigOf(document).model.rope_frequency_scale == 1);
}

TEST_CASE("hf config: linear scaling, and rope_theta inside rope_parameters") {
  Document document = Llama();
  document["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  CHECK(ConfigOf(document).model.rope_frequency_scale == 0.25F);
  CHECK(ConfigOf(document).model.rope_base == 500000);
  document["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 20000.0}};
  CHECK(ConfigOf(document).model.rope_base == 20000);
  CHECK(ConfigOf(document).model.rope_frequency_scale == 1);
}

TEST_CASE("hf config: bitsandbytes is known by what it loads in") {
  Document document = Llama();
  document["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  CHECK(ConfigOf(document).quantization == HfQuantization::kNf4);
  document["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", false}, {"load_in_8bit", true}};
  CHECK(ConfigOf(document).quantization == HfQuantization::kInt8);
  document["quantization_config"]["load_in_8bit"] = false;
  CHECK(Refused(document).code == Code::HEADER_CORRUPT);
}

TEST_CASE("hf config: llama3 scaling gives the rope_freqs that the converter of llama.cpp wrote for the same model") {
  const auto data = ExternalData();
  if (!data) return;
  const auto folder = *data / "families/mini-llama3";
  const auto config = ReadHfConfig(ReadAll(folder / "hf/config.json"));
  REQUIRE(config.has_value());
  const std::string bytes = ReadAll(folder / "mini-llama3-q8_0.gguf");
  const auto gguf = GgufFile::Parse(std::as_bytes(std::span(bytes)));
  REQUIRE(gguf.has_value());
  const TensorView* const freqs = gguf->FindTensor("rope_freqs.weight");
  REQUIRE(freqs != nullptr);
  std::vector<float> expected(freqs->elements());
  std::memcpy(expected.data(), freqs->bytes.data(), freqs->bytes.size());
  REQUIRE(config->model.rope_factors.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(config->model.rope_factors[i] - expected[i]) <= 1e-5F * expected[i]);
}

}  // namespace
}  // namespace veneer
