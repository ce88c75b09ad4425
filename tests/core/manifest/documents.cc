#include "tests/core/manifest/documents.h"

#include <fmt/format.h>

#include <stdexcept>

std::string VectorToml() {
  return R"(schema = "veneer.manifest/1"
base_model_hash = "sha256:37265981c449d4ea80cc0bddf90294af539e354a52d8183ab0b3490b82e58f8b"
base_model_size = 17
tokenizer_id = "test-bpe-v1"
tied_weights = "forbid"
timestamp_utc = "2026-01-02T03:04:05Z"
channel = "test"
sequence = 1

[quantization]
dtype = "q4_0"
scheme = "symmetric"
block_size = 32

[runtime]
name = "veneer"
version = "1"

[[adapters]]
name = "style"
file_hash = "sha256:4aa7bc426736ea96f2bc4b0e35ff3867909496e53dc81c09343195e2581543b6"
load_order = 10
merge_weight = 0.70
kind = "lora"
rank = 16
sparsity = 0
target_layers = ["model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.q_proj"]

[[adapters]]
name = "safety"
file_hash = "sha256:8433627bcbb19858e3ded864d3ef38fde896989ec7a37d17b60488b446d2228f"
load_order = 20
merge_weight = "-0.25"
kind = "lora"
rank = 8
sparsity = "0.5"
target_layers = ["model.layers.1.mlp.up_proj"]
)";
}

std::string VectorJson() {
  return R"({
  "schema": "veneer.manifest/1",
  "base_model_hash": "sha256:37265981c449d4ea80cc0bddf90294af539e354a52d8183ab0b3490b82e58f8b",
  "base_model_size": 17,
  "tokenizer_id": "test-bpe-v1",
  "tied_weights": "forbid",
  "timestamp_utc": "2026-01-02T03:04:05Z",
  "channel": "test",
  "sequence": 1,
  "quantization": {"dtype": "q4_0", "scheme": "symmetric", "block_size": 32},
  "runtime": {"name": "veneer", "version": "1"},
  "adapters": [
    {
      "name": "style",
      "file_hash": "sha256:4aa7bc426736ea96f2bc4b0e35ff3867909496e53dc81c09343195e2581543b6",
      "load_order": 10,
      "merge_weight": 0.70,
      "kind": "lora",
      "rank": 16,
      "sparsity": 0,
      "target_layers": ["model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.q_proj"]
    },
    {
      "name": "safety",
      "file_hash": "sha256:8433627bcbb19858e3ded864d3ef38fde896989ec7a37d17b60488b446d2228f",
      "load_order": 20,
      "merge_weight": "-0.25",
      "kind": "lora",
      "rank": 8,
      "sparsity": "0.5",
      "target_layers": ["model.layers.1.mlp.up_proj"]
    }
  ]
}
)";
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t position = text.find(from);
  if (position == std::string::npos) throw std::logic_error(fmt::format("the document has no {}", from));
  return text.replace(position, from.size(), to);
}

std::string EditToml(std::string_view field, std::string_view from, std::string_view to) {
  return Replaced(VectorToml(), fmt::format("{} = {}", field, from), fmt::format("{} = {}", field, to));
}

std::string EditJson(std::string_view field, std::string_view from, std::string_view to) {
  return Replaced(VectorJson(), fmt::format("\"{}\": {}", field, from), fmt::format("\"{}\": {}", field, to));
}
