// What must stay in the store: what is active, the generations it can go back to, and what names need, each with all it names itself.
#ifndef VENEER_CORE_STORE_LIVE_H_
#define VENEER_CORE_STORE_LIVE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/store/layout.h"
#include "core/store/records.h"
#include "core/store/recovery.h"
#include "core/store/refs.h"

namespace veneer {

// Kept before the current generation, and as many rollbacks in a row find all they need.
inline constexpr std::uint64_t kRetainedGenerations = 3;
static_assert(kRetainedGenerations >= 2, "the current generation and its rollback target must both outlive one more activation");

// The current generation and the ones just before it; and, while their compositions are there, those that rollbacks in a row lead to
// (after `rollback --to` an old one, an earlier collection may have taken them). Newest first. E602, E606.
using RetainedGenerations = std::map<std::uint64_t, StoredGeneration, std::greater<>>;
Result<RetainedGenerations> ReadRetained(const StoreContext& store, std::uint64_t current);

// A generation that is kept beyond these has a name: composition "kept-<N>", whose record has the member "generation".
std::string KeptName(std::uint64_t generation);
// The name for it, when all it needs is there under the right sizes. E606 no such generation, E605 one without a composition, E301-E305.
Result<Ref> NameToKeep(const StoreContext& store, std::uint64_t generation);
// Whether a name was made so.
bool IsKept(const Ref& ref);

// The blobs of all that is retained or named. Fails rather than miss one: E301-E305 when a composition that names others cannot be
// read, E2xx when it does not parse, E602 for a name or a record that is damaged. Under byte 0, so that nothing is added meanwhile.
Result<std::set<Digest>> FindLiveBlobs(const StoreContext& store, const Current& current);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_LIVE_H_
