#include "core/plugin/catalog.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/core/plugin/test_plugins.h"
#include "tests/support/catch.h"

using veneer::Catalog;
using veneer::Code;
using veneer::Error;
using veneer::PluginCard;

namespace {

constexpr std::string_view kKind = "org.example.offset";

bool Says(const Error& error, const std::string& words) { return error.Text().find(words) != std::string::npos; }

// The refusal of the only entry of the directory.
Error OnlyRefusal(const PluginDir& dir) {
  const Catalog catalog = dir.Scan();
  REQUIRE(catalog.entries().size() == 1);
  REQUIRE(catalog.entries().front().refusal);
  return *catalog.entries().front().refusal;
}

}  // namespace

TEST_CASE("catalogue: a plugin is found by kind from its card and loads") {
  const PluginDir dir;
  dir.Install("offset");
  const Catalog catalog = dir.Scan();
  const auto entry = catalog.FindKind(kKind);
  REQUIRE(entry);
  CHECK((*entry)->card.name == "example-offset");
  REQUIRE(catalog.Importers().size() == 1);
  CHECK(catalog.Importers().front()->import->peft_type == "OFFSET");
  const auto kind = catalog.Load(**entry, kKind);
  REQUIRE(kind);
  CHECK(std::string((*kind)->id) == kKind);
}

TEST_CASE("catalogue: scanning runs no plugin code") {
  const PluginDir dir;
  dir.Install("constructor");  // its constructor ends the process
  CHECK(dir.Scan().FindKind(kKind));
}

TEST_CASE("catalogue: a directory that does not exist is empty, and sub-directories are not searched") {
  const PluginDir dir;
  std::filesystem::create_directory(dir.path() / "more");
  std::filesystem::copy_file(ModulePath("offset"), dir.path() / "more" / "offset.so");
  auto catalog = Catalog::Scan({.directories = {dir.path() / "missing", dir.path()}, .overrides = {}, .static_entries = {}});
  REQUIRE(catalog);
  CHECK(catalog->entries().empty());
}

TEST_CASE("catalogue: a library without a card is refused with the command that writes one") {
  const PluginDir dir;
  std::filesystem::copy_file(ModulePath("offset"), dir.Library("offset"));
  const Error error = OnlyRefusal(dir);
  CHECK(error.code == Code::PLUGIN_REFUSED);
  CHECK(Says(error, "veneer-card"));
  CHECK(Says(error, "offset.so"));
}

TEST_CASE("catalogue: a damaged card refuses its plugin and no other") {
  const PluginDir dir;
  dir.Install("offset");
  dir.Install("offset2");
  WriteFile(dir.Card("offset2"), R"({"card": 1, "name": )");
  const Catalog catalog = dir.Scan();
  CHECK(catalog.entries().size() == 2);
  CHECK(catalog.FindKind(kKind));
  for (const auto& entry : catalog.entries()) CHECK((entry.card.name == "offset2") == entry.refusal.has_value());
}

TEST_CASE("catalogue: a library of another size than its card says is refused when scanning") {
  const PluginDir dir;
  dir.Install("offset", [](PluginCard& card) { ++card.library_size; });
  CHECK(OnlyRefusal(dir).code == Code::PLUGIN_REFUSED);
}

TEST_CASE("catalogue: a library with other bytes than its card says is refused before its code runs") {
  const PluginDir dir;
  dir.Install("constructor", [](PluginCard& card) { card.library_sha256.bytes[0] ^= 1; });
  const Catalog catalog = dir.Scan();
  const auto entry = catalog.FindKind(kKind);
  REQUIRE(entry);
  const auto kind = catalog.Load(**entry, kKind);
  REQUIRE_FALSE(kind);
  CHECK(kind.error().code == Code::PLUGIN_REFUSED);
}

TEST_CASE("catalogue: a card that lies about its plugin is refused after loading, naming the field") {
  const auto lie = [](const std::string& what, const auto& edit) {
    const PluginDir dir;
    dir.Install("offset", edit);
    const Catalog catalog = dir.Scan();
    const auto entry = catalog.FindKind(kKind);
    REQUIRE(entry);
    const auto kind = catalog.Load(**entry, kKind);
    REQUIRE_FALSE(kind);
    CHECK(kind.error().code == Code::PLUGIN_REFUSED);
    CHECK(Says(kind.error(), what));
  };
  lie("the name", [](PluginCard& card) { card.name = "example-other"; });
  lie("the version", [](PluginCard& card) { card.version = "9.0.0"; });
  lie("the ABI version", [](PluginCard& card) { card.abi_minor_built = 7; });
  lie("the number of kinds", [](PluginCard& card) {
    card.kinds.push_back(card.kinds[0]);
    card.kinds[1].id = "org.example.second";
  });
  lie("kind org.example.offset", [](PluginCard& card) { card.kinds[0].roles[0].dtype_mask |= VNR_BIT(VNR_F16); });
  lie("kind org.example.offset", [](PluginCard& card) { card.kinds[0].import->tensors[0].suffix = ".other"; });
  lie("kind org.example.offset", [](PluginCard& card) { card.kinds[0].import_gguf->rules.clear(); });
}

