// A base: a quantized language model, mapped read-only, understood and never written.
#ifndef VENEER_CORE_MODEL_BASE_H_
#define VENEER_CORE_MODEL_BASE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/site.h"
#include "core/model/tokenizer.h"

namespace veneer {

// Hyperparameters of the architecture, ranges checked.
struct ModelConfig {
  std::string arch;  // one of kArchitectures (core/model/architecture.h)
  std::uint32_t n_layers = 0, hidden = 0, ffn = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, vocab = 0;
  std::uint32_t context_length = 0;
  float rms_epsilon = 0;
  float rope_base = 10000;          // theta_i = pos * rope_base^(-2i/head_dim)
  float rope_frequency_scale = 1;   // 1/factor of linear scaling
  std::vector<float> rope_factors;  // rope_freqs: theta_i / rope_factors[i]; empty when absent. [head_dim / 2]
  bool tied_head = false;
};

// dtype/scheme/block_size as DESIGN 7 defines them for the manifest.
struct Quantization {
  std::string dtype;   // "q4_0": the type that holds most elements of the 2-D tensors (ties: lower ggml id)
  std::string scheme;  // symmetric | affine | k | codebook | none
  std::uint64_t block_size = 1;
  bool operator==(const Quantization&) const = default;
};

// Identity of the tokenizer. Inside a GGUF: the raw bytes of all `tokenizer.*` key-value records, sorted by key. Of a Hugging Face
// directory: its tokenizer.model, else its tokenizer.json.
struct TokenizerBlob {
  std::string id;  // "gguf-<model>-<pre>"; without a pre: "gguf-<model>". "hf-sentencepiece", "hf-tokenizer-json", "hf-none"
  std::string bytes;
};

// Of a directory, by what its bytes are: a tokenizer.model is no text, a tokenizer.json is an object.
inline constexpr std::string_view kSentencePieceId = "hf-sentencepiece", kTokenizerJsonId = "hf-tokenizer-json", kNoTokenizerId = "hf-none";
TokenizerBlob HfTokenizer(std::string bytes);

struct BaseFile {
  std::string name;  // in its directory; of a GGUF the whole path
  FileBytes bytes;
  Digest digest;  // of a directory's file, proven; a GGUF's is the base's own
};

// What a base is made of: one GGUF, or config.json, index and shards of a Hugging Face directory, as their list names them.
struct BaseFiles {
  std::string name;             // for messages: the file or the directory
  std::vector<BaseFile> files;  // in the order of the list
  std::string list;             // canonical (core/manifest/base_list.h); empty for a GGUF
  TokenizerBlob tokenizer;      // of a directory; a GGUF holds its own

  BaseFiles() = default;
  BaseFiles(FileBytes gguf);  // NOLINT(google-explicit-constructor): one file is a base
  // What base_model_hash is the SHA-256 of: the GGUF, or the list.
  [[nodiscard]] std::span<const std::byte> bytes() const;
};

class Base {
 public:
  // E401 what this version does not read (by name, with the remedy), E402/E403 corrupt, E203/E204 metadata missing or mistyped,
  // E404 a tensor's shape contradicts the metadata, E407 vocabulary and embedding differ, E410 endianness. `at` begins with the
  // file's name.
  static Result<std::shared_ptr<const Base>> OpenGguf(FileBytes file);
  // The same; of a Hugging Face directory too.
  static Result<std::shared_ptr<const Base>> Open(BaseFiles files);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const SiteTable& sites() const { return sites_; }
  [[nodiscard]] const Quantization& quantization() const { return quantization_; }
  [[nodiscard]] const TokenizerBlob& tokenizer() const { return tokenizer_; }
  // What base_model_hash is the SHA-256 of: the mapped GGUF, or the list of a directory's files.
  [[nodiscard]] std::span<const std::byte> bytes() const { return files_.bytes(); }
  [[nodiscard]] const BaseFiles& files() const { return files_; }
  [[nodiscard]] std::uint64_t file_bytes() const;  // of all files
  [[nodiscard]] std::string_view format() const { return files_.list.empty() ? "gguf" : "hf"; }
  // FileBytes::CheckUnchanged of every file; `hash` is the digest that the base was proven to have.
  [[nodiscard]] Status CheckUnchanged(const Digest& hash) const;
  // Bytes of memory the base's own structures take beside the mapping.
  [[nodiscard]] std::uint64_t overhead_bytes() const;

 private:
  struct Parts;
  Base(BaseFiles files, Parts parts);
  BaseFiles files_;
  ModelConfig config_;
  SiteTable sites_;
  Quantization quantization_;
  TokenizerBlob tokenizer_;
};

// The tokenizer of the base; the result does not need the base any longer. A base whose vocabulary this version does not read opens all
// the same and decodes token ids: only this call fails (E401, by name; E407 for more tokens than the embedding has rows).
Result<Tokenizer> OpenTokenizer(const Base& base);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_BASE_H_
