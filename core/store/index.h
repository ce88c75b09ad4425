// index.json: what OCI tools see of the store. A view, generated from names and generations and never read as truth; other tools
// rewrite it in place, so it may be stale or torn at any time (W2) and is made again.
#ifndef VENEER_CORE_STORE_INDEX_H_
#define VENEER_CORE_STORE_INDEX_H_

#include <string>

#include "core/base/error.h"
#include "core/store/layout.h"
#include "core/store/records.h"

namespace veneer {

// The bytes it should have: the named compositions by name, then those of the current and the retained generations, newest first.
// A composition that is not in the store is left out (fsck names it).
Result<std::string> BuildIndex(const StoreContext& store, const Current& current);

// Replaces the file durably when it differs; also writes oci-layout when that is missing.
Status UpdateIndex(const StoreContext& store, const Current& current);

// The same as a last step that must not fail what came before: "W2 INDEX_STALE …" or nothing.
std::string UpdateIndexOrWarn(const StoreContext& store, const Current& current);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_INDEX_H_
