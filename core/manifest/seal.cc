// Sealing: a manifest's claims against the facts of its files. Facts fill what was left out; a given claim that differs is refused.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>

#include "core/manifest/document.h"
#include "core/manifest/fields.h"
#include "core/manifest/manifest.h"

namespace veneer {
namespace {

constexpr std::string_view kRuntimeName = "veneer";
constexpr std::string_view kRuntimeVersion = "1";

std::string Text(const std::string& value) { return value; }
std::string Text(const Digest& value) { return value.Text(); }
std::string Text(const Decimal& value) { return value.text(); }
std::string Text(std::uint64_t value) { return fmt::format("{}", value); }

// A claim, where one is made, says what the fact is.
template <class T>
Status Check(const std::optional<T>& claim, const T& fact, Code code, std::string at) {
  if (!claim || *claim == fact) return {};
  return Fail(code, std::move(at),
              fmt::format("manifest says {}, file has {}; correct the manifest or leave the field out, sealing fills it", Text(*claim),
                          Text(fact)));
}

// E3: are these the files that are meant.
Status CheckFiles(const Manifest& manifest, const BaseFacts& base, const std::vector<AdapterFacts>& adapters) {
  VENEER_TRY(Check(manifest.base_model_size, base.size, Code::SIZE_MISMATCH, "/base_model_size"));
  VENEER_TRY(Check(std::optional(manifest.base_model_hash), base.hash, Code::HASH_MISMATCH, "/base_model_hash"));
  VENEER_TRY(Check(manifest.tokenizer_size, base.tokenizer_size, Code::SIZE_MISMATCH, "/tokenizer_size"));
  VENEER_TRY(Check(manifest.tokenizer_hash, base.tokenizer_hash, Code::HASH_MISMATCH, "/tokenizer_hash"));
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const AuthoredAdapter& claims = manifest.adapters[i];
    const AdapterFacts& facts = adapters[i];
    VENEER_TRY(Check(claims.file_size, facts.file_size, Code::SIZE_MISMATCH, claims.at + "/file_size"));
    VENEER_TRY(Check(std::optional(claims.file_hash), facts.file_hash, Code::HASH_MISMATCH, claims.at + "/file_hash"));
    if (!facts.config_hash && (claims.config_hash || claims.config_size))
      return Fail(Code::BLOB_MISSING, claims.at + (claims.config_hash ? "/config_hash" : "/config_size"),
                  "the manifest names a configuration file, the adapter has none; add the file or remove the claim");
    VENEER_TRY(Check(claims.config_size, facts.config_size, Code::SIZE_MISMATCH, claims.at + "/config_size"));
    if (facts.config_hash) VENEER_TRY(Check(claims.config_hash, *facts.config_hash, Code::HASH_MISMATCH, claims.at + "/config_hash"));
  }
  return {};
}

// What the base is, E4.
Status CheckBase(const Manifest& manifest, const BaseFacts& base) {
  VENEER_TRY(Check(manifest.base_format, base.format, Code::BASE_MISMATCH, "/base_format"));
  VENEER_TRY(Check(manifest.tokenizer_id, base.tokenizer_id, Code::TOKENIZER_MISMATCH, "/tokenizer_id"));
  if (manifest.quantization && *manifest.quantization != base.quantization)
    return Fail(Code::QUANT_MISMATCH, "/quantization",
                fmt::format("manifest says {} {} in blocks of {}, file has {} {} in blocks of {}; name the base you mean",
                            manifest.quantization->dtype, manifest.quantization->scheme, manifest.quantization->block_size,
                            base.quantization.dtype, base.quantization.scheme, base.quantization.block_size));
  if (manifest.runtime && (manifest.runtime->first != kRuntimeName || manifest.runtime->second != kRuntimeVersion))
    return Fail(Code::RUNTIME_UNSUPPORTED, "/runtime",
                fmt::format("manifest asks for {} {}, this program keeps the numeric contract {} {}", manifest.runtime->first,
                            manifest.runtime->second, kRuntimeName, kRuntimeVersion));
  return {};
}

// The name that stands in one sorted list of targets only and sorts first.
std::optional<std::string> FirstDifference(std::span<const std::string> claimed, std::span<const std::string> known) {
  std::vector<std::string> difference;
  std::ranges::set_symmetric_difference(claimed, known, std::back_inserter(difference));
  if (difference.empty()) return std::nullopt;
  return difference.front();
}

Status CheckTargets(const AuthoredAdapter& claims, const AdapterFacts& facts) {
  if (!claims.target_layers) return {};
  std::vector<std::string> claimed = facts.claimed_targets;
  std::ranges::sort(claimed);
  const auto repeats = std::ranges::unique(claimed);  // two names of one site
  claimed.erase(repeats.begin(), repeats.end());
  const auto name = FirstDifference(claimed, facts.target_layers);
  if (!name) return {};
  const bool is_claimed = std::ranges::binary_search(claimed, *name);
  return Fail(Code::TARGET_UNKNOWN, claims.at + "/target_layers",
              fmt::format("{} is {}; correct the list or leave it out, sealing fills it", *name,
                          is_claimed ? "in the manifest and not in the adapter" : "in the adapter and not in the manifest"));
}

// What an adapter is, E4.
Status CheckAdapter(const AuthoredAdapter& claims, const AdapterFacts& facts, std::string_view tied_weights) {
  VENEER_TRY(Check(claims.kind, facts.kind, Code::FORMAT_UNSUPPORTED, claims.at + "/kind"));
  VENEER_TRY(Check(claims.format, facts.format, Code::FORMAT_UNSUPPORTED, claims.at + "/format"));
  VENEER_TRY(CheckTargets(claims, facts));
  VENEER_TRY(Check(claims.rank, facts.rank, Code::RANK_MISMATCH, claims.at + "/rank"));
  VENEER_TRY(Check(claims.sparsity, facts.sparsity, Code::SPARSITY_MISMATCH, claims.at + "/sparsity"));
  if (tied_weights == "forbid" && !facts.tied_targets.empty())
    return Fail(Code::TIED_WEIGHTS, claims.at + "/target_layers",
                fmt::format("{} shares its weights with another site and tied_weights is forbid; with separate the two part ways",
                            facts.tied_targets.front()));
  return {};
}

Status CheckNames(const Manifest& manifest, const std::vector<AdapterFacts>& adapters) {
  std::vector<AdapterIdentity> identities;
  for (std::size_t i = 0; i < adapters.size(); ++i)
    identities.push_back({manifest.adapters[i].at, manifest.adapters[i].name, adapters[i].file_hash, adapters[i].config_hash,
                          adapters[i].kind, manifest.adapters[i].params});
  return CheckUniqueNames(identities);
}

AdapterEntry EntryOf(const AuthoredAdapter& claims, const AdapterFacts& facts) {
  AdapterEntry entry;
  entry.name = claims.name;
  entry.kind = facts.kind;
  entry.format = facts.format;
  entry.file_hash = facts.file_hash;
  entry.file_size = facts.file_size;
  entry.config_hash = facts.config_hash;
  entry.config_size = facts.config_size;
  entry.merge_weight = claims.merge_weight;
  entry.rank = facts.rank;
  entry.sparsity = facts.sparsity;
  entry.target_layers = facts.target_layers;
  entry.params = claims.params;
  std::ranges::sort(entry.params, {}, &ManifestParam::first);
  entry.plugin = claims.plugin;
  return entry;
}

}  // namespace

