#include "core/cli/bench_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/bench/statistics.h"

namespace veneer::cli {
namespace {

constexpr double kAllowance = 1.25;  // of the share of bytes, when decoding

double OverheadPercent(double ratio) { return 100 * (1 / ratio - 1); }

PlotPoint OverheadPoint(double x, const Interval& ratio, const std::string& label) {
  return {x, OverheadPercent(ratio.median), OverheadPercent(ratio.high), OverheadPercent(ratio.low), label};
}

}  // namespace

Result<std::optional<OutputFile>> OpenSvg(const std::optional<std::filesystem::path>& path) {
  if (!path) return std::nullopt;
  auto file = OutputFile::Create(*path);
  if (file) return std::move(*file);
  Error error = std::move(file).error();
  error.detail += "; nothing was measured: give --svg a file in a folder that exists and that you may write to";
  return Fail(std::move(error));
}

Status WriteSvg(std::optional<OutputFile>& file, const Plot& plot) {
  if (!file) return {};
  const std::string svg = SvgOf(plot);
  VENEER_TRY(file->Write(std::as_bytes(std::span(svg))));
  return file->Finish();
}

Plot OverheadPlot(const std::vector<OverlayFigures>& stacks, const std::string& facts) {
  const bool by_rank = std::ranges::all_of(stacks, [](const OverlayFigures& stack) { return stack.rank.has_value(); });
  PlotSeries decode{"decode, 95 % interval", PlotMark::kPoints, {}}, prefill{"prefill, 95 % interval", PlotMark::kPoints, {}};
  PlotSeries allowed{fmt::format("allowed when decoding:\n{} x overlay bytes\n/ base bytes", kAllowance), PlotMark::kLine, {{}}};
  for (const OverlayFigures& stack : stacks) {
    const double share = 100 * stack.report.byte_ratio();
    const double x = by_rank ? static_cast<double>(*stack.rank) : share;
    decode.points.push_back(OverheadPoint(x, stack.report.decode_ratio, stack.label));
    prefill.points.push_back(OverheadPoint(x, stack.report.prefill_ratio, ""));
    allowed.points.push_back({x, kAllowance * share, {}, {}, ""});
  }
  std::ranges::sort(allowed.points, {}, [](const PlotPoint& point) { return std::pair(point.x, point.y); });
  return {"Overhead of overlays",
          facts,
          {by_rank ? "rank (of several adapters the sum)" : "overlay bytes, % of the base's bytes for each token", PlotScale::kLinear},
          {"overhead, % of the base's time", PlotScale::kLinear},
          {std::move(decode), std::move(prefill), std::move(allowed)}};
}

Plot RooflinePlot(const std::vector<KernelResult>& kernels, std::uint32_t tokens, const std::string& facts) {
  PlotSeries one{"one token", PlotMark::kPoints, {}}, many{fmt::format("{} tokens", tokens), PlotMark::kPoints, {}};
  std::vector<double> controls;
  double least = 0, most = 0;  // operations a byte
  for (const KernelResult& kernel : kernels) {
    const double of_one = 2 / kernel.bytes_per_weight, of_many = tokens * of_one;
    one.points.push_back({of_one, kernel.gb_per_s * of_one, {}, {}, kernel.type});
    many.points.push_back({of_many, kernel.gop_per_s, {}, {}, kernel.type});
    controls.push_back(kernel.control_gb_per_s);
    least = least == 0 ? of_one : std::min(least, of_one);
    most = std::max(most, kernel.gop_per_s);
  }
  const double limit = MedianOf(std::move(controls));
  // From the first type to where the limit is above all that was reached: further it says nothing.
  const double end = std::max(2 * least, most / limit);
  PlotSeries roof{fmt::format("read limit of this run, median:\n{:.1f} GB/s\n(the limit of arithmetic\nis not measured)", limit),
                  PlotMark::kLine,
                  {{least, limit * least, {}, {}, ""}, {end, limit * end, {}, {}, ""}}};
  return {"Speed of the products against the read limit",
          facts,
          {"operations for each byte of weights", PlotScale::kLog},
          {"10^9 operations / s", PlotScale::kLog},
          {std::move(one), std::move(many), std::move(roof)}};
}

}  // namespace veneer::cli
