// Hugging Face bases in memory: config.json and tensors with the values of another base, to change before they are opened.
//
//   TinyHf model(*OpenTiny(TinyLlama()));
//   model.config["hidden_act"] = "gelu";            // make it wrong on purpose
//   auto base = Base::Open(model.Files());
#ifndef VENEER_TESTS_SUPPORT_TINY_HF_H_
#define VENEER_TESTS_SUPPORT_TINY_HF_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/base.h"
#include "kernels/kernels.h"
#include "tests/support/files.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/tiny_gguf.h"

struct TinyHf {
  nlohmann::ordered_json config;
  SafetensorsWriter tensors;

  // Tensors of the element type, "F32", "F16" or "BF16" (cut off), in the values of `base`; a tied head is left out.
  explicit TinyHf(const veneer::Base& base, const std::string& dtype = "F32") {
    const veneer::ModelConfig& model = base.config();
    config = {{"model_type", model.arch},
              {"hidden_act", "silu"},
              {"hidden_size", model.hidden},
              {"intermediate_size", model.ffn},
              {"num_hidden_layers", model.n_layers},
              {"num_attention_heads", model.n_heads},
              {"num_key_value_heads", model.n_kv_heads},
              {"head_dim", model.head_dim},
              {"max_position_embeddings", model.context_length},
              {"rms_norm_eps", static_cast<double>(model.rms_epsilon)},
              {"rope_theta", static_cast<double>(model.rope_base)},
              {"tie_word_embeddings", model.tied_head},
              {"vocab_size", model.vocab}};
    for (const veneer::Site& site : base.sites().sites()) {
      if (site.is_tied && site.id == "lm_head") continue;
      const bool is_vector = site.shape_class == veneer::SiteClass::kVector;
      const std::uint64_t rows = is_vector ? 1 : site.out, width = is_vector ? site.out : site.in;
      std::vector<float> values(rows * width);
      ReadRows(site, 0, rows, values.data(), width);
      const std::string name = site.id.ends_with(".bias") ? site.id : site.id + ".weight";
      tensors.Set(name, dtype, is_vector ? std::vector{width} : std::vector{rows, width}, Narrow(values, dtype));
    }
  }

  // config.json and model.safetensors. The list stands for a real one.
  [[nodiscard]] veneer::BaseFiles Files() const {
    veneer::BaseFiles files;
    files.name = "models/tiny";
    files.files.push_back({"config.json", InMemory(config.dump(), "config.json"), {}});
    files.files.push_back({"model.safetensors", InMemory(tensors.Bytes(), "model.safetensors"), {}});
    files.list = "{}";
    return files;
  }
  void Write(const std::filesystem::path& directory) const {
    WriteAll(directory / "config.json", config.dump());
    WriteAll(directory / "model.safetensors", tensors.Bytes());
  }

  static std::string Narrow(const std::vector<float>& values, const std::string& dtype) {
    std::string bytes;
    for (const float value : values) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      const auto half = static_cast<std::uint16_t>(dtype == "F16" ? veneer::kernels::FloatToHalf(value) : bits >> 16);
      if (dtype == "F32")
        bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
      else
        bytes.append(reinterpret_cast<const char*>(&half), sizeof half);
    }
    return bytes;
  }
};

#endif  // VENEER_TESTS_SUPPORT_TINY_HF_H_
