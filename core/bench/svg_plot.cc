#include "core/bench/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>

#include "core/format/utf8.h"

namespace veneer {
namespace {

// Pixels.
constexpr double kWidth = 960, kHeight = 540;
constexpr double kLeft = 72, kRight = 700, kTop = 70, kBottom = 480;
constexpr double kFont = 12, kLabelFont = 10, kLine = 16, kGlyph = 0.6;  // a glyph's width is 0.6 of the font, about
// Told apart by colour-blind readers too, and dark enough for a light ground (Okabe and Ito).
constexpr std::array<std::string_view, 4> kColours{"#0072b2", "#d55e00", "#007a5a", "#555555"};

// Text and attribute values of XML 1.0. Control characters are no characters of XML, however they are written, and neither are bytes
// that are not UTF-8, which names of files may hold.
std::string Escaped(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const Utf8Step step = StepUtf8(text);
    const std::string_view character = text.substr(0, step.size);
    text.remove_prefix(step.size);
    if (step.kind != Utf8Step::Kind::kValid)
      safe += '?';
    else if (character == "&")
      safe += "&amp;";
    else if (character == "<")
      safe += "&lt;";
    else if (character == ">")
      safe += "&gt;";
    else if (character == "\"")
      safe += "&quot;";
    else
      safe += static_cast<unsigned char>(character[0]) < 0x20 ? " " : character;
  }
  return safe;
}

std::string Text(double x, double y, std::string_view anchor, double size, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y, anchor, size, Escaped(text));
}

std::string Segment(double x1, double y1, double x2, double y2, std::string_view colour) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2, colour);
}

// From values to pixels, along one axis.
class Mapping {
 public:
  Mapping(PlotScale scale, double low, double high, double from, double to) : scale_(scale), from_(from), to_(to) {
    if (scale == PlotScale::kLog) {
      low_ = std::floor(std::log2(low));
      high_ = std::max(std::ceil(std::log2(high)), low_ + 1);
      step_ = std::max(1.0, std::ceil((high_ - low_) / 12));
      return;
    }
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
    if (low == high) high = 1;
    step_ = NiceStep((high - low) / 6);
    low_ = std::floor(low / step_) * step_;
    high_ = std::ceil(high / step_) * step_;
  }

  [[nodiscard]] double At(double value) const { return Place(scale_ == PlotScale::kLog ? std::log2(value) : value); }

  struct Tick {
    double at;  // pixels
    std::string text;
  };
  [[nodiscard]] std::vector<Tick> Ticks() const {
    std::vector<Tick> ticks;
    for (int i = 0; low_ + i * step_ <= high_ + step_ / 1000; ++i) {
      const double value = low_ + i * step_;
      const double shown = scale_ == PlotScale::kLog ? std::exp2(value) : std::abs(value) < step_ / 1000 ? 0 : value;
      ticks.push_back({Place(value), fmt::format("{:.6g}", shown)});
    }
    return ticks;
  }

 private:
  // 1, 2 or 5 times a power of ten, at least `least`.
  static double NiceStep(double least) {
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0})
      if (factor * power >= least) return factor * power;
    return 10 * power;
  }
  [[nodiscard]] double Place(double scaled) const { return from_ + (scaled - low_) / (high_ - low_) * (to_ - from_); }

  PlotScale scale_;
  double low_ = 0, high_ = 1, step_ = 1;  // logarithms to base 2 on a logarithmic axis
  double from_, to_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void Take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

Mapping XMapping(const Plot& plot) {
  Range range;
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& point : series.points) range.Take(point.x);
  return {plot.x.scale, range.low, range.high, kLeft, kRight};
}

Mapping YMapping(const Plot& plot) {
  Range range;
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& point : series.points)
      for (const double value : {point.y, point.low.value_or(point.y), point.high.value_or(point.y)}) range.Take(value);
  return {plot.y.scale, range.low, range.high, kBottom, kTop};
}

// Labels stand beside their points; one that would cover a point or another label goes up or down until there is room, tied to its point
// by a line.
class Labels {
 public:
  void Avoid(double x, double y) { boxes_.push_back({x - 4, y - kLabelFont / 2, 8}); }
  std::string Place(double x, double y, std::string_view text, std::string_view colour) {
    const double width = static_cast<double>(text.size()) * kLabelFont * kGlyph;
    const bool is_left = x + kGap + width > kRight;
    Box box{is_left ? x - kGap - width : x + kGap, y - kLabelFont / 2, width};
    for (int i = 1; i < 60 && Covers(box); ++i) box.top = y - kLabelFont / 2 + (i % 2 == 0 ? -1 : 1) * ((i + 1) / 2) * (kLabelFont + 1);
    boxes_.push_back(box);
    const double middle = box.top + kLabelFont / 2, edge = is_left ? x - kGap : x + kGap;
    const std::string tie = std::abs(middle - y) < 1 ? "" : Segment(x, y, is_left ? edge + 1 : edge - 1, middle, colour);
    return tie + Text(edge, box.top + kLabelFont * 0.85, is_left ? "end" : "start", kLabelFont, text);
  }

