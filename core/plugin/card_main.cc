// veneer-card PLUGIN.so CARD.json: loads a freshly built plugin and writes its card. Run by the build, never by hand.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/plugin/catalog.h"
#include "core/plugin/module.h"

namespace {

veneer::Result<std::string> CardOfLibrary(const std::filesystem::path& library) {
  using namespace veneer;
  VENEER_ASSIGN(const UniqueFd fd, OpenRegular(library));
  VENEER_ASSIGN(const LoadedModule module, LoadModule(fd, library.string(), std::nullopt));
  VENEER_ASSIGN(PluginCard card, CardOf(*module.entry, library.string()));
  card.library_file = library.filename().string();
  card.library_sha256 = module.sha256;
  card.library_size = module.size;
  card.requires_libraries = module.libraries;
  std::string text = CardToJson(card);
  VENEER_TRY(CardFromJson(text));  // what is written can be read
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: veneer-card PLUGIN.so CARD.json\n", stderr);
    return 2;
  }
  const auto card = CardOfLibrary(argv[1]);
  if (!card) {
    std::fputs(fmt::format("veneer-card: {}\n", card.error().Text()).c_str(), stderr);
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary | std::ios::trunc);
  out << *card;
  return out.flush() ? 0 : 1;
}
