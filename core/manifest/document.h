// The typed reading of a document tree, the same for authored manifests (TOML, JSON) and for stored compositions: one set of rules in
// one fixed order, so the same bad input gives the same code everywhere.
#ifndef VENEER_CORE_MANIFEST_DOCUMENT_H_
#define VENEER_CORE_MANIFEST_DOCUMENT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/format/json.h"
#include "core/manifest/manifest.h"

namespace veneer {

// kComposition: every claim is required and nothing of the statement is allowed.
enum class DocumentKind { kManifest, kComposition };

// Order of checks: schema; unknown fields, then missing ones; each field in the order FORMAT.md lists them, adapters last and by
// index; then what only the whole list shows: E206, E207, E215. Adapters come out sorted by load_order and renumbered from 0.
Result<Manifest> ReadManifest(const Json& document, DocumentKind kind);

// title, description and x_… as canonical text, sorted by name.
Result<std::vector<std::pair<std::string, std::string>>> ReadExtras(const Json& document);

// What makes two entries the same adapter; kind may be empty and config_hash absent when not known.
struct AdapterIdentity {
  std::string_view at, name;
  Digest file_hash;
  std::optional<Digest> config_hash;
  std::string_view kind;
  std::span<const ManifestParam> params;
};
// E206: one name for two adapters. E215: the same adapter twice under one name.
Status CheckUniqueNames(std::span<const AdapterIdentity> adapters);
// The same and E207 between them, for entries as written.
Status CheckAdapterList(std::span<const AuthoredAdapter> adapters);

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_DOCUMENT_H_
