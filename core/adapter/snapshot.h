// A snapshot of an online trainer (trainfer): what has been merged so far as dense deltas, the adapter that was being trained, and a
// manifest. Read as adapters, each with what its file needs to be one.
#ifndef VENEER_CORE_ADAPTER_SNAPSHOT_H_
#define VENEER_CORE_ADAPTER_SNAPSHOT_H_

#include <filesystem>
#include <optional>
#include <string>

#include "core/adapter/adapter.h"
#include "core/format/safetensors.h"

namespace veneer {

struct Snapshot {
  std::optional<AdapterFiles> residual;  // merged_deltas.safetensors, its fingerprint proven; absent before the first merge
  std::optional<AdapterFiles> active;    // active_adapter.safetensors, with the configuration that the manifest implies
};

// `directory` holds manifest.json and one or both of the files. E301 when one is missing that the manifest speaks of, E303 when the
// residual's fingerprint is another one, E415 when no installed kind reads the active adapter; E203, E204 for the manifest.
Result<Snapshot> OpenSnapshot(const std::filesystem::path& directory, const Catalog& catalog);

// The trainer's definition: SHA-256 over the tensors by ascending name, of each the name and then its raw bytes. 64 hex digits.
std::string ResidualFingerprint(const SafetensorsFile& file);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_SNAPSHOT_H_
