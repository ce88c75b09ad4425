// One plugin library in this process: read into sealed memory, hashed, loaded from there, never unloaded.
#ifndef VENEER_CORE_PLUGIN_MODULE_H_
#define VENEER_CORE_PLUGIN_MODULE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/plugin/catalog.h"
#include "veneer/abi.h"

namespace veneer {

struct LoadedModule {
  const vnr_entry* entry = nullptr;
  Digest sha256;                       // of the very bytes that were loaded
  std::uint64_t size = 0;              // bytes of the file
  std::vector<std::string> libraries;  // what it asks the loader for
};

// Loads a library, or returns the one with the same bytes that is loaded already. With `expected` the digest is compared before any
// of its code runs. `name` is its path, for messages. E416 for a file that is no plugin or not the expected one, E417 for one that breaks
// the ABI's rules.
Result<LoadedModule> LoadModule(const UniqueFd& library, const std::string& name, const std::optional<Digest>& expected);

// Version range, structure sizes and table lengths of an entry, dynamic or static.
Status CheckEntry(const vnr_entry& entry, std::string_view at);

// What the entry says, as a card; library_* are the caller's. E416, E417.
Result<PluginCard> CardOf(const vnr_entry& entry, std::string_view at);

// "linux-x86_64": what a card must say for its library to run here.
std::string_view Platform();

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_MODULE_H_
