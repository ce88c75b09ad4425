// An adapter in llama.cpp's layout put together in memory over the tiny base, to be made wrong on purpose.
#ifndef VENEER_TESTS_CORE_ADAPTER_GGUF_LORA_H_
#define VENEER_TESTS_CORE_ADAPTER_GGUF_LORA_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/peft_adapter.h"
#include "tests/support/tiny_gguf.h"

struct GgufLora {
  GgufWriter file;

  GgufLora() {
    file.Set("general.architecture", "llama");
    file.Set("general.type", "adapter");
    file.Set("adapter.type", "lora");
    file.Set("adapter.lora.alpha", 8.0F);
  }
  // Both factors of a linear tensor: A [rank, in], B [out, rank], element i of B being i / 8 so that rows can be told apart in f16 too.
  GgufLora& Add(const std::string& tensor, std::uint64_t out, std::uint64_t in, std::uint64_t rank, std::uint32_t type = VNR_F32) {
    file.SetTensor(tensor + ".lora_a", type, {rank, in}, Quantize(type, Uniform(rank * in, 0.5F, 7)));
    file.SetTensor(tensor + ".lora_b", type, {out, rank}, Quantize(type, Counted(out * rank)));
    return *this;
  }
  static std::vector<float> Counted(std::uint64_t n) {
    std::vector<float> values(n);
    for (std::uint64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i + 1) / 8;
    return values;
  }
  [[nodiscard]] veneer::AdapterFiles Files() const { return {InMemory(file.Bytes(), "adapter.gguf"), {}}; }
  [[nodiscard]] veneer::Result<veneer::Adapter> Read(const veneer::Base& base = *TinyBase(), const std::string& kind = "",
                                                     const veneer::Catalog& catalog = TestCatalog()) const {
    return veneer::ReadAdapter(Files(), base, catalog, {.kind = kind});
  }
};

// Rank 4, alpha 8, on q_proj and v_proj of both layers.
inline GgufLora QueryValue() {
  GgufLora adapter;
  for (const std::string block : {"blk.0.", "blk.1."})
    adapter.Add(block + "attn_q.weight", 64, 64, 4).Add(block + "attn_v.weight", 32, 64, 4);
  return adapter;
}

inline const veneer::TensorView& TensorOf(const veneer::Adapter& adapter, const std::string& site, const std::string& role) {
  for (const veneer::RoleTensor& tensor : SiteOf(adapter, site).source.tensors)
    if (tensor.role == role) return tensor.tensor;
  throw std::runtime_error(site + " has no " + role);
}

#endif  // VENEER_TESTS_CORE_ADAPTER_GGUF_LORA_H_
