// What `inspect` tells of an adapter: from its files alone, and placed on a base.
#ifndef VENEER_CORE_CLI_INSPECT_ADAPTER_H_
#define VENEER_CORE_CLI_INSPECT_ADAPTER_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/adapter/adapter.h"
#include "core/cli/output.h"
#include "core/compose/artifact_source.h"
#include "core/plugin/catalog.h"

namespace veneer::cli {

// The files alone: "format", digests and sizes, "kind" (or null, and "refused" with the reason), "configuration" (adapter_config.json),
// "metadata" (of the file itself), "tensors", "elements", "tensor_bytes", "ignored_keys", "notes". Fails when a file cannot be parsed.
Result<OutJson> AdapterFileFacts(const AdapterBlobs& blobs, const Catalog& catalog, std::string_view kind);

// Turns the facts of the files into those of the adapter on a base: "rank", "sites" with rank, scale and tensors as stored,
// "replacements", "shared", "ignored" tensors and why; takes the place of "tensors". `adapter` was read from the same files.
Status PlaceAdapter(OutJson& facts, const Adapter& adapter, const Base& base);

// The tensors of an adapter's weights by name, as the file stores them, whatever staging makes of them.
Result<std::vector<TensorView>> StoredTensors(const FileBytes& weights);

// {"rank", "scale", "params", "tensors", "bytes"} of one site's edit; `stored` as StoredTensors gives them.
OutJson EditJson(const AdapterSite& part, std::span<const TensorView> stored);

// What a replacement puts in the place of the base's: {"whole", "rows": how many, and the tensor's facts}.
OutJson ReplacementJson(const Replacement& replacement, const Site& site);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_ADAPTER_H_
