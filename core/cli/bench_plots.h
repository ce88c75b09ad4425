// What the benches' figures look like as plots (`--svg`).
#ifndef VENEER_CORE_CLI_BENCH_PLOTS_H_
#define VENEER_CORE_CLI_BENCH_PLOTS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/bench/decode_bench.h"
#include "core/bench/kernel_bench.h"
#include "core/bench/svg_plot.h"

namespace veneer::cli {

// The file of --svg, opened before anything is measured; nothing without the option. E603 and kin with the remedy.
Result<std::optional<OutputFile>> OpenSvg(const std::optional<std::filesystem::path>& path);
// Writes and finishes it, when there is one.
Status WriteSvg(std::optional<OutputFile>& file, const Plot& plot);

struct OverlayFigures {
  std::string label;
  std::optional<std::uint64_t> rank;  // of a stack the sum; nothing when one of its adapters has none
  OverlayReport report;
};
// Overhead (1 / ratio of speeds - 1, percent) against rank, and what the bytes allow when decoding: 1.25 times the share of bytes. Where
// one of the stacks has no rank, against that share.
Plot OverheadPlot(const std::vector<OverlayFigures>& stacks, const std::string& facts);

// The kernels' speed against operations for each byte of weights, under the read limit: the median of the control passes. A limit of
// arithmetic is not measured and not drawn.
Plot RooflinePlot(const std::vector<KernelResult>& kernels, std::uint32_t tokens, const std::string& facts);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_BENCH_PLOTS_H_
