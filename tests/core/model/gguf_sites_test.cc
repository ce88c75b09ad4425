#include "core/model/gguf_sites.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

Error ErrorOf(const GgufWriter& writer) {
  const auto base = Base::OpenGguf(InMemory(writer.Bytes()));
  REQUIRE_FALSE(base.has_value());
  return base.error();
}

TEST_CASE("sites: a tied one-layer model has the documented sites in the documented order") {
  const auto base = OpenTiny({.n_layers = 1});
  const std::pair<const char*, std::vector<std::uint64_t>> expected[] = {{"model.embed_tokens", {320, 64}},
                                                                         {"model.layers.0.input_layernorm", {64, 1}},
                                                                         {"model.layers.0.self_attn.q_proj", {64, 64}},
                                                                         {"model.layers.0.self_attn.k_proj", {32, 64}},
                                                                         {"model.layers.0.self_attn.v_proj", {32, 64}},
                                                                         {"model.layers.0.self_attn.o_proj", {64, 64}},
                                                                         {"model.layers.0.post_attention_layernorm", {64, 1}},
                                                                         {"model.layers.0.mlp.gate_proj", {96, 64}},
                                                                         {"model.layers.0.mlp.up_proj", {96, 64}},
                                                                         {"model.layers.0.mlp.down_proj", {64, 96}},
                                                                         {"model.norm", {64, 1}},
                                                                         {"lm_head", {320, 64}}};
  const auto& sites = base->sites().sites();
  REQUIRE(sites.size() == std::size(expected));
  for (std::uint32_t i = 0; i < sites.size(); ++i) {
    CHECK(sites[i].id == expected[i].first);
    CHECK(std::vector<std::uint64_t>{sites[i].out, sites[i].in} == expected[i].second);
    CHECK(sites[i].index == i);
    const bool is_layer = sites[i].id.starts_with("model.layers.");
    CHECK(sites[i].layer == (is_layer ? 0 : kNoLayer));
    const bool is_heads = sites[i].id.ends_with("q_proj") || sites[i].id.ends_with("k_proj");
    CHECK(sites[i].row_order.is_identity() == !is_heads);
    const bool is_vector = sites[i].id.ends_with("norm");
    CHECK(sites[i].shape_class == (i == 0 ? SiteClass::kEmbedding : is_vector ? SiteClass::kVector : SiteClass::kLinear));
    CHECK_FALSE(sites[i].bias.has_value());
  }
}

TEST_CASE("sites: a tied head shares the embedding's storage, an untied one does not") {
  const auto tied = OpenTiny({.n_layers = 1});
  const Site &embedding = *tied->sites().Find("model.embed_tokens"), &head = *tied->sites().Find("lm_head");
  CHECK(embedding.is_tied);
  CHECK(head.is_tied);
  CHECK(embedding.storage_group == head.storage_group);
  CHECK(embedding.weight.bytes.data() == head.weight.bytes.data());

  const auto untied = OpenTiny({.n_layers = 1, .tied = false});
  const Site& own = *untied->sites().Find("lm_head");
  CHECK_FALSE(own.is_tied);
  CHECK_FALSE(untied->sites().Find("model.embed_tokens")->is_tied);
  CHECK(own.weight.name == "output.weight");
  CHECK(own.storage_group != untied->sites().Find("model.embed_tokens")->storage_group);
}

TEST_CASE("sites: a bias is part of its module and a vector site of its own") {
  const auto base = OpenTiny({.n_layers = 1, .biases = true});
  const Site* const k = base->sites().Find("model.layers.0.self_attn.k_proj");
  REQUIRE(k->bias.has_value());
  CHECK(k->bias->name == "blk.0.attn_k.bias");
  const Site* const bias = base->sites().Find("model.layers.0.self_attn.k_proj.bias");
  REQUIRE(bias != nullptr);
  CHECK(bias->index == k->index + 1);
  CHECK(bias->shape_class == SiteClass::kVector);
  CHECK(bias->out == 32);
  CHECK_FALSE(bias->row_order.is_identity());
  CHECK(base->sites().Find("model.layers.0.self_attn.v_proj.bias")->row_order.is_identity());
  CHECK(base->sites().Find("model.layers.0.self_attn.o_proj.bias") == nullptr);
}

TEST_CASE("sites: q and k of a Qwen lie as they are, of a Llama interleaved, weight and bias") {
  for (const char* const arch : {"llama", "qwen2", "qwen3"}) {
    const auto base = OpenTiny({.arch = arch, .n_layers = 1, .biases = true});
    for (const char* const name : {"q_proj", "k_proj", "q_proj.bias", "k_proj.bias"}) {
      const Site* const site = base->sites().Find(std::string("model.layers.0.self_attn.") + name);
      REQUIRE(site != nullptr);
      CAPTURE(arch, name);
      CHECK(site->row_order.is_identity() == (std::string(arch) != "llama"));
    }
  }
}

