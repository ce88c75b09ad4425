// veneer-card PLUGIN.so CARD.json: loads a freshly built plugin and writes its card. Run by the build, never by hand.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "core/plugin/catalog.h"
#include "core/plugin/module.h"

namespace {

veneer::Result<std::string> CardOf(const std::filesystem::path& library) {
  using namespace veneer;
  VENEER_ASSIGN(const LoadedModule module, LoadModule(library, std::nullopt));
  PluginCard card;
  card.name = module.entry->name;
  card.version = module.entry->version;
  card.abi_major = module.entry->abi_major;
  card.abi_minor_built = module.entry->abi_minor_built;
  card.abi_minor_min = module.entry->abi_minor_min;
  card.library_file = library.filename().string();
  card.library_sha256 = module.sha256;
  card.library_size = module.size;
  for (std::uint32_t i = 0; i < module.entry->n_kinds; ++i) {
    VENEER_ASSIGN(card.kinds.emplace_back(), DeclareKind(*module.entry->kinds[i]));
  }
  return CardToJson(card);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: veneer-card PLUGIN.so CARD.json\n", stderr);
    return 2;
  }
  const auto card = CardOf(argv[1]);
  if (!card) {
    std::fputs(fmt::format("veneer-card: {}\n", card.error().Text()).c_str(), stderr);
    return 1;
  }
  std::ofstream out(argv[2], std::ios::binary | std::ios::trunc);
  out << *card;
  return out.flush() ? 0 : 1;
}
