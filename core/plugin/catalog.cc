#include "core/plugin/catalog.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "core/base/file.h"
#include "core/plugin/module.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCardSuffix = ".veneer.json";
constexpr std::uint64_t kMaxCardBytes = 1 << 20;

// Nobody but root and the user may be able to exchange what is loaded. A sticky directory of root (like /tmp) is accepted; a group
// may write to a directory only when it is the owner's own.
Status CheckOwner(const fs::path& path, bool is_directory) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return Fail(IoError(errno, path.string(), "look at"));
  const auto refuse = [&](std::string_view why) {
    return Fail(Code::PLUGIN_REFUSED, path.string(), fmt::format("{}; change owner or mode so that nobody else can exchange plugins", why));
  };
  if (S_ISLNK(info.st_mode)) return refuse("is a symbolic link");
  if (info.st_uid != 0 && info.st_uid != geteuid()) return refuse("belongs to another user");
  if (is_directory && info.st_uid == 0 && (info.st_mode & S_ISVTX) != 0) return {};
  if ((info.st_mode & S_IWOTH) != 0) return refuse("can be written by everybody");
  if ((info.st_mode & S_IWGRP) != 0) {
    const passwd* owner = getpwuid(info.st_uid);
    const bool is_own_group = owner != nullptr && owner->pw_gid == info.st_gid;
    if (!is_directory || !is_own_group) return refuse("can be written by a group");
  }
  return {};
}

// The file and every directory above it.
Status CheckOwners(const fs::path& file) {
  VENEER_TRY(CheckOwner(file, false));
  for (fs::path directory = file.parent_path(); directory != directory.parent_path(); directory = directory.parent_path())
    VENEER_TRY(CheckOwner(directory, true));
  return {};
}

Status CheckCard(const PluginCard& card, const fs::path& library) {
  if (card.abi_major != VNR_ABI_MAJOR || card.abi_minor_min > VNR_ABI_MINOR)
    return Fail(Code::PLUGIN_REFUSED, card.name,
                fmt::format("needs ABI {}.{}, this program has {}.{}", card.abi_major, card.abi_minor_min, VNR_ABI_MAJOR, VNR_ABI_MINOR));
  struct stat info{};
  if (lstat(library.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return Fail(Code::PLUGIN_REFUSED, card.name, fmt::format("its library {} is missing", library.string()));
  if (static_cast<std::uint64_t>(info.st_size) != card.library_size)
    return Fail(Code::PLUGIN_REFUSED, card.name,
                fmt::format("its library has {} bytes, the card says {}; write the card anew", info.st_size, card.library_size));
  return CheckOwners(library);
}

CatalogEntry ReadEntry(const fs::path& card_path) {
  CatalogEntry entry;
  entry.directory = card_path.parent_path();
  entry.card.name = card_path.filename().string();
  entry.card.name.resize(entry.card.name.size() - kCardSuffix.size());
  const auto read = [&]() -> Status {
    VENEER_TRY(CheckOwners(card_path));
    VENEER_ASSIGN(const FileBytes bytes, FileBytes::Copy(card_path, kMaxCardBytes));
    auto card = CardFromJson({reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size()});
    if (!card) return Fail(std::move(card).error().Within(card_path.string()));
    entry.card = *std::move(card);
    return CheckCard(entry.card, entry.directory / entry.card.library_file);
  };
  if (auto status = read(); !status) entry.refusal = std::move(status).error();
  return entry;
}

std::vector<CatalogEntry> ScanDirectory(const fs::path& directory) {
  std::vector<fs::path> cards, libraries;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(directory, ignored)) {
    const std::string name = file.path().filename().string();
    if (name.ends_with(kCardSuffix)) cards.push_back(file.path());
    if (name.ends_with(".so")) libraries.push_back(file.path());
  }
  std::ranges::sort(cards);
  std::ranges::sort(libraries);
  std::vector<CatalogEntry> entries;
  for (const fs::path& card : cards) entries.push_back(ReadEntry(card));
  for (const fs::path& library : libraries) {
    const std::string file = library.filename().string();
    if (std::ranges::any_of(entries, [&](const CatalogEntry& entry) { return entry.card.library_file == file; })) continue;
    const fs::path card = fs::path(library).replace_extension().string() + std::string(kCardSuffix);
    if (fs::exists(card)) continue;  // a damaged card has an entry of its own
    CatalogEntry entry;
    entry.card.name = library.stem().string();
    entry.card.library_file = file;
    entry.directory = directory;
    entry.refusal = Error{Code::PLUGIN_REFUSED, library.string(), "has no card beside it; write one with veneer-card"};
    entries.push_back(std::move(entry));
  }
  return entries;
}

bool Satisfies(const CatalogEntry& entry, const PluginDemand& demand) {
  return (demand.name.empty() || entry.card.name == demand.name) && (demand.version.empty() || entry.card.version == demand.version) &&
         (!demand.sha256 || entry.card.library_sha256 == *demand.sha256);
}

bool Offers(const CatalogEntry& entry, std::string_view kind) { return std::ranges::find(entry.card.kinds, kind, &KindDecl::id) != entry.card.kinds.end(); }

}  // namespace

