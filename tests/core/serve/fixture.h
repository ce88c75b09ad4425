// A store in a temporary folder with a tiny base and compositions over it, and what a test asks of them.
#ifndef VENEER_TESTS_CORE_SERVE_FIXTURE_H_
#define VENEER_TESTS_CORE_SERVE_FIXTURE_H_

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/compose/path_source.h"
#include "core/compose/store_source.h"
#include "core/compose/validate.h"
#include "core/serve/served_store.h"
#include "core/store/posix_sys.h"
#include "tests/support/files.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {

template <class T>
T Must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().Text());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The plugins of this build tree, found by kind as the program finds them.
inline const Catalog& Plugins() {
  static const Catalog catalog =
      Must(Catalog::Scan({.directories = {std::filesystem::path(VENEER_BINARY_DIR) / "lib/veneer/overlays/abi1"}, .overrides = {}}));
  return catalog;
}

// PEFT files for tiny bases: low rank on the named projections of both layers, or scales (k, v, down).
inline void WriteLowRank(const std::filesystem::path& folder, const std::string& projection, std::uint64_t out, std::uint64_t in,
                         std::uint64_t rank, std::uint64_t seed) {
  SafetensorsWriter file;
  for (const int layer : {0, 1}) {
    const std::string module = "base_model.model.model.layers." + std::to_string(layer) + "." + projection;
    file.SetF32(module + ".lora_A.weight", {rank, in}, Uniform(rank * in, 0.5F, seed + static_cast<std::uint64_t>(layer)));
    file.SetF32(module + ".lora_B.weight", {out, rank}, Uniform(out * rank, 0.5F, seed + 10 + static_cast<std::uint64_t>(layer)));
  }
  ::WriteAll(folder / "adapter_model.safetensors", file.Bytes());
  const std::string leaf = projection.substr(projection.find('.') + 1);
  ::WriteAll(folder / "adapter_config.json", R"({"peft_type":"LORA","task_type":"CAUSAL_LM","lora_alpha":8,"r":)" + std::to_string(rank) +
                                                 R"(,"target_modules":[")" + leaf + "\"]}");
}
inline void WriteScales(const std::filesystem::path& folder) {
  SafetensorsWriter file;
  for (const int layer : {0, 1}) {
    const std::string prefix = "base_model.model.model.layers." + std::to_string(layer) + ".";
    file.Fill(prefix + "self_attn.k_proj.ia3_l", {32, 1}, 1.5F);
    file.Fill(prefix + "self_attn.v_proj.ia3_l", {32, 1}, 1.5F);
    file.Fill(prefix + "mlp.down_proj.ia3_l", {1, 96}, 0.5F);
  }
  ::WriteAll(folder / "adapter_model.safetensors", file.Bytes());
  ::WriteAll(folder / "adapter_config.json",
             R"({"peft_type":"IA3","task_type":"CAUSAL_LM","target_modules":["k_proj","v_proj","down_proj"],)"
             R"("feedforward_modules":["down_proj"]})");
}

// Files of a base and three adapters: tiny.gguf, style/, safety/, scales/.
struct TinyFiles {
  explicit TinyFiles(const TinyModel& model = {}) {
    ::WriteAll(base, TinyLlama(model).Bytes());
    WriteLowRank(dir.path() / "style", "self_attn.q_proj", 64, 64, 4, 100);
    WriteLowRank(dir.path() / "safety", "mlp.up_proj", 96, 64, 8, 200);
    WriteScales(dir.path() / "scales");
  }
  [[nodiscard]] PathSource Source(const std::vector<std::string>& adapters) const {
    std::vector<AdapterPath> paths;
    for (const std::string& adapter : adapters) paths.push_back(Must(ParseAdapterPath((dir.path() / adapter).string())));
    return Must(PathSource::Open(base, paths, {}));
  }
  [[nodiscard]] ValidatedComposition Validate(const std::vector<std::string>& adapters) const {
    PathSource source = Source(adapters);
    return Must(SealAndValidate(source.manifest(), source, Plugins()));
  }
  TempDir dir;
  std::filesystem::path base = dir.path() / "tiny.gguf";
};

// The same in a store, with a composition for each of some stacks. Nothing is active.
class TinyStore {
 public:
  TinyStore() {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(files.dir.path()))
      if (entry.is_regular_file() && entry.path().string().find("/store/") == std::string::npos)
        (void)Must(store.PutBlob(Must(OpenRegular(entry.path())), entry.path().filename().string()));
    plain = Put({});
    style = Put({"style"});
    safety = Put({"safety=0.5"});
    all = Put({"scales", "style", "safety"});
  }
  Digest Put(const std::vector<std::string>& adapters) {
    const ValidatedComposition validated = files.Validate(adapters);
    (void)Must(store.PutBlob(validated.base()->tokenizer().bytes));
    return Must(store.PutBlob(validated.composition().Canonical()));
  }
  // Its generation. With a handle of its own, as another process would.
  std::uint64_t Activate(const Digest& composition) {
    return Must(Must(Store::Open(sys, path())).Activate(composition, std::nullopt, {})).generation;
  }
  [[nodiscard]] std::string path() const { return (files.dir.path() / "store").string(); }
  [[nodiscard]] std::filesystem::path Blob(const Digest& digest) const { return path() + "/blobs/sha256/" + digest.Hex(); }
  // Staged alone, of the files and not of the store.
  [[nodiscard]] std::shared_ptr<const StagedComposition> Alone(const std::vector<std::string>& adapters) const {
    return Must(Must(Bind(files.Validate(adapters), Plugins(), {.mode = ComputeMode::kExact})).Stage());
  }

  TinyFiles files;
  PosixSys sys;
  Store store = Must(Store::Init(sys, path()));
  Digest plain, style, safety, all;
};

inline ServeOptions Exact() {
  ServeOptions options;
  options.stage.mode = ComputeMode::kExact;
  return options;
}

inline const std::vector<TokenId>& SomePrompt() {
  static const std::vector<TokenId> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  return prompt;
}

// Logits of the prompt's tokens, [n * vocab].
inline std::vector<float> LogitsOf(Decoder& decoder) {
  std::vector<float> logits;
  Must(decoder.Feed(SomePrompt(), true, [&](std::size_t, std::span<const float> row) -> Status {
    logits.insert(logits.end(), row.begin(), row.end());
    return {};
  }));
  return logits;
}
inline std::vector<float> LogitsAlone(const std::shared_ptr<const StagedComposition>& composition) {
  return LogitsOf(*Must(Decoder::Create(composition, {})));
}

}  // namespace veneer

#endif  // VENEER_TESTS_CORE_SERVE_FIXTURE_H_
