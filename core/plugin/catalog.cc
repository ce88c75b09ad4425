#include "core/plugin/catalog.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/plugin/module.h"
#include "core/plugin/path_trust.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCardSuffix = ".veneer.json";
constexpr std::uint64_t kMaxCardBytes = 1 << 20;

fs::path CardPathOf(const fs::path& library) { return fs::path(library).replace_extension().string() + std::string(kCardSuffix); }

bool HasCpuFeature(std::string_view name) {
#if defined(__x86_64__)
  if (name == "avx2") return __builtin_cpu_supports("avx2") != 0;
  if (name == "fma") return __builtin_cpu_supports("fma") != 0;
  if (name == "f16c") return __builtin_cpu_supports("f16c") != 0;
  if (name == "avx512f") return __builtin_cpu_supports("avx512f") != 0;
#endif
  return false;
}

// Everything about a card and the library it names that can be known without running the library.
Status CheckCard(const PluginCard& card, const fs::path& library) {
  const auto refuse = [&card](std::string why) { return Fail(Code::PLUGIN_REFUSED, card.name, std::move(why)); };
  if (card.abi_major != VNR_ABI_MAJOR || card.abi_minor_min > VNR_ABI_MINOR)
    return refuse(fmt::format("needs ABI {}.{}, this program has {}.{}; build it for that ABI or use a newer program", card.abi_major,
                              card.abi_minor_min, VNR_ABI_MAJOR, VNR_ABI_MINOR));
  if (card.platform != Platform()) return refuse(fmt::format("is built for {}, this is {}; build it here", card.platform, Platform()));
  for (const std::string& feature : card.requires_cpu)
    if (!HasCpuFeature(feature)) return refuse(fmt::format("needs a processor with {}; build it for this machine", feature));
  auto fd = OpenTrusted(library);
  if (!fd && fd.error().code == Code::BLOB_MISSING)
    return refuse(fmt::format("its library {} is missing; install it again", library.string()));
  if (!fd) return Fail(std::move(fd).error());
  struct stat info{};
  if (fstat(fd->get(), &info) != 0) return Fail(IoError(errno, library.string(), "look at"));
  if (static_cast<std::uint64_t>(info.st_size) != card.library_size)
    return refuse(
        fmt::format("its library has {} bytes, the card says {}; write the card anew with veneer-card", info.st_size, card.library_size));
  return {};
}

CatalogEntry ReadEntry(const fs::path& card_path) {
  CatalogEntry entry;
  entry.directory = card_path.parent_path();
  entry.card.name = card_path.filename().string();
  entry.card.name.resize(entry.card.name.size() - kCardSuffix.size());
  const auto read = [&]() -> Status {
    VENEER_ASSIGN(const UniqueFd fd, OpenTrusted(card_path));
    VENEER_ASSIGN(const FileBytes bytes, FileBytes::CopyFd(fd, card_path.string(), kMaxCardBytes));
    auto card = CardFromJson(AsText(bytes.bytes()));
    if (!card) {
      Error why = std::move(card).error().Within(card_path.string());
      why.detail += "; write the card anew with veneer-card";
      return Fail(Error{Code::PLUGIN_REFUSED, std::move(why.at), std::move(why.detail)});
    }
    entry.card = *std::move(card);
    return CheckCard(entry.card, entry.directory / entry.card.library_file);
  };
  if (auto status = read(); !status) entry.refusal = std::move(status).error();
  return entry;
}

std::vector<CatalogEntry> ScanDirectory(const fs::path& directory) {
  std::vector<fs::path> cards, libraries;
  std::error_code failed;
  for (fs::directory_iterator file(directory, failed), end; !failed && file != end; file.increment(failed)) {
    const std::string name = file->path().filename().string();
    if (name.size() > kCardSuffix.size() && name.ends_with(kCardSuffix)) cards.push_back(file->path());
    if (name.ends_with(".so")) libraries.push_back(file->path());
  }
  std::ranges::sort(cards);
  std::ranges::sort(libraries);
  std::vector<CatalogEntry> entries;
  if (failed && failed != std::errc::no_such_file_or_directory) {
    CatalogEntry unread;
    unread.card.name = directory.string();
    unread.directory = directory;
    unread.refusal = IoError(failed.value(), directory.string(), "list");
    entries.push_back(std::move(unread));
  }
  for (const fs::path& card : cards) entries.push_back(ReadEntry(card));
  for (const fs::path& library : libraries) {
    const std::string file = library.filename().string();
    if (std::ranges::any_of(entries, [&](const CatalogEntry& entry) { return entry.card.library_file == file; })) continue;
    if (std::error_code ignored; fs::exists(CardPathOf(library), ignored)) continue;  // a damaged card has an entry of its own
    CatalogEntry entry;
    entry.card.name = library.stem().string();
    entry.card.library_file = file;
    entry.directory = directory;
    entry.refusal = Error{Code::PLUGIN_REFUSED, library.string(),
                          fmt::format("has no card beside it, so it is not looked at; write one: veneer-card {} {}", library.string(),
                                      CardPathOf(library).string())};
    entries.push_back(std::move(entry));
  }
  return entries;
}