TEST_CASE("catalogue: a card for another platform, processor or ABI is refused when scanning") {
  const auto refused = [](const std::string& words, const auto& edit) {
    const PluginDir dir;
    dir.Install("offset", edit);
    const Error error = OnlyRefusal(dir);
    CHECK(error.code == Code::PLUGIN_REFUSED);
    CHECK(Says(error, words));
  };
  refused("linux-vax", [](PluginCard& card) { card.platform = "linux-vax"; });
  refused("needs a processor with amx-tile", [](PluginCard& card) { card.requires_cpu = {"amx-tile"}; });
  refused("needs ABI 2.0", [](PluginCard& card) { card.abi_major = 2; });
  refused("needs ABI 1.4", [](PluginCard& card) { card.abi_minor_min = 4; });
}

TEST_CASE("catalogue: a plugin built with a newer header that needs only the old ABI is accepted by its card") {
  const PluginDir dir;
  dir.Install("offset", [](PluginCard& card) { card.abi_minor_built = 9; });
  CHECK(dir.Scan().FindKind(kKind));
}

TEST_CASE("catalogue: a card that names a file outside its directory is refused") {
  const PluginDir dir;
  dir.Install("offset", [](PluginCard& card) { card.library_file = "../offset.so"; });
  const Catalog catalog = dir.Scan();
  CHECK_FALSE(catalog.FindKind(kKind));
}

TEST_CASE("catalogue: a missing library and a symbolic link to one are refused") {
  const PluginDir dir;
  dir.Install("offset");
  std::filesystem::rename(dir.Library("offset"), dir.path() / "elsewhere");
  CHECK(Says(OnlyRefusal(dir), "is missing"));
  std::filesystem::create_symlink(dir.path() / "elsewhere", dir.Library("offset"));
  CHECK(Says(OnlyRefusal(dir), "symbolic link"));
}

TEST_CASE("catalogue: a library or card that everybody can write is refused, and so is a directory above") {
  const PluginDir dir;
  dir.Install("offset");
  REQUIRE(chmod(dir.Library("offset").c_str(), 0646) == 0);
  CHECK(Says(OnlyRefusal(dir), "offset.so"));
  REQUIRE(chmod(dir.Library("offset").c_str(), 0644) == 0);
  REQUIRE(chmod(dir.Card("offset").c_str(), 0666) == 0);
  CHECK(Says(OnlyRefusal(dir), "everybody may write to it"));
  REQUIRE(chmod(dir.Card("offset").c_str(), 0644) == 0);
  REQUIRE(chmod(dir.path().c_str(), 0777) == 0);
  CHECK(OnlyRefusal(dir).code == Code::PLUGIN_REFUSED);
  REQUIRE(chmod(dir.path().c_str(), 0700) == 0);
  CHECK(dir.Scan().FindKind(kKind));  // below the sticky directory of root that holds it
}

TEST_CASE("catalogue: what another user owns or a foreign group can write is refused; the owner's own group may") {
  if (geteuid() != 0) {
    WARN("SKIP: only root can give files away");
    return;
  }
  const PluginDir dir;
  dir.Install("offset");
  REQUIRE(chown(dir.Library("offset").c_str(), 12345, 0) == 0);
  CHECK(Says(OnlyRefusal(dir), "belongs to user 12345"));
  REQUIRE(chown(dir.Library("offset").c_str(), 0, 12345) == 0);
  REQUIRE(chmod(dir.Library("offset").c_str(), 0664) == 0);
  CHECK(Says(OnlyRefusal(dir), "group 12345 may write"));
  REQUIRE(chown(dir.Library("offset").c_str(), 0, 0) == 0);
  CHECK(dir.Scan().FindKind(kKind));
  REQUIRE(chmod(dir.path().c_str(), 0770) == 0);
  CHECK(dir.Scan().FindKind(kKind));
  REQUIRE(chown(dir.path().c_str(), 0, 12345) == 0);
  CHECK(Says(OnlyRefusal(dir), "group 12345 may write"));
  REQUIRE(chmod(dir.path().c_str(), 01777) == 0);
  CHECK(dir.Scan().FindKind(kKind));  // sticky and root's
}

