// A PEFT adapter put together in memory over a tiny base, to be made wrong on purpose.
#ifndef VENEER_TESTS_SUPPORT_PEFT_ADAPTER_H_
#define VENEER_TESTS_SUPPORT_PEFT_ADAPTER_H_

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/adapter/adapter.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/tiny_base.h"

extern "C" {
extern const vnr_entry* const vnr_static_entries[];
extern const std::uint32_t vnr_static_entry_count;
extern const vnr_entry veneer_overlay_entry_v1_offset;
}

// Low-rank, scaling and the C kind of the plugin tests; nothing else.
inline const veneer::Catalog& TestCatalog() {
  static const veneer::Catalog catalog = [] {
    std::vector<const vnr_entry*> entries = {&veneer_overlay_entry_v1_offset};
    for (std::uint32_t i = 0; i < vnr_static_entry_count; ++i) {
      const std::string kind = vnr_static_entries[i]->kinds[0]->id;
      if (kind == "lora" || kind == "ia3") entries.push_back(vnr_static_entries[i]);
    }
    auto scanned = veneer::Catalog::Scan({.directories = {}, .overrides = {}, .static_entries = entries});
    if (!scanned) throw std::runtime_error(scanned.error().Text());
    return *std::move(scanned);
  }();
  return catalog;
}

// 2 layers, hidden 64, ffn 96, q [64, 64], k and v [32, 64], vocabulary 320, tied head.
inline const std::shared_ptr<const veneer::Base>& TinyBase() {
  static const auto base = OpenTiny();
  return base;
}

struct PeftAdapter {
  std::map<std::string, std::string> config;  // key -> JSON text
  SafetensorsWriter file;
  std::string prefix = "base_model.model.";

  [[nodiscard]] std::string ConfigText() const {
    std::string text;
    for (const auto& [key, value] : config) text += (text.empty() ? "{\"" : ",\"") + key + "\":" + value;
    return text + "}";
  }
  [[nodiscard]] veneer::Result<veneer::Adapter> Read(const veneer::Base& base = *TinyBase(), const std::string& kind = "") const {
    veneer::AdapterFiles files{InMemory(file.Bytes(), "adapter_model.safetensors"), InMemory(ConfigText(), "adapter_config.json")};
    return veneer::ReadAdapter(std::move(files), base, TestCatalog(), {.kind = kind});
  }
  // The error's code, 0 when the adapter reads.
  [[nodiscard]] int CodeOf() const {
    const auto adapter = Read();
    return adapter ? 0 : static_cast<int>(adapter.error().code);
  }
  [[nodiscard]] std::string ErrorText() const {
    const auto adapter = Read();
    return adapter ? "" : adapter.error().Text();
  }
  PeftAdapter& Key(const std::string& key, const std::string& value) {
    config[key] = value;
    return *this;
  }
  void AddLowRank(const std::string& module, std::uint64_t out, std::uint64_t in, std::uint64_t rank) {
    file.Fill(prefix + module + ".lora_A.weight", {rank, in}, 0.5F);
    file.Fill(prefix + module + ".lora_B.weight", {out, rank}, 0.25F);
  }
};

inline std::string Layer(int n, const std::string& module) { return "model.layers." + std::to_string(n) + "." + module; }

// Rank 4, alpha 8, on q_proj and v_proj of both layers.
inline PeftAdapter LowRank(std::uint64_t rank = 4) {
  PeftAdapter adapter;
  adapter.config = {{"peft_type", "\"LORA\""},
                    {"r", std::to_string(rank)},
                    {"lora_alpha", "8"},
                    {"task_type", "\"CAUSAL_LM\""},
                    {"target_modules", R"(["q_proj","v_proj"])"}};
  for (const int layer : {0, 1}) {
    adapter.AddLowRank(Layer(layer, "self_attn.q_proj"), 64, 64, rank);
    adapter.AddLowRank(Layer(layer, "self_attn.v_proj"), 32, 64, rank);
  }
  return adapter;
}

// k_proj, v_proj (output) and down_proj (input) of both layers.
inline PeftAdapter Scaling() {
  PeftAdapter adapter;
  adapter.config = {{"peft_type", "\"IA3\""},
                    {"task_type", "\"CAUSAL_LM\""},
                    {"target_modules", R"(["k_proj","v_proj","down_proj"])"},
                    {"feedforward_modules", R"(["down_proj"])"}};
  for (const int layer : {0, 1}) {
    adapter.file.Fill(adapter.prefix + Layer(layer, "self_attn.k_proj.ia3_l"), {32, 1}, 1.5F);
    adapter.file.Fill(adapter.prefix + Layer(layer, "self_attn.v_proj.ia3_l"), {32, 1}, 1.5F);
    adapter.file.Fill(adapter.prefix + Layer(layer, "mlp.down_proj.ia3_l"), {1, 96}, 0.5F);
  }
  return adapter;
}

inline const veneer::AdapterSite& SiteOf(const veneer::Adapter& adapter, const std::string& id) {
  for (const veneer::AdapterSite& site : adapter.sites)
    if (site.site == id) return site;
  throw std::runtime_error("the adapter does not edit " + id);
}

inline veneer::Result<veneer::Adapter> ReadPath(const std::filesystem::path& path, const veneer::Base& base) {
  auto files = veneer::OpenAdapterFiles(path);
  if (!files) return veneer::Fail(std::move(files).error());
  return veneer::ReadAdapter(*std::move(files), base, TestCatalog());
}

// Whether one of its notes has these words.
inline bool Notes(const veneer::Adapter& adapter, const std::string& words) {
  return std::ranges::any_of(adapter.notes, [&words](const std::string& note) { return note.find(words) != std::string::npos; });
}

// Whether one of its tensors changes nothing for a reason with these words.
inline bool Ignores(const veneer::Adapter& adapter, const std::string& words) {
  return std::ranges::any_of(adapter.ignored,
                             [&words](const veneer::IgnoredTensor& one) { return one.why.find(words) != std::string::npos; });
}

#endif  // VENEER_TESTS_SUPPORT_PEFT_ADAPTER_H_
