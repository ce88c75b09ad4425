// The C plugins of this folder: where the modules lie, what their cards should say, and a directory to install them in.
#ifndef VENEER_TESTS_CORE_PLUGIN_TEST_PLUGINS_H_
#define VENEER_TESTS_CORE_PLUGIN_TEST_PLUGINS_H_

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "core/base/file.h"
#include "core/plugin/catalog.h"
#include "core/plugin/module.h"
#include "tests/support/temp_dir.h"

extern "C" const vnr_entry veneer_overlay_entry_v1_offset;

inline std::filesystem::path ModulePath(const std::string& name) { return std::filesystem::path(VENEER_TEST_PLUGINS) / (name + ".so"); }

inline void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// The card of the good kind over the bytes of `library`, whatever that library is.
inline veneer::PluginCard TestCard(const std::filesystem::path& library) {
  auto card = veneer::CardOf(veneer_overlay_entry_v1_offset, "test");
  auto bytes = veneer::FileBytes::Copy(library, 64 << 20);
  if (!card || !bytes) throw std::runtime_error("no card for " + library.string());
  card->library_file = library.filename().string();
  card->library_sha256 = veneer::Sha256::Of(bytes->bytes());
  card->library_size = bytes->bytes().size();
  return *card;
}

// A directory of plugins.
class PluginDir {
 public:
  [[nodiscard]] const std::filesystem::path& path() const { return dir_.path(); }
  [[nodiscard]] std::filesystem::path Library(const std::string& name) const { return path() / (name + ".so"); }
  [[nodiscard]] std::filesystem::path Card(const std::string& name) const { return path() / (name + ".veneer.json"); }

  // Copies the module; `edit` may change its card before that is written.
  template <class Edit>
  void Install(const std::string& name, const Edit& edit) const {
    std::filesystem::copy_file(ModulePath(name), Library(name), std::filesystem::copy_options::overwrite_existing);
    std::filesystem::permissions(Library(name), std::filesystem::perms(0644));
    veneer::PluginCard card = TestCard(Library(name));
    edit(card);
    WriteFile(Card(name), veneer::CardToJson(card));
  }
  void Install(const std::string& name) const {
    Install(name, [](veneer::PluginCard&) {});
  }
  [[nodiscard]] veneer::Catalog Scan(std::vector<const vnr_entry*> static_entries = {}) const {
    auto catalog = veneer::Catalog::Scan({.directories = {path()}, .overrides = {}, .static_entries = std::move(static_entries)});
    if (!catalog) throw std::runtime_error(catalog.error().Text());
    return *std::move(catalog);
  }

 private:
  TempDir dir_;
};

inline veneer::Result<veneer::LoadedModule> LoadFile(const std::filesystem::path& path) {
  auto fd = veneer::OpenRegular(path);
  if (!fd) return veneer::Fail(std::move(fd).error());
  return veneer::LoadModule(*fd, path.string(), std::nullopt);
}

#endif  // VENEER_TESTS_CORE_PLUGIN_TEST_PLUGINS_H_
