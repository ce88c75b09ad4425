// The authoring manifest (TOML or JSON), and sealing it into a composition (identity) and a statement (what gets signed).
#ifndef VENEER_CORE_MANIFEST_MANIFEST_H_
#define VENEER_CORE_MANIFEST_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/manifest/composition.h"

namespace veneer {

// As written: required fields, and optional claims that `SealManifest` fills or checks. Only syntax, types and names are known good.
struct AuthoredAdapter {
  std::string name;
  Digest file_hash;
  std::uint64_t load_order = 0;
  Decimal merge_weight;
  std::optional<std::string> kind, format;
  std::optional<std::uint64_t> file_size, config_size, rank;
  std::optional<Digest> config_hash;
  std::optional<Decimal> sparsity;
  std::optional<std::vector<std::string>> target_layers;  // Hugging Face or GGUF names, as written
  std::vector<ManifestParam> params;
  std::optional<PluginPin> plugin;
  std::string at;  // "/adapters/1": its place in the document as written
};

struct Manifest {
  Digest base_model_hash;
  std::optional<std::uint64_t> base_model_size;
  std::optional<std::string> base_format, tokenizer_id;
  std::optional<Digest> tokenizer_hash;
  std::optional<std::uint64_t> tokenizer_size;
  std::optional<QuantizationClaim> quantization;
  std::optional<std::pair<std::string, std::string>> runtime;  // name, version
  std::optional<std::string> tied_weights;
  std::vector<AuthoredAdapter> adapters;  // sorted by load_order
  // statement
  std::string timestamp_utc;
  std::optional<std::string> channel;
  std::optional<std::uint64_t> sequence;
  std::optional<std::string> expires_utc;
  std::vector<std::pair<std::string, std::string>> extra;  // title, description, x_…: name -> canonical JSON text of the value
};

enum class ManifestSyntax { kToml, kJson };
// JSON when the first non-blank byte is '{', TOML otherwise.
ManifestSyntax DetectSyntax(std::string_view text);
Result<Manifest> ParseManifest(std::string_view text, ManifestSyntax syntax);
// What is allowed and probably not meant: "W3 ZERO_WEIGHT at=/adapters/0/merge_weight …".
std::vector<std::string> Warnings(const Manifest& manifest);

// What sealing must know about the files, as values, so that this folder includes neither model nor plugin.
struct BaseFacts {
  Digest hash;
  std::uint64_t size = 0;
  std::string format;
  std::string tokenizer_id;
  Digest tokenizer_hash;
  std::uint64_t tokenizer_size = 0;
  QuantizationClaim quantization;
};
struct AdapterFacts {
  std::string kind, format;
  Digest file_hash;
  std::uint64_t file_size = 0;
  std::optional<Digest> config_hash;
  std::uint64_t config_size = 0;
  std::vector<std::string> target_layers;    // site ids, sorted, unique
  std::vector<std::string> claimed_targets;  // the manifest's target_layers, canonicalised by the caller; empty when not claimed
  std::uint64_t rank = 0;
  Decimal sparsity;
  std::vector<std::string> tied_targets;  // those of target_layers that share storage with another site
};

// Fills absent claims from the facts and checks the given ones: E302/E303/E405/E406/E407/E408/E409/E412/E413/E414/E215.
// `adapters[i]` belongs to manifest.adapters[i].
Result<Composition> SealManifest(const Manifest& manifest, const BaseFacts& base, const std::vector<AdapterFacts>& adapters);

struct Statement {
  Digest composition;
  std::string timestamp_utc;
  std::optional<std::string> channel, expires_utc;
  std::optional<std::uint64_t> sequence;
  std::vector<std::pair<std::string, std::string>> extra;

  [[nodiscard]] std::string Canonical() const;
  static Result<Statement> Parse(std::string_view bytes);
};
Statement MakeStatement(const Manifest& manifest, const Digest& composition);

// "YYYY-MM-DDTHH:MM:SSZ", a real date, year 1970-9999, no leap second; else E211.
Status CheckTimestamp(std::string_view text, std::string_view at);

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_MANIFEST_H_
