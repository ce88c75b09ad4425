#include "core/manifest/manifest.h"

#include <fmt/format.h>

#include "core/format/json.h"
#include "core/manifest/document.h"
#include "core/manifest/fields.h"
#include "core/manifest/toml.h"

namespace veneer {
namespace {

// The numbers of this folder are JSON's and TOML's alike, so both syntaxes end in one tree and one reading of it.
Result<Json> ParseDocument(std::string_view text, ManifestSyntax syntax) {
  const JsonLimits limits{kMaxManifestBytes, kMaxDepth, kMaxItems, true};
  return syntax == ManifestSyntax::kJson ? ParseJson(text, limits) : ParseToml(text, limits);
}

}  // namespace

ManifestSyntax DetectSyntax(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? ManifestSyntax::kJson : ManifestSyntax::kToml;
}

Result<Manifest> ParseManifest(std::string_view text, ManifestSyntax syntax) {
  VENEER_ASSIGN(const Json document, ParseDocument(text, syntax));
  VENEER_ASSIGN(Manifest manifest, ReadManifest(document, DocumentKind::kManifest));
  if (const std::size_t size = MakeStatement(manifest, {}).Canonical().size(); size > kMaxStatementBytes)
    return Fail(
        Code::LIMIT, "",
        fmt::format("title, description and x_ fields make a statement of {} bytes, at most {} are allowed", size, kMaxStatementBytes));
  return manifest;
}

std::vector<std::string> Warnings(const Manifest& manifest) {
  std::vector<std::string> warnings;
  for (const AuthoredAdapter& adapter : manifest.adapters)
    if (adapter.merge_weight.is_zero())
      warnings.push_back(fmt::format("W3 ZERO_WEIGHT at={}/merge_weight {} has strength 0 and changes nothing", adapter.at, adapter.name));
  return warnings;
}

}  // namespace veneer
