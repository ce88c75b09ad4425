// The folders of a store as open directories, and the checks that this place may hold one. The tree is described in LAYOUT.md.
#ifndef VENEER_CORE_STORE_LAYOUT_H_
#define VENEER_CORE_STORE_LAYOUT_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/store/io.h"
#include "core/store/sys.h"

namespace veneer {

enum class RefKind { kBase, kAdapter, kComposition };
inline constexpr std::array kRefKinds{RefKind::kBase, RefKind::kAdapter, RefKind::kComposition};
std::string_view RefKindName(RefKind kind);  // "base", "adapter", "composition": the folder under refs/

struct StoreOptions {
  std::chrono::milliseconds lock_timeout{10'000};  // for byte 0; E601 afterwards
  std::string build = "veneer";                    // written into records: which program did it; printable ASCII
  std::uint32_t threads = 1;                       // that prove a large blob, at least 1
};

inline constexpr std::uint32_t kBlobPermissions = 0444;
inline constexpr std::uint32_t kPublicPermissions = 0644;   // oci-layout, index.json
inline constexpr std::uint32_t kPrivatePermissions = 0600;  // files below veneer/
inline constexpr std::string_view kNone = "none";           // an absent digest in records
inline constexpr std::string_view kIndexName = "index.json";
inline constexpr std::string_view kOciLayoutText = R"({"imageLayoutVersion":"1.0.0"})";

// What all parts of the store work on. Immutable after opening, so threads may share it.
struct StoreContext {
  Sys* sys = nullptr;  // outlives the store
  StoreOptions options;
  std::uint32_t owner = 0;
  Dir root, blobs, veneer, state, gen, audit, staging, trash, quarantine, verified;
  std::array<Dir, kRefKinds.size()> refs;  // by RefKind
  std::vector<std::string> warnings;       // W4

  [[nodiscard]] const Dir& ref_dir(RefKind kind) const { return refs[static_cast<std::size_t>(kind)]; }
};

// Opens every folder. E603 no such store; E607 no FORMAT or one of a later version; E608 file system; E609 owner or permissions.
Result<StoreContext> OpenLayout(Sys& sys, const std::string& path, const StoreOptions& options);

// Makes the folders that are missing and syncs them; everything but FORMAT, the pointer, the log and the views. E607 when the place
// holds a store already or things that are none of a store's.
Result<StoreContext> CreateLayout(Sys& sys, const std::string& path, const StoreOptions& options);

// The last step of Init: from here on the store can be opened.
Status WriteFormat(const StoreContext& store);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_LAYOUT_H_
