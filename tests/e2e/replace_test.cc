// Replacement tensors through the command line: saved copies, saved heads, and stacks in which they contradict each other.
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/vectors.h"

namespace {

const std::string kPrompt = "1,403,407,261,378";

ProcessResult Run(const std::string& verb, const std::filesystem::path& base, const std::vector<std::string>& adapters,
                  std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {verb, "--base", base.string()});
  for (const std::string& adapter : adapters) arguments.insert(arguments.end(), {"--adapter", adapter});
  return Veneer(arguments);
}

Matrix Logits(const std::filesystem::path& base, const std::vector<std::string>& adapters) {
  const TempDir dir;
  const std::string out = (dir.path() / "logits.npy").string();
  const ProcessResult result = Run("logits", base, adapters, {"--tokens", kPrompt, "--out", out, "--compute", "exact"});
  INFO(result.err);
  REQUIRE(result.status == 0);
  return ReadNpy(out);
}

nlohmann::json Inspect(const std::filesystem::path& adapter, const std::filesystem::path& base) {
  const ProcessResult result = Veneer({"inspect", adapter.string(), "--base", base.string(), "--json"});
  INFO(result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out);
}

// A PEFT adapter for a Qwen3: a lora that adds nothing, and norms of heads trained to one value each.
void WriteHeadNorms(const std::filesystem::path& directory, int layers, std::uint64_t hidden, std::uint64_t q_lanes, std::uint64_t head,
                    float q_norm, float k_norm) {
  SafetensorsWriter file;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string attention = "base_model.model.model.layers." + std::to_string(layer) + ".self_attn.";
    file.Fill(attention + "q_proj.lora_A.weight", {1, hidden}, 1);
    file.Fill(attention + "q_proj.lora_B.weight", {q_lanes, 1}, 0);
    file.Fill(attention + "q_norm.weight", {head}, q_norm);
    file.Fill(attention + "k_norm.weight", {head}, k_norm);
  }
  std::filesystem::create_directories(directory);
  WriteAll(directory / "adapter_model.safetensors", file.Bytes());
  WriteAll(directory / "adapter_config.json",
           R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q_proj"],"modules_to_save":["q_norm","k_norm"]})");
}

}  // namespace

TEST_CASE("replace: saved norms of heads are in force: twice the queries and half the keys change no bit, twice the queries alone do") {
  const auto data = ExternalData();
  if (!data) return;
  const auto model = *data / "families/mini-qwen3";
  const nlohmann::json config = nlohmann::json::parse(ReadAll(model / "hf/config.json"));
  const auto number = [&config](const char* key) { return config.at(key).get<std::uint64_t>(); };
  const TempDir dir;
  const auto logits_with = [&](float q_norm, float k_norm) {
    const auto directory = dir.path() / "adapter";
    WriteHeadNorms(directory, static_cast<int>(number("num_hidden_layers")), number("hidden_size"),
                   number("num_attention_heads") * number("head_dim"), number("head_dim"), q_norm, k_norm);
    return Logits(model / "mini-qwen3-q8_0.gguf", {directory.string()}).values;
  };
  const auto ones = logits_with(1, 1);
  CHECK(ones == logits_with(2, 0.5F));  // powers of two: the scores have the same bits
  CHECK(ones != logits_with(2, 1));
  CHECK(ones != logits_with(1, 0.5F));
  CHECK(ones != Logits(model / "mini-qwen3-q8_0.gguf", {}).values);
}

TEST_CASE("replace: a saved copy of the embedding does nothing over the base it was copied from, and replaces over another") {
  const auto data = ExternalData();
  if (!data) return;
  const auto stories = *data / "stories260k";
  const auto copies = stories / "adapters/copies-embed-lora", f32 = stories / "stories260k-f32.gguf",
             q8_0 = stories / "stories260k-q8_0.gguf";
  CHECK(Inspect(copies, f32).at("replacements").empty());
  CHECK(Inspect(copies, f32).dump().find("equals the base's tensor bit for bit") != std::string::npos);
  // With the better embedding the logits over the quantized base come nearer to those over the base it was copied from.
  const Matrix wanted = Logits(f32, {copies.string()}), near = Logits(q8_0, {copies.string()});
  CHECK(MaxDifference(near, wanted) > 0);
  CHECK(MaxDifference(near, wanted) < MaxDifference(Logits(q8_0, {}), Logits(f32, {})));
  const auto replaced = Inspect(copies, q8_0).at("replacements");
  REQUIRE(replaced.size() == 1);
  CHECK(replaced[0].at("site") == "model.embed_tokens");
}

TEST_CASE("replace: a replacement behind an edit of its site, and two owners of one tensor, are E216; the other order decodes") {
  const auto base = RepoData() / "stories260k/stories260k-q8_0.gguf";
  const std::string head = (RepoData() / "stories260k/adapters/lora-mts-head").string();
  const ProcessResult twice = Run("generate", base, {head, head}, {"--tokens", kPrompt, "-n", "1"});
  CHECK(twice.status == 3);
  CHECK(twice.err.find("E216") != std::string::npos);
  CHECK(twice.err.find("lm_head") != std::string::npos);
  CHECK(Run("generate", base, {head, head + "=0"}, {"--tokens", kPrompt, "-n", "1"}).status == 0);
  CHECK(Logits(base, {head + "=0"}).values == Logits(base, {}).values);
}