 private:
  static constexpr double kGap = 9;  // between a point's middle and its label
  struct Box {
    double left, top, width;
  };
  [[nodiscard]] bool Covers(const Box& box) const {
    return box.top < kTop || box.top + kLabelFont > kBottom || std::ranges::any_of(boxes_, [&box](const Box& other) {
             return box.left < other.left + other.width && other.left < box.left + box.width && std::abs(box.top - other.top) < kLabelFont;
           });
  }
  std::vector<Box> boxes_;
};

std::string Axes(const Plot& plot, const Mapping& x, const Mapping& y) {
  std::string svg;
  for (const Mapping::Tick& tick : x.Ticks())
    svg += Segment(tick.at, kTop, tick.at, kBottom, "#dddddd") + Text(tick.at, kBottom + kLine, "middle", kFont, tick.text);
  for (const Mapping::Tick& tick : y.Ticks())
    svg += Segment(kLeft, tick.at, kRight, tick.at, "#dddddd") + Text(kLeft - 6, tick.at + kFont / 3, "end", kFont, tick.text);
  svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#222222\"/>\n", kLeft, kTop, kRight - kLeft,
                     kBottom - kTop);
  svg += Text((kLeft + kRight) / 2, kBottom + 2.5 * kLine, "middle", kFont, plot.x.label);
  svg += fmt::format("<g transform=\"translate({} {}) rotate(-90)\">{}</g>\n", 18, (kTop + kBottom) / 2,
                     Text(0, 0, "middle", kFont, plot.y.label));
  return svg;
}

std::string LineOf(const PlotSeries& series, const Mapping& x, const Mapping& y, std::string_view colour) {
  std::string places;
  for (const PlotPoint& point : series.points)
    places += fmt::format("{}{:.2f},{:.2f}", places.empty() ? "" : " ", x.At(point.x), y.At(point.y));
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", places, colour);
}

std::string CircleOf(const PlotPoint& point, const Mapping& x, const Mapping& y, std::string_view colour) {
  const double at = x.At(point.x);
  std::string whisker, figures;
  if (point.low && point.high) {
    const double low = y.At(*point.low), high = y.At(*point.high);
    whisker = Segment(at, low, at, high, colour) + Segment(at - 4, low, at + 4, low, colour) + Segment(at - 4, high, at + 4, high, colour);
    figures = fmt::format(" data-low=\"{}\" data-high=\"{}\"", *point.low, *point.high);
  }
  return whisker + fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"4\" fill=\"{}\" data-x=\"{}\" data-y=\"{}\"{}/>\n", at,
                               y.At(point.y), colour, point.x, point.y, figures);
}

std::string Legend(const Plot& plot) {
  std::string svg;
  double y = kTop + kLine / 2;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    const bool is_line = plot.series[i].mark == PlotMark::kLine;
    svg += is_line ? fmt::format("<rect x=\"{}\" y=\"{}\" width=\"16\" height=\"2\" fill=\"{}\"/>\n", kRight + 12, y - 1, colour)
                   : fmt::format("<rect x=\"{}\" y=\"{}\" width=\"8\" height=\"8\" rx=\"4\" fill=\"{}\"/>\n", kRight + 16, y - 4, colour);
    std::string_view rest = plot.series[i].name;
    while (true) {
      svg += Text(kRight + 34, y + kFont / 3, "start", kFont, rest.substr(0, rest.find('\n')));
      y += kLine;
      if (rest.find('\n') == std::string_view::npos) break;
      rest.remove_prefix(rest.find('\n') + 1);
    }
    y += kLine / 2;
  }
  return svg;
}

}  // namespace

std::string SvgOf(const Plot& plot) {
  const Mapping x = XMapping(plot), y = YMapping(plot);
  std::string svg = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "fill=\"#222222\">\n<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight, Escaped(plot.title));
  svg += Text(kLeft, 28, "start", 16, plot.title) + Text(kLeft, 50, "start", kFont, plot.facts);
  svg += Axes(plot, x, y);
  std::string labels;  // above all marks
  Labels placed;
  for (const PlotSeries& series : plot.series)
    if (series.mark == PlotMark::kPoints)
      for (const PlotPoint& point : series.points) placed.Avoid(x.At(point.x), y.At(point.y));
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    const std::string_view colour = kColours[i % kColours.size()];
    if (series.mark == PlotMark::kLine) {
      svg += LineOf(series, x, y, colour);
      continue;
    }
    for (const PlotPoint& point : series.points) {
      svg += CircleOf(point, x, y, colour);
      if (!point.label.empty()) labels += placed.Place(x.At(point.x), y.At(point.y), point.label, colour);
    }
  }
  return svg + labels + Legend(plot) + "</svg>\n";
}

}  // namespace veneer
