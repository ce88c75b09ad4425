// The benches that decode: each prints a table or JSON and returns the exit status.
#ifndef VENEER_CORE_CLI_BENCH_SPEED_H_
#define VENEER_CORE_CLI_BENCH_SPEED_H_

#include "core/base/error.h"
#include "core/bench/statistics.h"
#include "core/cli/output.h"
#include "core/cli/session.h"

namespace veneer::cli {

OutJson ToJson(const Interval& interval);  // {"median", "low", "high"}

Result<int> RunDecodeBench(Session& session);
Result<int> RunPrefillBench(Session& session);
Result<int> RunKernelsBench(Session& session);
Result<int> RunOverlaysBench(Session& session);
Result<int> RunSwitchBench(Session& session);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_BENCH_SPEED_H_
