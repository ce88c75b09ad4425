// bench activate: prints a table or JSON and returns the exit status.
#ifndef VENEER_CORE_CLI_BENCH_ACTIVATE_H_
#define VENEER_CORE_CLI_BENCH_ACTIVATE_H_

#include "core/base/error.h"
#include "core/cli/session.h"

namespace veneer::cli {

Result<int> RunActivateBench(Session& session);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_BENCH_ACTIVATE_H_
