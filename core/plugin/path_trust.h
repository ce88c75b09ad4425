// Who could exchange a file that is about to be run: owners and modes of it and of every directory above it.
#ifndef VENEER_CORE_PLUGIN_PATH_TRUST_H_
#define VENEER_CORE_PLUGIN_PATH_TRUST_H_

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"

namespace veneer {

// Opens the regular file at `path` without following a final symbolic link. E416 when somebody other than root, the user or an owner of
// the running program could have put it there: by owner, or by a group's or everybody's write permission on it or on a directory above.
// Accepted: a sticky directory of root (/tmp), and a group that is the owner's own. E301 when there is no such file.
Result<UniqueFd> OpenTrusted(const std::filesystem::path& path);

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_PATH_TRUST_H_
