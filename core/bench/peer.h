// Another engine's benchmark program, run beside ours. It must take llama-bench's options and print its JSON.
#ifndef VENEER_CORE_BENCH_PEER_H_
#define VENEER_CORE_BENCH_PEER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/bench/decode_bench.h"

namespace veneer {

struct PeerRun {
  std::filesystem::path program, model;
  Series series;
  std::uint32_t threads = 1;
};
// One run of the program: tokens/s. E603 when it cannot be run, E901 naming it when it fails or prints something else.
Result<double> PeerTokensPerS(const PeerRun& run);
// `avg_ts` of the first object in llama-bench's `-o json` output. E901.
Result<double> ParsePeerOutput(const std::string& text, const std::string& program);

struct PairedReport {
  Interval ours, theirs, ratio;  // tokens/s, and ours by theirs of each pair
};
// A B A B: `ours` and the program in turn.
Result<PairedReport> BenchAgainst(const PeerRun& run, const std::function<Result<double>()>& ours, std::uint64_t runs);

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_PEER_H_
