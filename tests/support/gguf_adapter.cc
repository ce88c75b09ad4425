#include "tests/support/gguf_adapter.h"
#include "tests/support/files.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/format/json.h"
#include "core/format/safetensors.h"

namespace {

const std::map<std::string, std::string> kModules = {
    {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},      {"mlp.down_proj", "ffn_down"}};

// "base_model.model.model.layers.3.self_attn.q_proj" -> "blk.3.attn_q.weight"
std::string GgufName(const std::string& module) {
  const std::string layers = "base_model.model.model.layers.";
  if (module == "base_model.model.model.embed_tokens") return "token_embd.weight";
  if (module == "base_model.model.lm_head") return "output.weight";
  if (!module.starts_with(layers)) throw std::runtime_error("unexpected name " + module);
  const auto dot = module.find('.', layers.size());
  return "blk." + module.substr(layers.size(), dot - layers.size()) + "." + kModules.at(module.substr(dot + 1)) + ".weight";
}

struct Factor {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};

Factor Transposed(const Factor& from) {
  Factor to{{from.shape[1], from.shape[0]}, std::vector<float>(from.values.size())};
  for (std::uint64_t i = 0; i < from.shape[0]; ++i)
    for (std::uint64_t j = 0; j < from.shape[1]; ++j) to.values[j * from.shape[0] + i] = from.values[i * from.shape[1] + j];
  return to;
}

// W.reshape(H, 2, D/2, n).swapaxes(1, 2).reshape(H*D, n)
Factor Permuted(const Factor& from, std::uint64_t head_dim) {
  Factor to = from;
  const std::uint64_t n = from.shape[1], half = head_dim / 2;
  std::uint64_t next = 0;
  for (std::uint64_t head = 0; head < from.shape[0] / head_dim; ++head)
    for (std::uint64_t pair = 0; pair < half; ++pair)
      for (std::uint64_t part = 0; part < 2; ++part, ++next)
        std::memcpy(&to.values[next * n], &from.values[(head * head_dim + part * half + pair) * n], n * sizeof(float));
  return to;
}

}  // namespace

GgufWriter GgufFromPeft(const std::filesystem::path& directory, std::uint32_t head_dim, std::uint32_t type) {
  const auto config = veneer::ParseJson(ReadAll(directory / "adapter_config.json"), {});
  const std::string bytes = ReadAll(directory / "adapter_model.safetensors");
  const auto file = veneer::SafetensorsFile::Parse(std::as_bytes(std::span(bytes)));
  if (!config || !file) throw std::runtime_error("no adapter in " + directory.string());
  GgufWriter out;
  out.Set("general.architecture", "llama");
  out.Set("general.type", "adapter");
  out.Set("adapter.type", "lora");
  out.Set("adapter.lora.alpha", static_cast<float>(config->Find("lora_alpha")->Number().value()));
  const std::map<std::string, std::string> suffixes = {
      {".lora_A.weight", ".lora_a"}, {".lora_B.weight", ".lora_b"}, {".lora_embedding_A", ".lora_a"}, {".lora_embedding_B", ".lora_b"}};
  for (const veneer::TensorView& tensor : file->tensors) {
    for (const auto& [peft, gguf] : suffixes) {
      if (!tensor.name.ends_with(peft)) continue;
      if (tensor.dtype != VNR_F32 || tensor.shape.size() != 2) throw std::runtime_error("not f32: " + tensor.name);
      Factor factor{tensor.shape, std::vector<float>(tensor.elements())};
      std::memcpy(factor.values.data(), tensor.bytes.data(), tensor.bytes.size());
      const std::string name = GgufName(tensor.name.substr(0, tensor.name.size() - peft.size()));
      if (peft == ".lora_embedding_A") factor = Transposed(factor);
      if (gguf == ".lora_b" && (name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight"))) factor = Permuted(factor, head_dim);
      const bool is_plain = type == VNR_F32 || type == VNR_F16 || type == VNR_BF16;
      const std::uint32_t stored = is_plain || factor.shape[1] % 32 == 0 ? type : std::uint32_t{VNR_F16};
      out.SetTensor(name + gguf, stored, factor.shape, Quantize(stored, factor.values));
      break;
    }
  }
  return out;
}
