// bench: what the parts of the program cost on this machine.
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "core/bench/store_bench.h"
#include "core/cli/bench_activate.h"
#include "core/cli/bench_speed.h"
#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"

namespace veneer::cli {
namespace {

OutJson ToJson(const Quantiles& quantiles) { return {{"median_ms", quantiles.median_ms}, {"p99_ms", quantiles.p99_ms}}; }

OutJson ToJson(const SysCounts& counts) {
  return {{"calls", counts.calls},
          {"syncs", counts.syncs},
          {"bytes_read", counts.bytes_read},
          {"bytes_written", counts.bytes_written},
          {"blob_bytes_read", counts.blob_bytes_read}};
}

std::vector<std::string> Row(const std::string& what, const Quantiles& quantiles, const std::string& counts) {
  return {what, fmt::format("{:.2f} ms", quantiles.median_ms), fmt::format("{:.2f} ms", quantiles.p99_ms), counts};
}

std::string CountsText(const SysCounts& counts) {
  return fmt::format("{} calls, {} syncs, {} read, {} written, {} of blobs read", counts.calls, counts.syncs, ByteText(counts.bytes_read),
                     ByteText(counts.bytes_written), ByteText(counts.blob_bytes_read));
}

Result<int> RunStoreBench(Session& session) {
  const Options& options = session.options();
  StoreBenchOptions bench;
  bench.directory = options.directory ? options.directory->string() : std::filesystem::temp_directory_path().string();
  bench.runs = options.runs.value_or(bench.runs);
  bench.generations = options.count.value_or(bench.generations);
  VENEER_ASSIGN(const StoreBenchReport report, BenchStore(bench));
  if (options.json) {
    PrintJson({{"directory", bench.directory},
               {"runs", bench.runs},
               {"import_mib_per_s", report.import_mib_per_s},
               {"activation", ToJson(report.activation)},
               {"commit", ToJson(report.commit)},
               {"activation_counts", ToJson(report.activation_counts)},
               {"composition_bytes", report.composition_bytes},
               {"recovery", ToJson(report.recovery)},
               {"recovery_generations", bench.generations},
               {"recovery_counts", ToJson(report.recovery_counts)},
               {"gc_ms", report.gc_ms},
               {"gc_blobs", report.gc_blobs}});
    return 0;
  }
  Print(Table({{fmt::format("IN {}", bench.directory), "MEDIAN", "P99", "EACH"},
               Row("activation of verified files", report.activation, CountsText(report.activation_counts)),
               Row("  of it the commit", report.commit, "records, rename, log, view"),
               Row(fmt::format("recovery with {} generations", bench.generations), report.recovery, CountsText(report.recovery_counts)),
               {fmt::format("gc of {} blobs", report.gc_blobs), fmt::format("{:.2f} ms", report.gc_ms), "", ""},
               {"import", fmt::format("{:.0f} MiB/s", report.import_mib_per_s), "", ByteText(bench.base_bytes)}}));
  return 0;
}

struct Bench {
  std::string_view name;
  Result<int> (*run)(Session& session);
  bool has_plot = false;
};
constexpr std::array kBenches{Bench{"decode", RunDecodeBench},         Bench{"prefill", RunPrefillBench},
                              Bench{"kernels", RunKernelsBench, true}, Bench{"overlays", RunOverlaysBench, true},
                              Bench{"switch", RunSwitchBench},         Bench{"store", RunStoreBench},
                              Bench{"activate", RunActivateBench}};

Status CheckPlot(const Bench& bench, const Options& options) {
  if (!options.svg || bench.has_plot) return {};
  std::string names;
  for (const Bench& other : kBenches)
    if (other.has_plot) names += fmt::format("{}{}", names.empty() ? "" : ", ", other.name);
  return Fail(Code::USAGE, "--svg", fmt::format("'{}' has no plot; leave --svg out, or measure one of: {}", bench.name, names));
}

Result<int> RunBench(Session& session) {
  std::string names;
  for (const Bench& bench : kBenches) {
    if (session.word(0) == bench.name) {
      VENEER_TRY(CheckPlot(bench, session.options()));
      return bench.run(session);
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", bench.name);
  }
  return Fail(Code::USAGE, session.word(0), fmt::format("is nothing to measure; there is: {}", names));
}

}  // namespace

constinit const Command kBenchCommand{
    "bench",
    "bench decode|prefill|kernels|overlays|switch|activate|store [-n TOKENS] [--depth N] [--runs N] [--against PROGRAM] [--svg FILE] "
    "[options]",
    "measure what the program costs here",
    "decode, prefill: tokens/s of what is active, or of --base and --adapter, with read-only passes over the same weights between the "
    "series.\n"
    "With --against a program with llama-bench's options runs in turn, A B A B, over the file of --base.\n"
    "kernels: the products of each stored type over 256 MiB of rows, for one token and for many, in the instruction set in use.\n"
    "With --svg also as a plot: operations a second against operations for each byte of weights, under the read limit of the same run.\n"
    "overlays: each --adapter, and all of them together, against the base alone, token by token in turn: the ratio of speeds, its 95 % "
    "interval,\n"
    "and the share of bytes. With --svg also as a plot: the overhead against rank (against the share of bytes, where a kind has no rank), "
    "and what\n"
    "the bytes allow.\n"
    "switch: publishing the base with and without its adapters in turn while another thread decodes, and the next token where K/V is "
    "held.\n"
    "store: activation of verified files (the commit and the whole, system calls, syncs, bytes), recovery of a store with 1000 "
    "generations (-n),\n"
    "garbage collection and import, in a new store that is made in DIR (default: the folder for temporary files) and removed afterwards.\n"
    "activate: --base, with each --adapter, imported into such a store and activated: cold, when every file must be hashed (in memory, "
    "from the\n"
    "disk, and by one thread as without midstates), and warm, when none must; beside the SHA-256 of one thread and of all, and a pass that "
    "only "
    "reads.\n"
    "The store of --store is not touched.\n",
    1,
    1,
    RunBench};

}  // namespace veneer::cli
