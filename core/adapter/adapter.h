// An adapter as read from its files: for each site the tensors by role and the parameters, all accounted for, nothing staged yet.
#ifndef VENEER_CORE_ADAPTER_ADAPTER_H_
#define VENEER_CORE_ADAPTER_ADAPTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/adapter/replacement.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/base.h"
#include "core/plugin/catalog.h"
#include "core/plugin/overlay.h"

namespace veneer {

struct AdapterSite {
  std::string site;             // Hugging Face id, known to the base
  OverlaySource source;         // checked by CheckSource
  std::uint64_t rank = 0;       // 0 for kinds without one
  std::optional<double> scale;  // of the edit, for reports; nothing for a kind without
};

// A tensor of the files that changes nothing, and the reason.
struct IgnoredTensor {
  std::string tensor, why;
};

struct Adapter {
  std::string kind;                              // kind id that claimed it
  std::string format;                            // "safetensors", "gguf"
  std::vector<AdapterSite> sites;                // sorted by site id
  std::vector<Replacement> replacements;         // sorted by site; in force just before the sites' edits, in full at any strength but 0
  OverlaySource shared;                          // artifact-scoped
  std::uint64_t rank = 0;                        // largest
  std::vector<IgnoredTensor> ignored;            // all tensors of the files that stand nowhere above
  std::vector<std::string> notes;                // warnings (another base named, all deltas zero), and what replaces tensors of the base
  FileBytes weights, config;                     // private copies; the tensor views point into `weights`,
  std::deque<std::vector<std::byte>> converted;  // or into one of these, where the file's own bytes would not do
};

// What is asked for beside the files.
struct AdapterRequest {
  std::string kind = {};  // the kind to use when the files do not decide; empty: they must
  // Parameters that take the place of what the files say, name -> value: a manifest's params.
  std::vector<std::pair<std::string, std::string>> params = {};
};

// The files of an adapter, as they lie in a directory of the user or in the store.
struct AdapterFiles {
  FileBytes weights;
  std::optional<FileBytes> config;  // adapter_config.json; a GGUF and files that describe themselves have none
};
inline constexpr std::uint64_t kMaxAdapterBytes = std::uint64_t{4} << 30;

// `path`: a PEFT directory, or a single adapter file, beside which its adapter_config.json lies unless it describes itself. Refuses pickles
// (`adapter_model.bin`) by name, E401.
Result<AdapterFiles> OpenAdapterFiles(const std::filesystem::path& path);

// "safetensors" or "gguf", by the first bytes.
std::string_view FormatOf(const AdapterFiles& files);

// The kind that takes these files, and that both parse: what can be known without a base. E401, E415 ... as ReadAdapter.
Result<std::string> IdentifyAdapter(const AdapterFiles& files, const Catalog& catalog, std::string_view kind = {});

// Reads and checks everything against the base's sites and the catalogue's declarations; runs no plugin code.
// Codes: E213, E401, E404, E405, E406, E411, E415, E418, E419, E420 …
Result<Adapter> ReadAdapter(AdapterFiles files, const Base& base, const Catalog& catalog, const AdapterRequest& request = {});

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_ADAPTER_H_
