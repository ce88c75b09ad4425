// Names: refs/{base,adapter,composition}/NAME, each one record with a checksum, replaced durably.
#ifndef VENEER_CORE_STORE_REFS_H_
#define VENEER_CORE_STORE_REFS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/format/json.h"
#include "core/store/layout.h"

namespace veneer {

inline constexpr std::uint64_t kMaxRefBytes = 64 << 10;
inline constexpr JsonLimits kRefLimits{.bytes = kMaxRefBytes, .depth = 8, .items = 5000};

// A name and what the caller keeps under it: one canonical JSON object of strings, integers, arrays and objects. The store reads two
// things of it: every string of the form "sha256:<64 hex>" is a blob that the name needs, and a composition's record has the member
// "composition", its id.
struct Ref {
  RefKind kind = RefKind::kBase;
  std::string name;
  std::string record;
  bool operator==(const Ref&) const = default;
};

Status CheckRefName(std::string_view name);  // [a-z0-9][a-z0-9._-]{0,63}, not ending in a dot; E205
Status CheckRef(const Ref& ref);             // E205 the name, E212 the record is not canonical, E203 no "composition", E101 too long

std::string PrintRef(std::string_view record);
std::optional<std::string> ParseRef(std::string_view text);  // the record; nothing for other bytes

std::vector<Digest> DigestsIn(std::string_view record);        // in document order
std::optional<Digest> CompositionOf(std::string_view record);  // the member "composition"

// Under byte 0, after recovery.
Status WriteRef(const StoreContext& store, const Ref& ref);
// Forgets the name; its blobs stay until garbage collection. False when there was none.
Result<bool> RemoveRef(const StoreContext& store, RefKind kind, const std::string& name);
// E301 no such name, E602 damaged.
Result<Ref> ReadRef(const StoreContext& store, RefKind kind, const std::string& name);
Result<std::vector<Ref>> ReadRefs(const StoreContext& store, RefKind kind);  // sorted by name

}  // namespace veneer

#endif  // VENEER_CORE_STORE_REFS_H_
