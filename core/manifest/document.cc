#include "core/manifest/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/manifest/canonical.h"
#include "core/manifest/fields.h"

namespace veneer {
namespace {

constexpr std::string_view kManifestSchema = "veneer.manifest/1";
constexpr std::string_view kCompositionSchema = "veneer.composition/1";

constexpr FieldRule kManifestFields[] = {
    {"schema", true},          {"base_model_hash", true}, {"base_model_size", false}, {"base_format", false}, {"tokenizer_id", false},
    {"tokenizer_hash", false}, {"tokenizer_size", false}, {"quantization", false},    {"runtime", false},     {"tied_weights", false},
    {"timestamp_utc", true},   {"channel", false},        {"sequence", false},        {"expires_utc", false}, {"title", false},
    {"description", false},    {"adapters", false},
};
constexpr FieldRule kCompositionFields[] = {
    {"schema", true},       {"base_model_hash", true}, {"base_model_size", true}, {"base_format", true},
    {"tokenizer_id", true}, {"tokenizer_hash", true},  {"tokenizer_size", true},  {"quantization", true},
    {"runtime", true},      {"tied_weights", true},    {"adapters", true},
};
constexpr FieldRule kAuthoredAdapterFields[] = {
    {"name", true},      {"file_hash", true},      {"load_order", true},   {"merge_weight", true}, {"kind", false},
    {"format", false},   {"file_size", false},     {"config_hash", false}, {"config_size", false}, {"rank", false},
    {"sparsity", false}, {"target_layers", false}, {"params", false},      {"plugin", false},
};
constexpr FieldRule kStoredAdapterFields[] = {
    {"name", true},     {"file_hash", true},     {"load_order", true},   {"merge_weight", true}, {"kind", true},
    {"format", true},   {"file_size", true},     {"config_hash", false}, {"config_size", false}, {"rank", true},
    {"sparsity", true}, {"target_layers", true}, {"params", false},      {"plugin", false},
};

Result<AuthoredAdapter> ReadAdapterEntry(const Json& entry, DocumentKind kind) {
  if (kind == DocumentKind::kManifest) {
    VENEER_TRY(CheckFields(entry, kAuthoredAdapterFields));
  } else {
    VENEER_TRY(CheckFields(entry, kStoredAdapterFields));
  }
  AuthoredAdapter adapter;
  adapter.at = entry.at;
  VENEER_ASSIGN(adapter.name, ReadRequired(entry, "name", ReadName));
  VENEER_ASSIGN(adapter.file_hash, ReadRequired(entry, "file_hash", ReadDigest));
  VENEER_ASSIGN(adapter.load_order, ReadRequired(entry, "load_order", ReadInteger));
  VENEER_ASSIGN(adapter.merge_weight, ReadRequired(entry, "merge_weight", ReadWeight));
  VENEER_ASSIGN(adapter.kind, ReadOptional(entry, "kind", ReadId));
  VENEER_ASSIGN(adapter.format, ReadOptional(entry, "format", ReadAdapterFormat));
  VENEER_ASSIGN(adapter.file_size, ReadOptional(entry, "file_size", ReadInteger));
  VENEER_ASSIGN(adapter.config_hash, ReadOptional(entry, "config_hash", ReadDigest));
  VENEER_ASSIGN(adapter.config_size, ReadOptional(entry, "config_size", ReadInteger));
  VENEER_ASSIGN(adapter.rank, ReadOptional(entry, "rank", ReadInteger));
  VENEER_ASSIGN(adapter.sparsity, ReadOptional(entry, "sparsity", ReadFraction));
  VENEER_ASSIGN(adapter.target_layers, ReadOptional(entry, "target_layers", ReadTargets));
  VENEER_ASSIGN(auto params, ReadOptional(entry, "params", ReadParams));
  if (params) adapter.params = *std::move(params);
  VENEER_ASSIGN(adapter.plugin, ReadOptional(entry, "plugin", ReadPlugin));
  if (kind == DocumentKind::kComposition && adapter.config_hash.has_value() != adapter.config_size.has_value())
    return Fail(Code::FIELD_MISSING, entry.at + (adapter.config_hash ? "/config_size" : "/config_hash"),
                "config_hash and config_size stand together or not at all");
  return adapter;
}

Result<std::vector<AuthoredAdapter>> ReadAdapters(const Json& list, DocumentKind kind) {
  if (!list.is_array()) return Fail(Code::FIELD_TYPE, list.at, "must be an array of adapters");
  if (list.elements.size() > kMaxAdapters)
    return Fail(Code::LIMIT, list.at, fmt::format("{} adapters, at most {} are allowed", list.elements.size(), kMaxAdapters));
  std::vector<AuthoredAdapter> adapters;
  for (const Json& entry : list.elements) {
    VENEER_ASSIGN(adapters.emplace_back(), ReadAdapterEntry(entry, kind));
  }
  VENEER_TRY(CheckAdapterList(adapters));
  std::ranges::sort(adapters, {}, &AuthoredAdapter::load_order);
  for (std::size_t i = 0; i < adapters.size(); ++i) adapters[i].load_order = i;
  return adapters;
}

Status ReadStatementFields(const Json& document, Manifest& manifest) {
  VENEER_ASSIGN(manifest.timestamp_utc, ReadRequired(document, "timestamp_utc", ReadTimestamp));
  VENEER_ASSIGN(manifest.channel, ReadOptional(document, "channel", ReadName));
  VENEER_ASSIGN(manifest.sequence, ReadOptional(document, "sequence", ReadInteger));
  VENEER_ASSIGN(manifest.expires_utc, ReadOptional(document, "expires_utc", ReadTimestamp));
  VENEER_ASSIGN(manifest.extra, ReadExtras(document));
  return {};
}

// What a manifest leaves open does not tell two entries apart.
bool SameAdapter(const AdapterIdentity& a, const AdapterIdentity& b) {
  const bool same_config = !a.config_hash || !b.config_hash || a.config_hash == b.config_hash;
  const bool same_kind = a.kind.empty() || b.kind.empty() || a.kind == b.kind;
  return a.file_hash == b.file_hash && same_config && same_kind && std::ranges::equal(a.params, b.params);
}

std::vector<AdapterIdentity> IdentitiesOf(std::span<const AuthoredAdapter> adapters) {
  std::vector<AdapterIdentity> identities;
  for (const AuthoredAdapter& adapter : adapters)
    identities.push_back({adapter.at, adapter.name, adapter.file_hash, adapter.config_hash,
                          adapter.kind ? std::string_view(*adapter.kind) : std::string_view(), adapter.params});
  return identities;
}

Status CheckNames(std::span<const AdapterIdentity> adapters) {
  for (std::size_t i = 0; i < adapters.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (adapters[i].name == adapters[j].name && !SameAdapter(adapters[i], adapters[j]))
        return Fail(Code::NAME_DUPLICATE, fmt::format("{}/name", adapters[i].at),
                    fmt::format("the name {} already stands at {}; give each adapter its own", Shown(adapters[i].name), adapters[j].at));
  return {};
}

Status CheckRepeats(std::span<const AdapterIdentity> adapters) {
  for (std::size_t i = 0; i < adapters.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (adapters[i].name == adapters[j].name && SameAdapter(adapters[i], adapters[j]))
        return Fail(Code::ADAPTER_DUPLICATE, std::string(adapters[i].at),
                    fmt::format("{} is the same adapter as {}; remove one, or name the second one differently to apply it twice",
                                Shown(adapters[i].name), adapters[j].at));
  return {};
}

}  // namespace

Status CheckUniqueNames(std::span<const AdapterIdentity> adapters) {
  VENEER_TRY(CheckNames(adapters));
  return CheckRepeats(adapters);
}

Status CheckAdapterList(std::span<const AuthoredAdapter> adapters) {
  const std::vector<AdapterIdentity> identities = IdentitiesOf(adapters);
  VENEER_TRY(CheckNames(identities));
  for (std::size_t i = 0; i < adapters.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (adapters[i].load_order == adapters[j].load_order)
        return Fail(Code::LOAD_ORDER, adapters[i].at + "/load_order",
                    fmt::format("{} already stands at {}; give each adapter its own, in any order and with gaps", adapters[i].load_order,
                                adapters[j].at));
  return CheckRepeats(identities);
}

Result<std::vector<std::pair<std::string, std::string>>> ReadExtras(const Json& document) {
  std::vector<std::pair<std::string, std::string>> extras;
  for (const auto& [name, member] : document.members) {
    const bool is_text = name == "title" || name == "description";
    if (!is_text && !IsExtraName(name)) continue;
    extras.emplace_back(name, "");
  }
  std::ranges::sort(extras);
  for (auto& [name, text] : extras) {
    const Json& member = *document.Find(name);
    if (!IsExtraName(name)) VENEER_TRY(member.String());
    VENEER_ASSIGN(text, CanonicalText(member));
  }
  return extras;
}

Result<Manifest> ReadManifest(const Json& document, DocumentKind kind) {
  if (kind == DocumentKind::kManifest) {
    VENEER_TRY(CheckSchema(document, kManifestSchema));
    VENEER_TRY(CheckFields(document, kManifestFields, ExtraFields::kAllowed));
  } else {
    VENEER_TRY(CheckSchema(document, kCompositionSchema));
    VENEER_TRY(CheckFields(document, kCompositionFields));
  }
  Manifest manifest;
  VENEER_ASSIGN(manifest.base_model_hash, ReadRequired(document, "base_model_hash", ReadDigest));
  VENEER_ASSIGN(manifest.base_model_size, ReadOptional(document, "base_model_size", ReadInteger));
  VENEER_ASSIGN(manifest.base_format, ReadOptional(document, "base_format", ReadBaseFormat));
  VENEER_ASSIGN(manifest.tokenizer_id, ReadOptional(document, "tokenizer_id", ReadId));
  VENEER_ASSIGN(manifest.tokenizer_hash, ReadOptional(document, "tokenizer_hash", ReadDigest));
  VENEER_ASSIGN(manifest.tokenizer_size, ReadOptional(document, "tokenizer_size", ReadInteger));
  VENEER_ASSIGN(manifest.quantization, ReadOptional(document, "quantization", ReadQuantization));
  VENEER_ASSIGN(manifest.runtime, ReadOptional(document, "runtime", ReadRuntime));
  VENEER_ASSIGN(manifest.tied_weights, ReadOptional(document, "tied_weights", ReadTiedWeights));
  if (kind == DocumentKind::kManifest) VENEER_TRY(ReadStatementFields(document, manifest));
  if (const Json* const adapters = document.Find("adapters")) {
    VENEER_ASSIGN(manifest.adapters, ReadAdapters(*adapters, kind));
  }
  return manifest;
}

}  // namespace veneer
