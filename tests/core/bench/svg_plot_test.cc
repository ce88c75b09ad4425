#include "core/bench/svg_plot.h"

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace veneer;

namespace {

// The values of an attribute of every element of that name, in order.
std::vector<std::string> Values(const std::string& svg, const std::string& element, const std::string& attribute) {
  const std::regex pattern("<" + element + "[^>]* " + attribute + "=\"([^\"]*)\"");
  std::vector<std::string> values;
  for (std::sregex_iterator i(svg.begin(), svg.end(), pattern), end; i != end; ++i) values.push_back((*i)[1]);
  return values;
}
std::vector<double> Numbers(const std::string& svg, const std::string& element, const std::string& attribute) {
  std::vector<double> numbers;
  for (const std::string& value : Values(svg, element, attribute)) numbers.push_back(std::stod(value));
  return numbers;
}

// Every element is closed in order, nothing but the five named characters stands behind "&", and no "<" stands in a value.
bool IsWellFormed(const std::string& xml) {
  const std::regex token(R"re(<\?xml [^<>]*\?>|<(/?)([a-z]+)((?: [A-Za-z0-9-]+="[^"<]*")*)(/?)>|[^<]+)re");
  std::vector<std::string> open;
  std::size_t at = 0;
  for (std::smatch match; at < xml.size(); at += static_cast<std::size_t>(match.length())) {
    if (!std::regex_search(xml.begin() + static_cast<std::ptrdiff_t>(at), xml.end(), match, token, std::regex_constants::match_continuous))
      return false;
    if (!match[2].matched) continue;
    if (match[1].length() == 0 && match[4].length() == 0) open.push_back(match[2]);
    if (match[1].length() == 0) continue;
    if (open.empty() || open.back() != match[2]) return false;
    open.pop_back();
  }
  return open.empty() && !std::regex_search(xml, std::regex("&(?!(amp|lt|gt|quot|apos);)"));
}

Plot TwoPoints(PlotScale scale, double first, double second) {
  return {"title",
          "facts",
          {"x", scale},
          {"y", scale},
          {{"series", PlotMark::kPoints, {{first, first, {}, {}, ""}, {second, second, {}, {}, ""}}}}};
}

}  // namespace