bool Satisfies(const CatalogEntry& entry, const PluginDemand& demand) {
  return (demand.name.empty() || entry.card.name == demand.name) && (demand.version.empty() || entry.card.version == demand.version) &&
         (!demand.sha256 || entry.card.library_sha256 == *demand.sha256);
}

bool Offers(const CatalogEntry& entry, std::string_view kind) {
  return std::ranges::find(entry.card.kinds, kind, &KindDecl::id) != entry.card.kinds.end();
}

std::string TextOf(const CatalogEntry& entry) {
  const bool is_static = entry.directory.empty();
  return fmt::format("{} {} ({})", entry.card.name, entry.card.version,
                     is_static
                         ? "built in"
                         : fmt::format("{}, {}", (entry.directory / entry.card.library_file).string(), entry.card.library_sha256.Text()));
}

// The same bytes under the same name say nothing new.
bool IsRepeated(const std::vector<CatalogEntry>& entries, const CatalogEntry& entry) {
  return std::ranges::any_of(entries, [&entry](const CatalogEntry& other) {
    return !other.refusal && !entry.refusal && other.card.name == entry.card.name && other.card.library_sha256 == entry.card.library_sha256;
  });
}

// The declarations of usable entries for which `is_wanted`.
template <class Predicate>
std::vector<const KindDecl*> KindsOf(const std::vector<CatalogEntry>& entries, const Predicate& is_wanted) {
  std::vector<const KindDecl*> kinds;
  for (const CatalogEntry& entry : entries) {
    if (entry.refusal) continue;
    for (const KindDecl& kind : entry.card.kinds)
      if (is_wanted(kind)) kinds.push_back(&kind);
  }
  return kinds;
}

}  // namespace

std::vector<const vnr_entry*> LinkedEntries() {
#if defined(VENEER_STATIC)
  return {vnr_static_entries, vnr_static_entries + vnr_static_entry_count};
#else
  return {};
#endif
}

Result<Catalog> Catalog::Scan(const CatalogOptions& options) {
  Catalog catalog;
  for (const auto& [name, library] : options.overrides) {
    std::error_code ignored;
    CatalogEntry entry = ReadEntry(CardPathOf(fs::absolute(library, ignored)));
    if (entry.refusal) return Fail(*entry.refusal);  // the user asked for this one
    if (entry.card.name != name)
      return Fail(Code::PLUGIN_REFUSED, "--plugin " + name, fmt::format("the card of this library names it {}", entry.card.name));
    catalog.entries_.push_back(std::move(entry));
  }
  const auto is_overridden = [&options](const CatalogEntry& entry) {
    return std::ranges::any_of(options.overrides, [&entry](const auto& other) { return other.first == entry.card.name; });
  };
  for (const vnr_entry* linked : options.static_entries) {
    CatalogEntry entry;
    VENEER_ASSIGN(entry.card, CardOf(*linked, "built-in plugin"));
    if (is_overridden(entry)) continue;
    catalog.entries_.push_back(std::move(entry));
    catalog.static_entries_.push_back(linked);
  }
  for (const fs::path& directory : options.directories)
    for (CatalogEntry& entry : ScanDirectory(directory))
      if (!is_overridden(entry) && !IsRepeated(catalog.entries_, entry)) catalog.entries_.push_back(std::move(entry));
  return catalog;
}