TEST_CASE("sites: a Qwen3 has norms of one head's size behind o_proj, under both names") {
  const auto base = OpenTiny({.arch = "qwen3", .n_layers = 1, .n_heads = 8, .n_kv_heads = 2, .head_dim = 24, .matrix_type = VNR_F32});
  CHECK(base->sites().Find("model.layers.0.self_attn.q_proj")->out == 8 * 24);
  CHECK(base->sites().Find("model.layers.0.self_attn.o_proj")->in == 8 * 24);
  const std::uint32_t after = base->sites().Find("model.layers.0.self_attn.o_proj")->index;
  for (const char which : {'q', 'k'}) {
    const std::string id = std::string("model.layers.0.self_attn.") + which + "_norm", gguf = std::string("blk.0.attn_") + which + "_norm";
    const Site* const norm = base->sites().Find(id);
    REQUIRE(norm != nullptr);
    CHECK(norm->index == after + (which == 'q' ? 1 : 2));
    CHECK(norm->shape_class == SiteClass::kVector);
    CHECK(norm->out == 24);
    CHECK(norm->weight.name == gguf + ".weight");
    CHECK(base->sites().Canonical(gguf) == id);
  }
  CHECK(OpenTiny({.n_layers = 1})->sites().Find("model.layers.0.self_attn.q_norm") == nullptr);
}

TEST_CASE("sites: what an architecture always has is named when it is missing") {
  const auto missing = [](const char* arch, const char* tensor) {
    GgufWriter writer = TinyLlama({.arch = arch});
    writer.RemoveTensor(tensor);
    const Error error = ErrorOf(writer);
    CHECK(error.code == Code::HEADER_CORRUPT);
    CHECK(error.at == std::string("tiny.gguf: ") + tensor);
  };
  for (const char* const bias : {"blk.0.attn_q.bias", "blk.1.attn_k.bias", "blk.1.attn_v.bias"}) missing("qwen2", bias);
  for (const char* const norm : {"blk.0.attn_q_norm.weight", "blk.1.attn_k_norm.weight"}) missing("qwen3", norm);
}

TEST_CASE("sites: a norm over all heads at once in the place of a norm over one is refused with both shapes") {
  GgufWriter writer = TinyLlama({.arch = "qwen3"});
  writer.SetTensor("blk.0.attn_q_norm.weight", VNR_F32, {64}, std::string(256, '\0'));
  CHECK(ErrorOf(writer).code == Code::SHAPE_MISMATCH);
  CHECK(ErrorOf(writer).detail.find("[16]") != std::string::npos);
}

TEST_CASE("sites: a missing tensor is refused by name") {
  for (const char* const name : {"blk.1.attn_k.weight", "blk.0.ffn_norm.weight", "output_norm.weight"}) {
    GgufWriter writer = TinyLlama();
    writer.RemoveTensor(name);
    const Error error = ErrorOf(writer);
    CHECK(error.code == Code::HEADER_CORRUPT);
    CHECK(error.at == std::string("tiny.gguf: ") + name);
  }
}

TEST_CASE("sites: a tensor of another shape is refused with both shapes") {
  GgufWriter writer = TinyLlama();
  writer.SetTensor("blk.0.attn_k.weight", VNR_F32, {64, 64}, std::string(64 * 64 * 4, '\0'));
  const Error error = ErrorOf(writer);
  CHECK(error.code == Code::SHAPE_MISMATCH);
  CHECK(error.detail.find("[64, 64]") != std::string::npos);
  CHECK(error.detail.find("[32, 64]") != std::string::npos);
  GgufWriter norm = TinyLlama();
  norm.SetTensor("blk.0.attn_norm.weight", VNR_F32, {32}, std::string(128, '\0'));
  CHECK(ErrorOf(norm).code == Code::SHAPE_MISMATCH);
  GgufWriter bias = TinyLlama({.biases = true});
  bias.SetTensor("blk.0.attn_q.bias", VNR_F32, {32}, std::string(128, '\0'));
  CHECK(ErrorOf(bias).code == Code::SHAPE_MISMATCH);
}

TEST_CASE("sites: tensors without a place are refused and listed") {
  GgufWriter writer = TinyLlama();
  writer.SetTensor("blk.0.attn_q_norm.weight", VNR_F32, {16}, std::string(64, '\0'));
  writer.SetTensor("rope_factors_long.weight", VNR_F32, {8}, std::string(32, '\0'));
  const Error error = ErrorOf(writer);
  CHECK(error.code == Code::FORMAT_UNSUPPORTED);
  CHECK(error.detail.find("attn_q_norm") != std::string::npos);
  CHECK(error.detail.find("rope_factors_long") != std::string::npos);
  GgufWriter layer = TinyLlama({.n_layers = 2});
  layer.Set("llama.block_count", std::uint32_t{1});
  CHECK(ErrorOf(layer).detail.find("9 tensors") != std::string::npos);
}

TEST_CASE("sites: a weight type without kernels is refused with tensor, type and what is supported") {
  GgufWriter writer = TinyLlama();
  writer.SetTensor("blk.0.ffn_up.weight", VNR_F64, {96, 64}, std::string(96 * 64 * 8, '\0'));
  const Error error = ErrorOf(writer);
  CHECK(error.code == Code::FORMAT_UNSUPPORTED);
  CHECK(error.at == "tiny.gguf: blk.0.ffn_up.weight");
  for (const char* const word : {"f64", "q4_0", "q8_0", "requantize"}) CHECK(error.detail.find(word) != std::string::npos);
  GgufWriter norm = TinyLlama();
  norm.SetTensor("output_norm.weight", VNR_F16, {64}, std::string(128, '\0'));
  CHECK(ErrorOf(norm).code == Code::FORMAT_UNSUPPORTED);
}

}  // namespace
}  // namespace veneer