TEST_CASE("svg plot: on a linear axis from 0, ranks 8 and 64 lie in the ratio of 1 to 8 from the frame's corner") {
  const std::string svg = SvgOf(TwoPoints(PlotScale::kLinear, 8, 64));
  // The frame is the rectangle that is not filled.
  std::smatch frame;
  REQUIRE(std::regex_search(svg, frame, std::regex(R"re(<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" fill="none")re")));
  const double left = std::stod(frame[1]), bottom = std::stod(frame[2]) + std::stod(frame[4]);
  const auto x = Numbers(svg, "circle", "cx"), y = Numbers(svg, "circle", "cy");
  REQUIRE(x.size() == 2);
  CHECK((x[1] - left) / (x[0] - left) == Approx(8).epsilon(1e-3));
  CHECK((bottom - y[1]) / (bottom - y[0]) == Approx(8).epsilon(1e-3));
  CHECK(x[1] <= left + std::stod(frame[3]));
  CHECK(y[1] >= std::stod(frame[2]));
}

TEST_CASE("svg plot: on a logarithmic axis from 8 to 64, 16 lies at a third, and the ends on the frame") {
  Plot plot = TwoPoints(PlotScale::kLog, 8, 64);
  plot.series[0].points.push_back({16, 16, {}, {}, ""});
  const std::string svg = SvgOf(plot);
  std::smatch frame;
  REQUIRE(std::regex_search(svg, frame, std::regex(R"re(<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" fill="none")re")));
  const double left = std::stod(frame[1]), top = std::stod(frame[2]), width = std::stod(frame[3]), height = std::stod(frame[4]);
  const auto x = Numbers(svg, "circle", "cx"), y = Numbers(svg, "circle", "cy");
  REQUIRE(x.size() == 3);
  CHECK(x[0] == Approx(left).margin(0.01));
  CHECK(x[1] == Approx(left + width).margin(0.01));
  CHECK(x[2] == Approx(left + width / 3).margin(0.01));
  CHECK(y[0] == Approx(top + height).margin(0.01));
  CHECK(y[1] == Approx(top).margin(0.01));
  CHECK(y[2] == Approx(top + 2 * height / 3).margin(0.01));
}

TEST_CASE("svg plot: a whisker spans its interval, values below zero have room, and a point keeps its figures as they came") {
  const Plot plot{"t", "f", {"x"}, {"y"}, {{"s", PlotMark::kPoints, {{16, 0.1, -3.25, 7.5, "p"}}}}};
  const std::string svg = SvgOf(plot);
  CHECK(Values(svg, "circle", "data-x") == std::vector<std::string>{"16"});
  CHECK(Values(svg, "circle", "data-y") == std::vector<std::string>{"0.1"});
  CHECK(Values(svg, "circle", "data-low") == std::vector<std::string>{"-3.25"});
  CHECK(Values(svg, "circle", "data-high") == std::vector<std::string>{"7.5"});
  // From -3.25 to 7.5 on an axis with 2 between ticks, -4 to 8: the whisker is 10.75 twelfths of the frame.
  std::smatch frame;
  REQUIRE(std::regex_search(svg, frame, std::regex(R"re(<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" fill="none")re")));
  const std::string x = Values(svg, "circle", "cx").front();
  const std::string at = x.substr(0, x.size() - 1);  // one digit less in lines
  const std::regex whisker("<line x1=\"" + at + "\" y1=\"([0-9.]+)\" x2=\"" + at + "\" y2=\"([0-9.]+)\" stroke=\"#0072b2\"");
  std::smatch found;
  REQUIRE(std::regex_search(svg, found, whisker));
  CHECK(std::stod(found[1]) - std::stod(found[2]) == Approx(std::stod(frame[4]) * 10.75 / 12).margin(0.2));
}

TEST_CASE("svg plot: markup, quotes, control characters and broken UTF-8 in texts leave the file well-formed") {
  Plot plot = TwoPoints(PlotScale::kLinear, 1, 2);
  plot.title = "a<b>&\"c\"\x01\xff";
  plot.facts = "</svg>";
  plot.x.label = "&amp;";
  plot.series[0].name = "two <lines>\n& more";
  plot.series[0].points[0].label = "<script>";
  plot.series.push_back({"line", PlotMark::kLine, {{0, 0, {}, {}, ""}, {2, 1, {}, {}, ""}}});
  const std::string svg = SvgOf(plot);
  CHECK(IsWellFormed(svg));
  CHECK(svg.find("a&lt;b&gt;&amp;&quot;c&quot; ?") != std::string::npos);
  CHECK(svg.find(">&amp;amp;<") != std::string::npos);
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(Values(svg, "polyline", "points").size() == 1);
  CHECK_FALSE(IsWellFormed(svg + "<g>"));
  CHECK_FALSE(IsWellFormed("<g>a & b</g>"));
}

TEST_CASE("svg plot: labels of points that lie on each other do not cover each other") {
  Plot plot = TwoPoints(PlotScale::kLinear, 5, 5);
  for (PlotPoint& point : plot.series[0].points) point.label = "same";
  const std::string svg = SvgOf(plot);
  const std::regex label("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\"[^>]*>same<");
  std::vector<double> y;
  for (std::sregex_iterator i(svg.begin(), svg.end(), label), end; i != end; ++i) y.push_back(std::stod((*i)[2]));
  REQUIRE(y.size() == 2);
  CHECK(std::abs(y[1] - y[0]) >= 10);
}

TEST_CASE("svg plot: a label does not cover the point beside it") {
  Plot plot = TwoPoints(PlotScale::kLinear, 100, 110);  // 16 pixels apart, less than a label is long
  plot.series[0].points[1].y = 100;
  plot.series[0].points.push_back({400, 400, {}, {}, ""});
  plot.series[0].points[0].label = "first";
  const std::string svg = SvgOf(plot);
  std::smatch label;
  REQUIRE(std::regex_search(svg, label, std::regex("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\"[^>]*>first<")));
  const double baseline = std::stod(label[2]), point = Numbers(svg, "circle", "cy")[1];
  CHECK((baseline < point - 4 || baseline - 10 > point));
}
