// What `inspect` was asked about: a path, an id or a name of the store, opened and told as facts.
#ifndef VENEER_CORE_CLI_INSPECT_SUBJECT_H_
#define VENEER_CORE_CLI_INSPECT_SUBJECT_H_

#include <string>

#include "core/cli/output.h"
#include "core/cli/session.h"

namespace veneer::cli {

// The facts of the one word of the command line; without one, of the composition that the options select. "what" says which of base,
// adapter, snapshot or composition they are. E301 for a word that is no file, id or name; else what reading it gives.
Result<OutJson> InspectSubject(Session& session);

// As Session::Resolve, and "composition/NAME".
Result<Session::Named> ResolveComposition(Session& session, const std::string& what);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_SUBJECT_H_