TEST_CASE("catalogue: two plugins for one kind are an error that names both, until the manifest names one") {
  const PluginDir dir;
  dir.Install("offset");
  dir.Install("offset2", [](PluginCard& card) { card.version = "2.0.0"; });
  const Catalog catalog = dir.Scan();
  const auto both = catalog.FindKind(kKind);
  REQUIRE_FALSE(both);
  CHECK(both.error().code == Code::PLUGIN_REFUSED);
  CHECK(Says(both.error(), "offset.so"));
  CHECK(Says(both.error(), "offset2.so"));
  const auto one = catalog.FindKind(kKind, {.name = "example-offset", .version = "2.0.0", .sha256 = {}});
  REQUIRE(one);
  CHECK((*one)->card.version == "2.0.0");
  const auto pinned = catalog.FindKind(kKind, {.name = {}, .version = {}, .sha256 = TestCard(ModulePath("offset")).library_sha256});
  REQUIRE(pinned);
  CHECK((*pinned)->card.version == "1.0.0");
  const auto none = catalog.FindKind(kKind, {.name = "example-offset", .version = "3.0.0", .sha256 = {}});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Code::PLUGIN_REFUSED);
}

TEST_CASE("catalogue: the same plugin in two directories is one") {
  const PluginDir a, b;
  a.Install("offset");
  b.Install("offset");
  auto catalog = Catalog::Scan({.directories = {a.path(), b.path()}, .overrides = {}, .static_entries = {}});
  REQUIRE(catalog);
  CHECK(catalog->entries().size() == 1);
  CHECK(catalog->FindKind(kKind));
}

TEST_CASE("catalogue: an override takes the place of every plugin of that name") {
  const PluginDir installed, own;
  installed.Install("offset");
  own.Install("offset2", [](PluginCard& card) { card.version = "2.0.0"; });
  auto catalog =
      Catalog::Scan({.directories = {installed.path()}, .overrides = {{"example-offset", own.Library("offset2")}}, .static_entries = {}});
  REQUIRE(catalog);
  const auto entry = catalog->FindKind(kKind);
  REQUIRE(entry);
  CHECK((*entry)->card.version == "2.0.0");
}

TEST_CASE("catalogue: an override under a wrong name, without a card or without a library is an error") {
  const PluginDir dir;
  dir.Install("offset");
  const auto scan = [](const std::string& name, const std::filesystem::path& path) {
    return Catalog::Scan({.directories = {}, .overrides = {{name, path}}, .static_entries = {}});
  };
  const auto wrong = scan("other", dir.Library("offset"));
  REQUIRE_FALSE(wrong);
  CHECK(Says(wrong.error(), "names it example-offset"));
  CHECK_FALSE(scan("example-offset", ModulePath("offset")));
  CHECK_FALSE(scan("example-offset", dir.path() / "missing.so"));
}

TEST_CASE("catalogue: a kind that nobody offers is E415 and lists what there is; a refused one says why") {
  const PluginDir dir;
  dir.Install("offset");
  const auto unknown = dir.Scan().FindKind("org.example.nothing");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == Code::KIND_UNKNOWN);
  CHECK(Says(unknown.error(), "org.example.offset"));
  dir.Install("offset", [](PluginCard& card) { card.abi_minor_min = 4; });
  const auto refused = dir.Scan().FindKind(kKind);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::PLUGIN_REFUSED);
  CHECK(Says(refused.error(), "needs ABI 1.4"));
}

TEST_CASE("catalogue: a kind that nobody offers while something could not be read is that error: E603, or E503 without descriptors") {
  const PluginDir dir;
  dir.Install("offset");
  const auto scan = [&](const std::filesystem::path& directory) {
    const auto catalog = Catalog::Scan({.directories = {directory}, .overrides = {}, .static_entries = {}});
    REQUIRE(catalog);
    return catalog->FindKind(kKind).error();
  };
  const auto library = dir.path() / "offset.so";
  CHECK(scan(library).code == Code::IO);  // no folder
  CHECK(scan(library).at == library.string());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto catalog = Catalog::Scan({.directories = {dir.path()}, .overrides = {}, .static_entries = {}});
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(catalog);
  CHECK(catalog->FindKind(kKind).error().code == Code::FD_LIMIT);
}

TEST_CASE("catalogue: a statically linked plugin needs no file and declares the same as its module") {
  const PluginDir dir;
  const Catalog built_in = dir.Scan({&veneer_overlay_entry_v1_offset});
  const auto entry = built_in.FindKind(kKind);
  REQUIRE(entry);
  CHECK((*entry)->directory.empty());
  const auto kind = built_in.Load(**entry, kKind);
  REQUIRE(kind);
  CHECK(*kind == veneer_overlay_entry_v1_offset.kinds[0]);
  const auto module = LoadFile(ModulePath("offset"));
  REQUIRE(module);
  const auto card = veneer::CardOf(*module->entry, "module");
  REQUIRE(card);
  CHECK(card->kinds == (*entry)->card.kinds);
}

TEST_CASE("catalogue: plugins are searched beside the running program first") {
  const auto directories = veneer::DefaultPluginDirectories();
  REQUIRE(directories.size() == 2);
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  CHECK(directories[0] == program.parent_path().parent_path() / "lib/veneer/overlays/abi1");
  CHECK(directories[1].is_absolute());
}
