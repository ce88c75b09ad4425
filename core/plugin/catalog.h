// The catalogue: which plugins there are, by name and by kind, read from cards; and loading one when a composition needs it.
#ifndef VENEER_CORE_PLUGIN_CATALOG_H_
#define VENEER_CORE_PLUGIN_CATALOG_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/plugin/kind_decl.h"

namespace veneer {

struct PluginCard {
  std::string name, version;
  std::uint32_t abi_major = 0, abi_minor_built = 0, abi_minor_min = 0;
  std::string library_file;  // plain file name beside the card
  Digest library_sha256;
  std::uint64_t library_size = 0;
  std::string platform;                         // "linux-x86_64"
  std::vector<std::string> requires_cpu;        // "avx2": refused on a machine without it, before the library is mapped
  std::vector<std::string> requires_libraries;  // what it asks the loader for; for people
  std::vector<KindDecl> kinds;
};
// Deterministic, indented.
std::string CardToJson(const PluginCard& card);
Result<PluginCard> CardFromJson(std::string_view text);

struct CatalogEntry {
  PluginCard card;
  std::filesystem::path directory;  // where card and library lie; empty for a statically linked plugin
  std::optional<Error> refusal;     // why it would not load; nothing when it would
};

// The statically linked plugins of a program that was built with VENEER_STATIC; none otherwise.
std::vector<const vnr_entry*> LinkedEntries();

struct CatalogOptions {
  std::vector<std::filesystem::path> directories;  // searched in order, not recursively
  // --plugin NAME=PATH of a library, its card beside it: takes the place of every other plugin of that name.
  std::vector<std::pair<std::string, std::filesystem::path>> overrides;
  std::vector<const vnr_entry*> static_entries = LinkedEntries();
};

// What a manifest may demand of the plugin that serves a kind.
struct PluginDemand {
  std::string name, version;  // empty: any
  std::optional<Digest> sha256;
};

class Catalog {
 public:
  // Reads cards only; runs no plugin code. A directory that does not exist is skipped; one that cannot be read, and a
  // damaged card, become refused entries.
  static Result<Catalog> Scan(const CatalogOptions& options);

  [[nodiscard]] const std::vector<CatalogEntry>& entries() const { return entries_; }
  // The one usable entry that offers `kind`. E415 nobody does (lists what there is), E416 refused or ambiguous (names both);
  // the error of what could not be read, which might offer it.
  [[nodiscard]] Result<const CatalogEntry*> FindKind(std::string_view kind, const PluginDemand& demand = {}) const;
  // Declarations of usable entries: all, those with an import section for PEFT, and for GGUF adapters.
  [[nodiscard]] std::vector<const KindDecl*> Kinds() const;
  [[nodiscard]] std::vector<const KindDecl*> Importers() const;
  [[nodiscard]] std::vector<const KindDecl*> GgufImporters() const;
  // Of the first usable entry that offers the kind, or nullptr.
  [[nodiscard]] const KindDecl* FindDeclaration(std::string_view kind) const;
  // Loads the library on first use (never unloaded), compares entry and card, returns the kind. E416, E417.
  [[nodiscard]] Result<const vnr_kind*> Load(const CatalogEntry& entry, std::string_view kind) const;

 private:
  std::vector<CatalogEntry> entries_;
  std::vector<const vnr_entry*> static_entries_;
};

// The directories a program searches: ../lib/veneer/overlays/abi1 relative to the real path of the running executable, then the
// compiled-in one.
std::vector<std::filesystem::path> DefaultPluginDirectories();

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_CATALOG_H_
