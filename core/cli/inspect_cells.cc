#include "core/cli/inspect_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace veneer::cli {
namespace {

constexpr std::size_t kMaxValue = 120;  // bytes of one value; a regular expression over modules fits, a list of tokens does not

// Cut between code points.
std::string Shortened(std::string text) {
  if (text.size() <= kMaxValue) return text;
  std::size_t end = kMaxValue;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return fmt::format("{}… ({} bytes)", text.substr(0, end), text.size());
}

std::string DumpText(const OutJson& value) { return value.dump(-1, ' ', false, OutJson::error_handler_t::replace); }

std::string DTypeText(const OutJson& tensor) {
  const std::string dtype = tensor.at("dtype");
  if (!tensor.contains("held_as")) return dtype;
  return fmt::format("{} (as {})", dtype, tensor.at("held_as").at("dtype").get<std::string>());
}

}  // namespace

std::string CellText(const OutJson& value) {
  if (value.is_null()) return "-";
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return Printable(Shortened(value.is_string() ? value.get<std::string>() : DumpText(value)));
}

std::string MembersText(const OutJson& object) {
  std::string text;
  for (const auto& [name, value] : object.items())
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", Printable(name), Printable(Shortened(DumpText(value))));
  return text;
}

std::string ShapeCell(const OutJson& shape) {
  std::string text;
  for (const OutJson& extent : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", extent.get<std::uint64_t>());
  return fmt::format("[{}]", text);
}

std::string SizeCell(const OutJson& bytes) { return ByteText(bytes.get<std::uint64_t>()); }

std::string DTypesCell(const OutJson& tensors) {
  std::string text;
  bool is_one = true;
  for (const OutJson& tensor : tensors) {
    is_one = is_one && DTypeText(tensor) == DTypeText(tensors[0]);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Printable(tensor.at("role").get<std::string>()), DTypeText(tensor));
  }
  return is_one && !tensors.empty() ? DTypeText(tensors[0]) : text;
}

std::string NotesText(const OutJson& notes) {
  std::string text;
  for (const OutJson& note : notes) text += fmt::format("note: {}\n", Printable(note.get<std::string>()));
  return text;
}

Rows GroupRows(std::vector<std::string> heading, const std::vector<LayerRow>& rows) {
  Rows table{std::move(heading)};
  LayerGroup sum{"in all", 0, {}, 0};
  for (LayerGroup& group : GroupLayers(rows)) {
    auto& line = table.emplace_back(std::vector<std::string>{Printable(group.name), fmt::format("{}", group.count)});
    std::ranges::move(group.cells, std::back_inserter(line));
    line.push_back(ByteText(group.bytes));
    sum.count += group.count;
    sum.bytes += group.bytes;
  }
  if (table.size() <= 2) return table;
  auto& line = table.emplace_back(std::vector<std::string>(table.front().size()));
  line.front() = sum.name;
  line[1] = fmt::format("{}", sum.count);
  line.back() = ByteText(sum.bytes);
  return table;
}

}  // namespace veneer::cli
