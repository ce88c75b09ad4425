#include "core/cli/bench_plots.h"

#include "tests/support/catch.h"

namespace veneer::cli {
namespace {

OverlayReport Report(std::uint64_t overlay_bytes, double ratio) {
  return {overlay_bytes, 1000, {ratio, ratio - 0.1, ratio + 0.1}, {ratio, ratio, ratio}};
}

TEST_CASE("bench plots: half the speed is an overhead of 100 percent, and decoding may cost 1.25 times the share of bytes") {
  const Plot plot = OverheadPlot({{"b", 16, Report(80, 0.5)}, {"a", 8, Report(40, 0.8)}}, "facts");
  REQUIRE(plot.series.size() == 3);
  const auto& decode = plot.series[0].points;
  CHECK(decode[0].x == 16);
  CHECK(decode[0].y == Approx(100));
  CHECK(*decode[0].low == Approx(100 / 0.6 - 100));
  CHECK(*decode[0].high == Approx(150));
  CHECK(decode[1].y == Approx(25));
  const auto& allowed = plot.series[2].points;  // from nothing, in the order of ranks
  REQUIRE(allowed.size() == 3);
  CHECK(allowed[0].x == 0);
  CHECK(allowed[0].y == 0);
  CHECK(allowed[1].x == 8);
  CHECK(allowed[1].y == Approx(5));
  CHECK(allowed[2].x == 16);
  CHECK(allowed[2].y == Approx(10));
}

TEST_CASE("bench plots: one stack without a rank puts all of them on the axis of bytes, which says so") {
  const Plot plot = OverheadPlot({{"a", 8, Report(40, 0.8)}, {"b", std::nullopt, Report(2, 1)}}, "facts");
  CHECK(plot.series[0].points[0].x == Approx(4));
  CHECK(plot.series[1].points[1].x == Approx(0.2));
  CHECK(plot.x.label.find("bytes") != std::string::npos);
  CHECK(plot.x.label.find("rank") == std::string::npos);
}

TEST_CASE(
    "bench plots: a type of half a byte does 4 operations a byte for one token, and 1024 for 256; the roof is the median read limit") {
  const Plot plot = RooflinePlot({{"t", true, 0.5, 10, 20, 300}, {"u", false, 4, 18, 24, 50}, {"v", false, 2, 18, 22, 60}}, 256, "facts");
  REQUIRE(plot.series.size() == 3);
  CHECK(plot.series[0].points[0].x == 4);
  CHECK(plot.series[0].points[0].y == 40);
  CHECK(plot.series[1].points[0].x == 1024);
  CHECK(plot.series[1].points[0].y == 300);
  CHECK(plot.series[0].points[1].x == 0.5);
  CHECK(plot.series[0].points[1].label == "u");
  for (const PlotPoint& point : plot.series[2].points) CHECK(point.y == Approx(22 * point.x));
  CHECK(plot.series[2].points.front().x == 0.5);
  CHECK(plot.series[2].points.back().y >= 300);
  CHECK(plot.series[2].name.find("22.0 GB/s") != std::string::npos);
}

}  // namespace
}  // namespace veneer::cli
