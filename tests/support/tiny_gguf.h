// Small GGUF files for tests: a writer that builds any file, valid or not, and deterministic little models of Llama's family on top of it.
// Independent of core/format's reader: it shares no constant or code with it but the VNR_* numbers.
//
//   TinyModel shape{.n_layers = 1, .matrix_type = VNR_Q4_0, .tied = false};
//   GgufWriter file = TinyLlama(shape);
//   file.Set("llama.expert_count", std::uint32_t{8});            // make it wrong on purpose
//   auto base = Base::OpenGguf(InMemory(file.Bytes()));
#ifndef VENEER_TESTS_SUPPORT_TINY_GGUF_H_
#define VENEER_TESTS_SUPPORT_TINY_GGUF_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "veneer/abi.h"

// Collects key-values and tensors, and lays them out as a GGUF v3 does. Order is that of the first Set of a key or tensor.
class GgufWriter {
 public:
  void Set(std::string_view key, bool value);
  void Set(std::string_view key, std::uint32_t value);
  void Set(std::string_view key, std::int32_t value);
  void Set(std::string_view key, std::uint64_t value);
  void Set(std::string_view key, float value);
  void Set(std::string_view key, std::string_view value);
  void Set(std::string_view key, const char* value) { Set(key, std::string_view(value)); }
  void Set(std::string_view key, const std::vector<std::string>& values);
  void Set(std::string_view key, const std::vector<float>& values);
  void Set(std::string_view key, const std::vector<std::int32_t>& values);
  void SetRaw(std::string_view key, std::uint32_t type, std::string payload);
  void Remove(std::string_view key);

  // shape is row-major, outermost first; the file gets it reversed. bytes: as stored.
  void SetTensor(std::string_view name, std::uint32_t vnr_type, std::vector<std::uint64_t> shape, std::string bytes);
  // A tensor whose type the reader may not know, by ggml's number.
  void SetTensorRaw(std::string_view name, std::uint32_t ggml_type, std::vector<std::uint64_t> shape, std::string bytes);
  // Puts the tensor's data at an offset of the caller's choice in the table (the bytes stay where they are).
  void SetOffset(std::string_view name, std::uint64_t offset);
  void RemoveTensor(std::string_view name);

  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  // written as general.alignment only when a test Sets that key too
  [[nodiscard]] std::string Bytes() const;

 private:
  struct Value {
    std::string key;
    std::uint32_t type;
    std::string payload;
  };
  struct Tensor {
    std::string name;
    std::uint32_t type;  // ggml's number
    std::vector<std::uint64_t> shape;
    std::string bytes;
    std::uint64_t offset = UINT64_MAX;  // UINT64_MAX: where it lies
  };
  std::vector<Value> values_;
  std::vector<Tensor> tensors_;
};

// Blocks of a type for values.size() elements, a multiple of the block: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q6_K, by round to
// nearest on an absmax (or min-max) grid: plain, not llama.cpp's search. Throws for other types.
std::string Quantize(std::uint32_t vnr_type, std::span<const float> values);

// Valid blocks of any block type with random quants and scales such that values are of the order of `scale`.
std::string RandomBlocks(std::uint32_t vnr_type, std::uint64_t elements, float scale, std::uint64_t seed);

// n numbers uniform in [-scale, scale), the same for the same seed everywhere.
std::vector<float> Uniform(std::uint64_t n, float scale, std::uint64_t seed);

struct TinyModel {
  std::string arch = "llama";  // or "qwen2" (q, k and v always have a bias), "qwen3" (norms over the heads of q and k)
  std::uint32_t n_layers = 2, hidden = 64, ffn = 96, n_heads = 4, n_kv_heads = 2;
  std::uint32_t head_dim = 0;  // 0: hidden / n_heads, and no key_length in the file
  std::uint32_t vocab = 320;   // at least 300: unknown, <s>, </s>, 256 bytes, some letters and merges, then fillers
  std::uint32_t context_length = 128;
  std::uint32_t matrix_type = VNR_Q8_0;     // of the projections; the block must divide hidden, ffn and n_heads * head_dim
  std::uint32_t embedding_type = VNR_Q8_0;  // of token_embd and output
  bool tied = true;
  bool biases = false;        // on q, k and v
  bool rope_factors = false;  // rope_freqs.weight, 1 for the fast half of the pairs and 4 for the slow half
  float rope_base = 10000;
  std::uint64_t seed = 1;
};

// The model as a writer (change it, then Bytes()). Weights are uniform with variance 1/in; norms near 1. A seed draws the same model for
// every architecture, as far as it has the same parts: for "llama" the rows of q and k, weight and bias, are then stored interleaved.
GgufWriter TinyLlama(const TinyModel& model = {});

// A read-only mapping of the bytes (a memfd), named `name` in messages.
veneer::FileBytes InMemory(std::string_view bytes, std::string name = "tiny.gguf");

#endif  // VENEER_TESTS_SUPPORT_TINY_GGUF_H_
