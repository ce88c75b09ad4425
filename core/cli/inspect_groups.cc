#include "core/cli/inspect_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace veneer::cli {
namespace {

constexpr std::size_t kMaxDigits = 9;  // fits std::uint32_t; a longer part is a name

struct Split {
  std::string before, after;  // "model.layers.", ".mlp.up_proj"; all in `before` without a layer
  std::optional<std::uint32_t> layer;
};

bool IsNumber(std::string_view part) {
  return !part.empty() && part.size() <= kMaxDigits && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; }) &&
         (part.size() == 1 || part.front() != '0');
}

Split SplitName(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (IsNumber(part)) {
      std::uint32_t layer = 0;
      std::from_chars(part.data(), part.data() + part.size(), layer);
      return {std::string(name.substr(0, begin)), std::string(name.substr(end)), layer};
    }
    begin = end + 1;
  }
  return {std::string(name), "", std::nullopt};
}

// "0-3,7" of ascending numbers.
std::string RangesText(const std::vector<std::uint32_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", layers[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? "," : "-", layers[last]);
    i = last + 1;
  }
  return text;
}

struct Building {
  Split split;  // of its first row
  std::vector<std::uint32_t> layers;
  std::size_t first = 0;          // its first row
  std::size_t first_of_name = 0;  // the first row with this name, whatever its cells
  LayerGroup group;
};

}  // namespace

std::vector<LayerGroup> GroupLayers(std::span<const LayerRow> rows) {
  std::vector<Building> found;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LayerRow& row = rows[i];
    Split split = SplitName(row.name);
    const auto is_same_name = [&split](const Building& one) {
      return one.split.before == split.before && one.split.after == split.after && one.split.layer && split.layer;
    };
    auto place = std::ranges::find_if(found, [&](const Building& one) { return is_same_name(one) && one.group.cells == row.cells; });
    if (place == found.end()) {
      const auto namesake = std::ranges::find_if(found, is_same_name);
      const std::size_t first_of_name = namesake == found.end() ? i : namesake->first_of_name;
      found.push_back({std::move(split), {}, i, first_of_name, {row.name, 0, row.cells, 0}});
      place = found.end() - 1;
      split = place->split;
    }
    if (split.layer) place->layers.push_back(*split.layer);
    ++place->group.count;
    place->group.bytes += row.bytes;
  }
  for (Building& one : found) {
    std::ranges::sort(one.layers);
    if (one.layers.size() > 1) one.group.name = fmt::format("{}{{{}}}{}", one.split.before, RangesText(one.layers), one.split.after);
  }
  std::ranges::sort(
      found, {}, [](const Building& one) { return std::tuple(one.first_of_name, one.layers.empty() ? 0 : one.layers.front(), one.first); });
  std::vector<LayerGroup> groups;
  for (Building& one : found) groups.push_back(std::move(one.group));
  return groups;
}

std::vector<std::string> GroupNames(std::span<const std::string> names) {
  std::vector<LayerRow> rows;
  for (const std::string& name : names) rows.push_back({name, {}, 0});
  std::vector<std::string> grouped;
  for (LayerGroup& group : GroupLayers(rows)) grouped.push_back(std::move(group.name));
  return grouped;
}

}  // namespace veneer::cli
