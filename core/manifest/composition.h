// The composition: the identity of what is run. Its canonical bytes (veneer's profile of RFC 8785) hash to the composition id.
#ifndef VENEER_CORE_MANIFEST_COMPOSITION_H_
#define VENEER_CORE_MANIFEST_COMPOSITION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/manifest/decimal.h"

namespace veneer {

// Kind parameters that change the result; sorted by key.
using ManifestParam = std::pair<std::string, std::variant<std::string, std::uint64_t>>;

struct PluginPin {  // narrows policy; never a path
  std::string name;
  std::string version;  // empty: any
  std::optional<Digest> sha256;
  bool operator==(const PluginPin&) const = default;
};

struct AdapterEntry {
  std::string name, kind, format;  // format: "safetensors" | "gguf"
  Digest file_hash;
  std::uint64_t file_size = 0;
  std::optional<Digest> config_hash;  // with config_size, when the format keeps scaling outside the weights
  std::uint64_t config_size = 0;
  Decimal merge_weight;                    // strength
  std::uint64_t rank = 0;                  // largest rank in the file; 0 for kinds without one
  Decimal sparsity;                        // fraction of zeros; "0" unless sparse
  std::vector<std::string> target_layers;  // site ids, sorted, unique
  std::vector<ManifestParam> params;
  std::optional<PluginPin> plugin;
};

struct QuantizationClaim {
  std::string dtype, scheme;
  std::uint64_t block_size = 0;
  bool operator==(const QuantizationClaim&) const = default;
};

struct Composition {
  Digest base_model_hash;
  std::uint64_t base_model_size = 0;
  std::string base_format;  // "gguf" | "hf"
  std::string tokenizer_id;
  Digest tokenizer_hash;
  std::uint64_t tokenizer_size = 0;
  QuantizationClaim quantization;
  std::string runtime_name, runtime_version;  // the numeric contract, "veneer" "1"
  std::string tied_weights;                   // "separate" | "forbid"
  std::vector<AdapterEntry> adapters;         // in load order; load_order i is written as i

  [[nodiscard]] std::string Canonical() const;  // the stored bytes
  [[nodiscard]] Digest Id() const;              // SHA-256 of Canonical()

  // A stored composition. E201-E216 for its content, E212 when the bytes are not canonical.
  static Result<Composition> Parse(std::string_view bytes);
};

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_COMPOSITION_H_
