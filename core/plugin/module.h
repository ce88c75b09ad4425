// One plugin library in this process: read into sealed memory, hashed, loaded from there, never unloaded.
#ifndef VENEER_CORE_PLUGIN_MODULE_H_
#define VENEER_CORE_PLUGIN_MODULE_H_

#include <filesystem>
#include <optional>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "veneer/abi.h"

namespace veneer {

struct LoadedModule {
  const vnr_entry* entry;
  Digest sha256;       // of the very bytes that were loaded
  std::uint64_t size;  // bytes of the file
};

// Loads a library, or returns the one with the same bytes that is loaded already. With `expected` the digest is compared before any
// of its code runs. E416 for a file that is no plugin or not the expected one, E417 for one that breaks the ABI's rules.
Result<LoadedModule> LoadModule(const std::filesystem::path& path, const std::optional<Digest>& expected);

// Version range, structure sizes and table lengths of an entry, dynamic or static.
Status CheckEntry(const vnr_entry& entry, std::string_view at);

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_MODULE_H_
