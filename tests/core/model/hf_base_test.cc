#include <algorithm>
#include <string>

#include "core/model/hf_tensors.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"
#include "tests/support/tiny_hf.h"

namespace veneer {
namespace {

std::shared_ptr<const Base> OpenHf(BaseFiles files) {
  auto base = Base::Open(std::move(files));
  if (!base) FAIL(base.error().Text());
  return *std::move(base);
}
Error Refused(BaseFiles files) {
  const auto base = Base::Open(std::move(files));
  REQUIRE_FALSE(base.has_value());
  CHECK(base.error().at.starts_with("models/tiny: "));
  return base.error();
}

std::vector<float> Values(const Site& site) {
  const bool is_vector = site.shape_class == SiteClass::kVector;
  std::vector<float> values(is_vector ? site.out : site.out * site.in);
  ReadRows(site, 0, is_vector ? 1 : site.out, values.data(), is_vector ? site.out : site.in);
  return values;
}

// Two shards and their index: the tensors before `split` and the rest.
struct Sharded {
  SafetensorsWriter first, second;
  nlohmann::ordered_json map = nlohmann::ordered_json::object();

  explicit Sharded(const TinyHf& model) : first(model.tensors), second(model.tensors) {
    const std::vector<std::string> names = model.tensors.Names();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool is_first = i < names.size() / 2;
      (is_first ? second : first).Remove(names[i]);
      map[names[i]] = is_first ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
    }
  }
  [[nodiscard]] BaseFiles Files(const TinyHf& model) const {
    BaseFiles files;
    files.name = "models/tiny";
    files.list = "{}";
    const std::pair<const char*, std::string> all[] = {
        {"config.json", model.config.dump()},
        {"model-00001-of-00002.safetensors", first.Bytes()},
        {"model-00002-of-00002.safetensors", second.Bytes()},
        {"model.safetensors.index.json", nlohmann::ordered_json{{"weight_map", map}}.dump()}};
    for (const auto& [name, bytes] : all) files.files.push_back({name, InMemory(bytes, name), {}});
    return files;
  }
};

TEST_CASE("hf base: a directory has the sites and the values of the GGUF of the same model, whatever order that stores rows in") {
  for (const TinyModel& shape : {TinyModel{.matrix_type = VNR_F32, .embedding_type = VNR_F32, .tied = false, .biases = true},
                                 TinyModel{.arch = "qwen2", .matrix_type = VNR_F32, .embedding_type = VNR_F32},
                                 TinyModel{.arch = "qwen3", .matrix_type = VNR_F32, .embedding_type = VNR_F32}}) {
    CAPTURE(shape.arch);
    const auto gguf = OpenTiny(TinyLlama(shape));
    const auto hf = OpenHf(TinyHf(*gguf).Files());
    CHECK(hf->format() == "hf");
    CHECK(hf->quantization() == Quantization{.dtype = "f32", .scheme = "none", .block_size = 1});
    const auto& expected = gguf->sites().sites();
    REQUIRE(hf->sites().sites().size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Site& site = hf->sites().sites()[i];
      CAPTURE(site.id);
      CHECK(site.id == expected[i].id);
      CHECK(site.is_tied == expected[i].is_tied);
      CHECK(site.row_order.is_identity());
      CHECK(site.bias.has_value() == expected[i].bias.has_value());
      CHECK(Values(site) == Values(expected[i]));
    }
  }
}

TEST_CASE("hf base: matrices and norms may be F16 or BF16, and lie in the file's own bytes") {
  const auto gguf = OpenTiny(TinyLlama({.matrix_type = VNR_F32, .embedding_type = VNR_F32}));
  for (const char* const dtype : {"F16", "BF16"}) {
    const auto hf = OpenHf(TinyHf(*gguf, dtype).Files());
    const auto mapped = hf->files().files.back().bytes.bytes();
    for (std::size_t i = 0; i < hf->sites().sites().size(); ++i) {
      const Site& site = hf->sites().sites()[i];
      CAPTURE(dtype, site.id);
      CHECK(site.weight.bytes.data() >= mapped.data());
      CHECK(site.weight.bytes.data() + site.weight.bytes.size() <= mapped.data() + mapped.size());
      const std::vector<float> values = Values(site), exact = Values(gguf->sites().sites()[i]);
      for (std::size_t k = 0; k < values.size(); ++k) REQUIRE(std::abs(values[k] - exact[k]) <= std::abs(exact[k]) / 64 + 1e-7F);
    }
  }
}

TEST_CASE("hf base: a tensor that is missing, of another shape, of an unknown name or type is refused and named") {
  const TinyHf model(*OpenTiny(TinyLlama()));
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  TinyHf one = model;
  one.tensors.Remove(q);
  CHECK(Refused(one.Files()).code == Code::HEADER_CORRUPT);
  CHECK(Refused(one.Files()).at.ends_with(q));
  one = model;
  one.tensors.Fill(q, {64, 32}, 1);
  CHECK(Refused(one.Files()).code == Code::SHAPE_MISMATCH);
  CHECK(Refused(one.Files()).detail.contains("[64, 32], config.json asks for [64, 64]"));
  one = model;
  one.tensors.Fill("model.layers.1.self_attn.sinks", {4}, 1);
  CHECK(Refused(one.Files()).code == Code::FORMAT_UNSUPPORTED);
  CHECK(Refused(one.Files()).at.ends_with("model.layers.1.self_attn.sinks"));
  one = model;
  one.tensors.Set(q, "U8", {64, 64}, std::string(64 * 64, 'x'));
  CHECK(Refused(one.Files()).code == Code::FORMAT_UNSUPPORTED);
  CHECK(Refused(one.Files()).detail.contains("type u8"));
  one = model;
  one.tensors.Fill("model.layers.0.self_attn.rotary_emb.inv_freq", {8}, 1);  // of old checkpoints
  OpenHf(one.Files());
}

TEST_CASE("hf base: a stored head beside a tied one must hold the embedding, and then is not a second one") {
  TinyHf model(*OpenTiny(TinyLlama({.embedding_type = VNR_F32})));
  model.tensors.Fill("lm_head.weight", {320, 64}, 0.5F);
  CHECK(Refused(model.Files()).code == Code::HEADER_CORRUPT);
  CHECK(Refused(model.Files()).at.ends_with("lm_head.weight"));
  model.tensors.Fill("model.embed_tokens.weight", {320, 64}, 0.5F);
  const auto base = OpenHf(model.Files());
  CHECK(base->sites().Find("lm_head")->storage_group == base->sites().Find("model.embed_tokens")->storage_group);
}

TEST_CASE("hf base: a bias that is missing, or there, against what config.json says is refused and named") {
  TinyHf model(*OpenTiny(TinyLlama({.biases = true})));  // on q, k and v
  model.config["attention_bias"] = false;
  CHECK(Refused(model.Files()).at.ends_with("model.layers.0.self_attn.q_proj.bias"));
  model.config["attention_bias"] = true;
  CHECK(Refused(model.Files()).code == Code::HEADER_CORRUPT);
  CHECK(Refused(model.Files()).at.ends_with("model.layers.0.self_attn.o_proj.bias"));
  for (const char* const layer : {"0", "1"}) model.tensors.Fill(std::string("model.layers.") + layer + ".self_attn.o_proj.bias", {64}, 1);
  OpenHf(model.Files());
  model.config["mlp_bias"] = true;
  CHECK(Refused(model.Files()).at.ends_with("model.layers.0.mlp.gate_proj.bias"));
}

TEST_CASE("hf base: shards are read as their index says") {
  const TinyHf model(*OpenTiny(TinyLlama()));
  const Sharded shards(model);
  const auto whole = OpenHf(model.Files()), split = OpenHf(shards.Files(model));
  for (std::size_t i = 0; i < whole->sites().sites().size(); ++i)
    CHECK(Values(whole->sites().sites()[i]) == Values(split->sites().sites()[i]));
}

TEST_CASE("hf base: an index and shards that contradict each other are refused, with the tensor and both places") {
  const TinyHf model(*OpenTiny(TinyLlama()));
  const std::string norm = "model.norm.weight", embedding = "model.embed_tokens.weight";
  const auto refused = [&](auto change, const std::string& at) {
    Sharded shards(model);
    change(shards);
    const Error error = Refused(shards.Files(model));
    CAPTURE(error.Text());
    CHECK(error.code == Code::HEADER_CORRUPT);
    CHECK(error.at.ends_with(at));
  };
  refused([&](Sharded& s) { s.second.Fill(embedding, {320, 64}, 1); }, embedding);  // lies in both
  refused([&](Sharded& s) { s.map[norm] = "model-00001-of-00002.safetensors"; }, "/weight_map/" + norm);
  refused([&](Sharded& s) { s.map.erase(norm); }, norm);
  refused([&](Sharded& s) { s.map["model.ghost.weight"] = "model-00001-of-00002.safetensors"; }, "/weight_map/model.ghost.weight");
}

TEST_CASE("hf base: an index names plain files of its own directory only") {
  for (const char* const name : {"../other/model.safetensors", "/tmp/model.safetensors", ".hidden.safetensors", "", "model.bin"}) {
    const auto shards = ShardsOfIndex(nlohmann::json{{"weight_map", {{"model.norm.weight", name}}}}.dump());
    CAPTURE(name);
    REQUIRE_FALSE(shards.has_value());
    CHECK(shards.error().code == Code::NAME_INVALID);
    CHECK(shards.error().at == "/weight_map/model.norm.weight");
  }
  const auto shards =
      ShardsOfIndex(R"({"metadata":{"total_size":1},"weight_map":{"b":"two.safetensors","a":"one.safetensors","c":"one.safetensors"}})");
  REQUIRE(shards.has_value());
  CHECK(*shards == std::vector<std::string>{"one.safetensors", "two.safetensors"});
}

}  // namespace
}  // namespace veneer
