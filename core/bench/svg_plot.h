// A plot of measurements as one SVG file: axes, ticks, series, a legend. Written by hand, because the plotting libraries that Debian
// packages for C++ draw through a toolkit or call an interpreter, and what is drawn here is circles, lines and text.
// The file is plain XML that needs nothing else: no script, no style sheet, no font of its own. It paints its own light ground, and is
// thus as readable on a dark page as on a light one.
#ifndef VENEER_CORE_BENCH_SVG_PLOT_H_
#define VENEER_CORE_BENCH_SVG_PLOT_H_

#include <optional>
#include <string>
#include <vector>

namespace veneer {

struct PlotPoint {
  double x = 0, y = 0;
  std::optional<double> low, high;  // of y: drawn as a whisker when both are there
  std::string label;                // beside the point; none when empty
};

enum class PlotMark { kPoints, kLine };
struct PlotSeries {
  std::string name;  // in the legend; may have several lines
  PlotMark mark = PlotMark::kPoints;
  std::vector<PlotPoint> points;  // a line goes through them in this order
};

// A linear axis holds 0, because what is plotted on it grows from there. A logarithmic one ends on powers of two; its values are above 0.
enum class PlotScale { kLinear, kLog };
struct PlotAxis {
  std::string label;
  PlotScale scale = PlotScale::kLinear;
};

struct Plot {
  std::string title;
  std::string facts;  // a second, smaller line: what was measured, with what
  PlotAxis x, y;
  std::vector<PlotSeries> series;
};

// Every value is finite. A point is a <circle> with its figures in data-x and data-y (and data-low, data-high), as they came, so that
// other programs read them back; a line is a <polyline>.
std::string SvgOf(const Plot& plot);

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_SVG_PLOT_H_