Result<Composition> SealManifest(const Manifest& manifest, const BaseFacts& base, const std::vector<AdapterFacts>& adapters) {
  if (adapters.size() != manifest.adapters.size())
    return Fail(Code::INTERNAL, "/adapters", fmt::format("{} entries, facts of {}", manifest.adapters.size(), adapters.size()));
  const std::string tied_weights = manifest.tied_weights.value_or("separate");
  VENEER_TRY(CheckNames(manifest, adapters));
  VENEER_TRY(CheckFiles(manifest, base, adapters));
  VENEER_TRY(CheckBase(manifest, base));
  for (std::size_t i = 0; i < adapters.size(); ++i) VENEER_TRY(CheckAdapter(manifest.adapters[i], adapters[i], tied_weights));

  Composition composition;
  composition.base_model_hash = base.hash;
  composition.base_model_size = base.size;
  composition.base_format = base.format;
  composition.tokenizer_id = base.tokenizer_id;
  composition.tokenizer_hash = base.tokenizer_hash;
  composition.tokenizer_size = base.tokenizer_size;
  composition.quantization = base.quantization;
  composition.runtime_name = kRuntimeName;
  composition.runtime_version = kRuntimeVersion;
  composition.tied_weights = tied_weights;
  for (std::size_t i = 0; i < adapters.size(); ++i) composition.adapters.push_back(EntryOf(manifest.adapters[i], adapters[i]));
  if (const std::size_t size = composition.Canonical().size(); size > kMaxCompositionBytes)
    return Fail(
        Code::LIMIT, "",
        fmt::format("the composition has {} bytes, at most {} are allowed; use fewer adapters or targets", size, kMaxCompositionBytes));
  return composition;
}

}  // namespace veneer
