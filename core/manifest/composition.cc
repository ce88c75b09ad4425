#include "core/manifest/composition.h"

#include <algorithm>
#include <cstddef>

#include "core/format/json.h"
#include "core/manifest/canonical.h"
#include "core/manifest/document.h"
#include "core/manifest/fields.h"
#include "core/manifest/manifest.h"

namespace veneer {
namespace {

std::string DigestText(const Digest& digest) { return CanonicalString(digest.Text()); }

std::string ParamsText(const std::vector<ManifestParam>& params) {
  CanonicalMembers members;
  for (const auto& [key, value] : params) {
    const auto* const number = std::get_if<std::uint64_t>(&value);
    members[key] = number != nullptr ? CanonicalInteger(*number) : CanonicalString(std::get<std::string>(value));
  }
  return CanonicalObject(members);
}

std::string PluginText(const PluginPin& plugin) {
  CanonicalMembers members{{"name", CanonicalString(plugin.name)}};
  if (!plugin.version.empty()) members["version"] = CanonicalString(plugin.version);
  if (plugin.sha256) members["sha256"] = DigestText(*plugin.sha256);
  return CanonicalObject(members);
}

std::string AdapterText(const AdapterEntry& adapter, std::size_t load_order) {
  std::vector<std::string> targets;
  for (const std::string& target : adapter.target_layers) targets.push_back(CanonicalString(target));
  CanonicalMembers members{
      {"name", CanonicalString(adapter.name)},
      {"kind", CanonicalString(adapter.kind)},
      {"format", CanonicalString(adapter.format)},
      {"file_hash", DigestText(adapter.file_hash)},
      {"file_size", CanonicalInteger(adapter.file_size)},
      {"load_order", CanonicalInteger(load_order)},
      {"merge_weight", CanonicalString(adapter.merge_weight.text())},
      {"rank", CanonicalInteger(adapter.rank)},
      {"sparsity", CanonicalString(adapter.sparsity.text())},
      {"target_layers", CanonicalArray(targets)},
  };
  if (adapter.config_hash) {
    members["config_hash"] = DigestText(*adapter.config_hash);
    members["config_size"] = CanonicalInteger(adapter.config_size);
  }
  if (!adapter.params.empty()) members["params"] = ParamsText(adapter.params);
  if (adapter.plugin) members["plugin"] = PluginText(*adapter.plugin);
  return CanonicalObject(members);
}

// A stored adapter, whose claims the reader has found to be all there.
AdapterEntry EntryOf(AuthoredAdapter&& stored) {
  AdapterEntry entry;
  entry.name = std::move(stored.name);
  entry.kind = std::move(stored.kind).value();
  entry.format = std::move(stored.format).value();
  entry.file_hash = stored.file_hash;
  entry.file_size = stored.file_size.value();
  entry.config_hash = stored.config_hash;
  entry.config_size = stored.config_size.value_or(0);
  entry.merge_weight = std::move(stored.merge_weight);
  entry.rank = stored.rank.value();
  entry.sparsity = std::move(stored.sparsity).value();
  entry.target_layers = std::move(stored.target_layers).value();
  std::ranges::sort(entry.target_layers);
  entry.params = std::move(stored.params);
  entry.plugin = std::move(stored.plugin);
  return entry;
}

}  // namespace

std::string Composition::Canonical() const {
  std::vector<std::string> entries;
  for (const AdapterEntry& adapter : adapters) entries.push_back(AdapterText(adapter, entries.size()));
  return CanonicalObject({
      {"schema", CanonicalString("veneer.composition/1")},
      {"base_model_hash", DigestText(base_model_hash)},
      {"base_model_size", CanonicalInteger(base_model_size)},
      {"base_format", CanonicalString(base_format)},
      {"tokenizer_id", CanonicalString(tokenizer_id)},
      {"tokenizer_hash", DigestText(tokenizer_hash)},
      {"tokenizer_size", CanonicalInteger(tokenizer_size)},
      {"quantization", CanonicalObject({{"dtype", CanonicalString(quantization.dtype)},
                                        {"scheme", CanonicalString(quantization.scheme)},
                                        {"block_size", CanonicalInteger(quantization.block_size)}})},
      {"runtime", CanonicalObject({{"name", CanonicalString(runtime_name)}, {"version", CanonicalString(runtime_version)}})},
      {"tied_weights", CanonicalString(tied_weights)},
      {"adapters", CanonicalArray(entries)},
  });
}

Digest Composition::Id() const { return Sha256::Of(Canonical()); }

Result<Composition> Composition::Parse(std::string_view bytes) {
  VENEER_ASSIGN(const Json document, ParseJson(bytes, {kMaxCompositionBytes, kMaxDepth, kMaxItems, true}));
  VENEER_ASSIGN(Manifest stored, ReadManifest(document, DocumentKind::kComposition));
  Composition composition;
  composition.base_model_hash = stored.base_model_hash;
  composition.base_model_size = stored.base_model_size.value();
  composition.base_format = std::move(stored.base_format).value();
  composition.tokenizer_id = std::move(stored.tokenizer_id).value();
  composition.tokenizer_hash = stored.tokenizer_hash.value();
  composition.tokenizer_size = stored.tokenizer_size.value();
  composition.quantization = std::move(stored.quantization).value();
  composition.runtime_name = stored.runtime.value().first;
  composition.runtime_version = stored.runtime.value().second;
  composition.tied_weights = std::move(stored.tied_weights).value();
  for (AuthoredAdapter& adapter : stored.adapters) composition.adapters.push_back(EntryOf(std::move(adapter)));
  VENEER_TRY(CheckCanonicalBytes(bytes, composition.Canonical()));
  return composition;
}

}  // namespace veneer
