#include "core/cli/bench_activate.h"

#include <fmt/format.h>

#include <filesystem>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bench/activate_bench.h"
#include "core/cli/bench_speed.h"
#include "core/cli/output.h"
#include "core/compose/path_source.h"

namespace veneer::cli {
namespace {

// The bytes of every file of a composition that was given by paths, and what holds them.
struct Contents {
  std::vector<AdapterFiles> adapters;
  std::vector<std::span<const std::byte>> all;
};

Result<Contents> ReadContents(const Base& base, const std::vector<std::string>& adapters) {
  const auto bytes_of = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  Contents contents;
  for (const BaseFile& file : base.files().files) contents.all.push_back(file.bytes.bytes());
  if (!base.files().list.empty()) contents.all.push_back(bytes_of(base.files().list));
  contents.all.push_back(bytes_of(base.tokenizer().bytes));
  for (const std::string& text : adapters) {
    VENEER_ASSIGN(const AdapterPath adapter, ParseAdapterPath(text));
    VENEER_ASSIGN(contents.adapters.emplace_back(), OpenAdapterFiles(adapter.path));
  }
  for (const AdapterFiles& files : contents.adapters) {
    contents.all.push_back(files.weights.bytes());
    if (files.config) contents.all.push_back(files.config->bytes());
  }
  return contents;
}

void PrintReport(const ActivateBenchOptions& bench, const ActivateBenchReport& report) {
  const auto row = [&](const std::string& what, const Interval& ms) -> std::vector<std::string> {
    return {what, fmt::format("{:.2f} ms", ms.median), fmt::format("{:.2f} .. {:.2f} ms", ms.low, ms.high),
            fmt::format("{:.2f}", static_cast<double>(report.bytes) / 1e6 / ms.median)};
  };
  const auto rate = [](const std::string& what, const Interval& gb_per_s) -> std::vector<std::string> {
    return {what, "", fmt::format("{:.2f} .. {:.2f} GB/s", gb_per_s.low, gb_per_s.high), fmt::format("{:.2f}", gb_per_s.median)};
  };
  const auto ratio = [](const std::string& what, const Interval& pairs) -> std::vector<std::string> {
    return {what, fmt::format("{:.2f}", pairs.median), fmt::format("{:.2f} .. {:.2f}", pairs.low, pairs.high)};
  };
  auto warm = row("warm activation", report.warm_ms);
  warm.pop_back();  // it hashes nothing
  Print(Table({{fmt::format("{} IN {}, {} THREADS", ByteText(report.bytes), bench.directory, bench.threads), "MEDIAN", "95 %", "GB/S"},
               row("cold activation, files in memory", report.cold_ms),
               row("  without midstates, as one thread hashes", report.unaided_ms),
               row("  from the disk", report.disk_ms),
               std::move(warm),
               row("control: the files read from the disk", report.read_ms),
               rate("control: SHA-256 of one thread", report.sha256_one),
               rate(fmt::format("control: SHA-256 of {} threads", bench.threads), report.sha256_all),
               ratio("cold activation against that of one, pairs", report.ratio_one),
               ratio("cold activation against that of all, pairs", report.ratio_all)}));
}

}  // namespace

Result<int> RunActivateBench(Session& session) {
  const Options& options = session.options();
  if (!options.base) return Fail(Code::USAGE, "--base", "is needed: the file or directory to import and activate");
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  ActivateBenchOptions bench;
  bench.directory = options.directory ? options.directory->string() : std::filesystem::temp_directory_path().string();
  bench.runs = options.runs.value_or(bench.runs);
  bench.threads = options.threads;
  bench.validate = [catalog](const Store& store, const OpenedComposition& files) -> Status {
    StoreSource source(store, &files);
    VENEER_TRY(ValidateComposition(files.composition, source, *catalog));
    return {};
  };
  VENEER_ASSIGN(const ValidatedComposition selected, session.Selected());
  VENEER_ASSIGN(const Contents contents, ReadContents(*selected.base(), options.adapters));
  VENEER_ASSIGN(const ActivateBenchReport report, BenchActivate(selected.composition().Canonical(), contents.all, bench));
  if (!options.json) {
    PrintReport(bench, report);
    return 0;
  }
  PrintJson({{"directory", bench.directory},
             {"runs", bench.runs},
             {"threads", bench.threads},
             {"bytes", report.bytes},
             {"cold_ms", ToJson(report.cold_ms)},
             {"cold_without_midstates_ms", ToJson(report.unaided_ms)},
             {"cold_from_disk_ms", ToJson(report.disk_ms)},
             {"warm_ms", ToJson(report.warm_ms)},
             {"read_from_disk_ms", ToJson(report.read_ms)},
             {"cold_gb_per_s", static_cast<double>(report.bytes) / 1e6 / report.cold_ms.median},
             {"sha256_one_gb_per_s", ToJson(report.sha256_one)},
             {"sha256_all_gb_per_s", ToJson(report.sha256_all)},
             {"cold_to_sha256_one", ToJson(report.ratio_one)},
             {"cold_to_sha256_all", ToJson(report.ratio_all)},
             {"cold_blob_bytes_read", report.cold_counts.blob_bytes_read},
             {"warm_blob_bytes_read", report.warm_counts.blob_bytes_read}});
  return 0;
}

}  // namespace veneer::cli