Result<const CatalogEntry*> Catalog::FindKind(std::string_view kind, const PluginDemand& demand) const {
  const CatalogEntry* found = nullptr;
  const CatalogEntry* passed_over = nullptr;
  std::string offered;
  for (const CatalogEntry& entry : entries_) {
    if (!entry.refusal)
      for (const KindDecl& declared : entry.card.kinds) offered += fmt::format("{}{}", offered.empty() ? "" : ", ", declared.id);
    if (!Offers(entry, kind)) continue;
    if (entry.refusal || !Satisfies(entry, demand)) {
      if (passed_over == nullptr || entry.refusal) passed_over = &entry;
      continue;
    }
    if (found != nullptr)
      return Fail(Code::PLUGIN_REFUSED, std::string(kind),
                  fmt::format("is offered by {} and by {}; name one in the manifest's plugin field, or remove the other", TextOf(*found),
                              TextOf(entry)));
    found = &entry;
  }
  if (found != nullptr) return found;
  if (passed_over != nullptr && passed_over->refusal) return Fail(*passed_over->refusal);
  if (passed_over != nullptr)
    return Fail(
        Code::PLUGIN_REFUSED, std::string(kind),
        fmt::format("{} is not what the manifest's plugin field demands; install that one or correct the field", TextOf(*passed_over)));
  // What could not be read might offer it.
  const auto unread = std::ranges::find_if(entries_, [](const CatalogEntry& entry) {
    return entry.refusal && entry.card.kinds.empty() && entry.refusal->code != Code::PLUGIN_REFUSED;
  });
  if (unread != entries_.end()) return Fail(*unread->refusal);
  return Fail(Code::KIND_UNKNOWN, std::string(kind),
              fmt::format("no installed plugin offers this kind; there are: {}", offered.empty() ? "none" : offered));
}

std::vector<const KindDecl*> Catalog::Kinds() const {
  return KindsOf(entries_, [](const KindDecl&) { return true; });
}

std::vector<const KindDecl*> Catalog::Importers() const {
  return KindsOf(entries_, [](const KindDecl& kind) { return kind.import.has_value(); });
}

std::vector<const KindDecl*> Catalog::GgufImporters() const {
  return KindsOf(entries_, [](const KindDecl& kind) { return kind.import_gguf.has_value(); });
}

const KindDecl* Catalog::FindDeclaration(std::string_view kind) const {
  const auto kinds = Kinds();
  const auto found = std::ranges::find(kinds, kind, &KindDecl::id);
  return found == kinds.end() ? nullptr : *found;
}

Result<const vnr_kind*> Catalog::Load(const CatalogEntry& entry, std::string_view kind) const {
  if (entry.refusal) return Fail(*entry.refusal);
  const vnr_entry* loaded = nullptr;
  PluginCard now;
  if (entry.directory.empty()) {
    const auto named = [&entry](const vnr_entry* linked) { return entry.card.name == linked->name; };
    const auto linked = std::ranges::find_if(static_entries_, named);
    if (linked == static_entries_.end()) return Fail(Code::INTERNAL, entry.card.name, "is not linked into this program");
    loaded = *linked;
    VENEER_ASSIGN(now, CardOf(*loaded, entry.card.name));
  } else {
    const fs::path path = entry.directory / entry.card.library_file;
    VENEER_ASSIGN(const UniqueFd fd, OpenTrusted(path));
    VENEER_ASSIGN(const LoadedModule module, LoadModule(fd, path.string(), entry.card.library_sha256));
    loaded = module.entry;
    VENEER_ASSIGN(now, CardOf(*loaded, path.string()));
  }
  // Entry and card, field by field.
  const auto differs = [&entry](std::string_view what) {
    return Fail(Code::PLUGIN_REFUSED, entry.card.name,
                fmt::format("{} in its library is not what its card says; write the card anew with veneer-card", what));
  };
  if (entry.card.name != now.name) return differs("the name");
  if (entry.card.version != now.version) return differs("the version");
  if (entry.card.abi_major != now.abi_major || entry.card.abi_minor_built != now.abi_minor_built ||
      entry.card.abi_minor_min != now.abi_minor_min)
    return differs("the ABI version");
  if (entry.card.kinds.size() != now.kinds.size()) return differs("the number of kinds");
  for (std::size_t i = 0; i < now.kinds.size(); ++i)
    if (entry.card.kinds[i] != now.kinds[i]) return differs(fmt::format("kind {}", now.kinds[i].id));
  for (std::size_t i = 0; i < now.kinds.size(); ++i)
    if (now.kinds[i].id == kind) return loaded->kinds[i];
  return Fail(Code::KIND_UNKNOWN, std::string(kind), fmt::format("{} does not offer it", entry.card.name));
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