Result<Catalog> Catalog::Scan(const CatalogOptions& options) {
  Catalog catalog;
  for (const auto& [name, library] : options.overrides) {
    std::error_code ignored;
    const fs::path path = fs::absolute(library, ignored);
    CatalogEntry entry = ReadEntry(fs::path(path).replace_extension().string() + std::string(kCardSuffix));
    if (!entry.refusal && entry.card.name != name)
      return Fail(Code::PLUGIN_REFUSED, "--plugin " + name, fmt::format("the library is named {}", entry.card.name));
    if (entry.refusal) return Fail(*entry.refusal);
    catalog.entries_.push_back(std::move(entry));
  }
  for (const fs::path& directory : options.directories) {
    for (CatalogEntry& entry : ScanDirectory(directory)) {
      // The first directory that has a plugin of a name wins; the same bytes again say nothing new.
      const auto same = std::ranges::find_if(catalog.entries_, [&](const CatalogEntry& other) {
        return other.card.name == entry.card.name && (other.card.library_sha256 == entry.card.library_sha256 ||
                                                      std::ranges::any_of(options.overrides, [&](const auto& o) { return o.first == entry.card.name; }));
      });
      if (same == catalog.entries_.end()) catalog.entries_.push_back(std::move(entry));
    }
  }
  return catalog;
}

Result<const CatalogEntry*> Catalog::FindKind(std::string_view kind, const PluginDemand& demand) const {
  const CatalogEntry* found = nullptr;
  const CatalogEntry* refused = nullptr;
  std::string offered;
  for (const CatalogEntry& entry : entries_) {
    if (!entry.refusal)
      for (const KindDecl& declared : entry.card.kinds) offered += fmt::format("{}{}", offered.empty() ? "" : ", ", declared.id);
    if (!Offers(entry, kind)) continue;
    if (entry.refusal || !Satisfies(entry, demand)) {
      refused = &entry;
      continue;
    }
    if (found != nullptr)
      return Fail(Code::PLUGIN_REFUSED, std::string(kind),
                  fmt::format("is offered by {} {} ({}) and by {} {} ({}); name one in the manifest's plugin field", found->card.name,
                              found->card.version, found->card.library_sha256.Text(), entry.card.name, entry.card.version,
                              entry.card.library_sha256.Text()));
    found = &entry;
  }
  if (found != nullptr) return found;
  if (refused != nullptr && refused->refusal) return Fail(*refused->refusal);
  if (refused != nullptr)
    return Fail(Code::PLUGIN_REFUSED, std::string(kind),
                fmt::format("{} {} ({}) is not what the manifest's plugin field demands", refused->card.name, refused->card.version,
                            refused->card.library_sha256.Text()));
  return Fail(Code::KIND_UNKNOWN, std::string(kind),
              fmt::format("no installed plugin offers this kind; there are: {}", offered.empty() ? "none" : offered));
}

std::vector<const KindDecl*> Catalog::Importers() const {
  std::vector<const KindDecl*> importers;
  for (const CatalogEntry& entry : entries_) {
    if (entry.refusal) continue;
    for (const KindDecl& kind : entry.card.kinds)
      if (kind.import) importers.push_back(&kind);
  }
  return importers;
}

Result<const vnr_kind*> Catalog::Load(const CatalogEntry& entry, std::string_view kind) const {
  if (entry.refusal) return Fail(*entry.refusal);
  VENEER_ASSIGN(const LoadedModule module, LoadModule(entry.directory / entry.card.library_file, entry.card.library_sha256));
  const auto differs = [&](std::string_view what) {
    return Fail(Code::PLUGIN_REFUSED, entry.card.name, fmt::format("{} in its library is not what its card says; write the card anew", what));
  };
  if (entry.card.name != module.entry->name) return differs("the name");
  if (entry.card.version != module.entry->version) return differs("the version");
  if (entry.card.kinds.size() != module.entry->n_kinds) return differs("the number of kinds");
  const vnr_kind* found = nullptr;
  for (std::uint32_t i = 0; i < module.entry->n_kinds; ++i) {
    VENEER_ASSIGN(const KindDecl declared, DeclareKind(*module.entry->kinds[i]));
    if (declared != entry.card.kinds[i]) return differs(fmt::format("kind {}", declared.id));
    if (declared.id == kind) found = module.entry->kinds[i];
  }
  if (found == nullptr) return Fail(Code::KIND_UNKNOWN, std::string(kind), fmt::format("{} does not offer it", entry.card.name));
  return found;
}

std::vector<fs::path> DefaultPluginDirectories() {
  std::vector<fs::path> directories;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) directories.push_back(program.parent_path().parent_path() / "lib/veneer/overlays/abi1");
  const fs::path installed = VENEER_PLUGIN_INSTALL_DIR;
  if (directories.empty() || directories.front() != installed) directories.push_back(installed);
  return directories;
}

}  // namespace veneer
