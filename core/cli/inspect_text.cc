#include "core/cli/inspect_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cli/inspect_cells.h"

namespace veneer::cli {
namespace {

std::string FileText(const OutJson& facts, const std::string& prefix) {
  return fmt::format("{} ({})", facts.at(prefix + "_hash").get<std::string>(), SizeCell(facts.at(prefix + "_size")));
}

// The members of the configuration that count: no empty ones, and none that the kind ignores.
OutJson Telling(const OutJson& facts, const std::string& part) {
  OutJson telling = OutJson::object();
  if (!facts.contains(part)) return telling;
  for (const auto& [name, value] : facts.at(part).items()) {
    const bool is_inert = value.is_null() || value == false || (!value.is_primitive() && value.empty()) || value == "";
    if (!is_inert && !facts.at("ignored_keys").contains(name)) telling[name] = value;
  }
  return telling;
}

// 0: of a kind without ranks.
std::string RankCell(const OutJson& rank) { return rank == 0 ? "-" : CellText(rank); }

std::string SitesTable(const OutJson& sites) {
  std::vector<LayerRow> rows;
  for (const OutJson& site : sites)
    rows.push_back({site.at("site"),
                    {ShapeCell(site.at("shape")), RankCell(site.at("rank")), CellText(site.at("scale")), DTypesCell(site.at("tensors"))},
                    site.at("bytes")});
  return rows.empty() ? "" : "\n" + Table(GroupRows({"SITE", "SITES", "SHAPE", "RANK", "SCALE", "TYPES", "BYTES"}, rows));
}

std::string TensorsTable(const OutJson& tensors) {
  std::vector<LayerRow> rows;
  for (const OutJson& tensor : tensors)
    rows.push_back({tensor.at("tensor"), {ShapeCell(tensor.at("shape")), tensor.at("dtype")}, tensor.at("bytes")});
  return rows.empty() ? "" : "\n" + Table(GroupRows({"TENSOR", "TENSORS", "SHAPE", "TYPE", "BYTES"}, rows));
}

std::string RowsText(const OutJson& by, const OutJson& site) {
  return by.at("whole").get<bool>() ? "all"
                                    : fmt::format("{} of {}", by.at("rows").get<std::uint64_t>(), site.at("shape")[0].get<std::uint64_t>());
}

std::string ReplacementsTable(const OutJson& replacements) {
  std::vector<LayerRow> rows;
  for (const OutJson& one : replacements) {
    const OutJson& by = one.at("by");
    rows.push_back({one.at("site"), {ShapeCell(one.at("shape")), RowsText(by, one), by.at("dtype")}, by.at("bytes")});
  }
  return rows.empty() ? "" : "\n" + Table(GroupRows({"REPLACES", "SITES", "SHAPE", "ROWS", "TYPE", "BYTES"}, rows));
}

std::string IgnoredTable(const OutJson& ignored) {
  std::vector<LayerRow> rows;
  for (const OutJson& one : ignored) rows.push_back({one.at("tensor"), {CellText(one.at("why"))}, one.at("bytes")});
  return rows.empty() ? "" : "\n" + Table(GroupRows({"IGNORED", "TENSORS", "WHY", "BYTES"}, rows));
}

// One line for each member of the stack, the site on the first.
std::string StacksTable(const OutJson& sites) {
  constexpr std::size_t kCells = 7;  // of one member
  std::vector<LayerRow> rows;
  for (const OutJson& site : sites) {
    LayerRow row{site.at("site"), {ShapeCell(site.at("shape")), site.at("dtype")}, 0};
    for (const OutJson& member : site.at("stack")) {
      const bool replaces = member.contains("replaces");
      const auto edit = [&](const char* name) { return replaces ? std::string("-") : CellText(member.at(name)); };
      const std::string effect = replaces ? fmt::format("replaces {} {}", RowsText(member.at("replaces"), site),
                                                        member.at("replaces").at("dtype").get<std::string>())
                                          : fmt::format("edits {}", DTypesCell(member.at("tensors")));
      const std::vector<std::string> cells{fmt::format("{}", member.at("load_order").get<std::uint64_t>() + 1),
                                           member.at("adapter").get<std::string>(),
                                           effect,
                                           replaces ? "-" : RankCell(member.at("rank")),
                                           CellText(member.at("strength")),
                                           edit("scale"),
                                           edit("effective_scale")};
      row.cells.insert(row.cells.end(), cells.begin(), cells.end());
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  Rows table{{"SITE", "SITES", "SHAPE", "BASE", "ORDER", "ADAPTER", "EFFECT", "RANK", "STRENGTH", "SCALE", "EFFECTIVE"}};
  for (const LayerGroup& group : GroupLayers(rows)) {
    std::vector<std::string> head{group.name, fmt::format("{}", group.count), group.cells[0], group.cells[1]};
    for (auto cell = group.cells.begin() + 2; cell != group.cells.end(); cell += kCells) {
      auto& line = table.emplace_back(std::exchange(head, std::vector<std::string>(head.size())));
      line.insert(line.end(), cell, cell + kCells);
    }
  }
  return "\n" + Table(table);
}

std::string EntryText(const OutJson& entry) {
  return fmt::format("{} ({}) strength {}", entry.at("name").get<std::string>(), entry.at("kind").get<std::string>(),
                     entry.at("strength").get<std::string>());
}

std::string SitesText(std::size_t n) { return fmt::format("{} {}", n, n == 1 ? "site" : "sites"); }

std::string TargetsText(const OutJson& targets) {
  const std::vector<std::string> names = targets;
  return fmt::format("{}: {}", SitesText(names.size()), fmt::join(GroupNames(names), ", "));
}

std::string JoinText(const OutJson& names) { return fmt::format("{}", fmt::join(names.get<std::vector<std::string>>(), ", ")); }

}  // namespace

std::string FactsText(const OutJson& facts) {
  const std::string what = facts.at("what");
  if (what == "base") return BaseText(facts);
  if (what == "adapter") return AdapterText(facts);
  if (what == "composition") return CompositionText(facts);
  if (what == "diff") return DiffText(facts);
  std::string text;  // a snapshot: its parts
  for (const char* part : {"residual", "active"})
    if (const OutJson& one = facts.at(part); !one.is_null())
      text += fmt::format("{}{}:\n{}", text.empty() ? "" : "\n", part, AdapterText(one));
  return text;
}

std::string BaseText(const OutJson& facts) {
  Rows rows;
  for (const auto& [name, value] : facts.items()) {
    if (name == "file_size") continue;
    if (name == "file_hash") {
      rows.push_back({"file", FileText(facts, "file")});
    } else if (value.is_object()) {
      rows.push_back({name, MembersText(value)});
    } else if (!value.is_array()) {
      rows.push_back({name, CellText(value)});
    }
  }
  Rows types{{"TYPE", "SITES", "BYTES"}};
  for (const OutJson& one : facts.at("types")) types.push_back({one.at("dtype"), CellText(one.at("sites")), SizeCell(one.at("bytes"))});
  std::vector<LayerRow> sites;
  for (const OutJson& site : facts.at("sites"))
    sites.push_back({site.at("site"), {site.at("class"), ShapeCell(site.at("shape")), site.at("dtype")}, site.at("bytes")});
  Rows table = GroupRows({"SITE", "SITES", "CLASS", "SHAPE", "TYPE", "BYTES"}, sites);
  if (table.size() > 2) table.pop_back();  // a sum would count twice what tied sites share; the types above do not
  return fmt::format("{}\n{}\n{}", Table(rows), Table(types), Table(table));
}

std::string AdapterText(const OutJson& facts) {
  const bool is_placed = facts.contains("sites");
  Rows rows{{"what", "adapter"}, {"kind", CellText(facts.at("kind"))}};
  if (facts.contains("refused")) rows.push_back({"refused", Printable(facts.at("refused").get<std::string>())});
  rows.push_back({"format", facts.at("format")});
  rows.push_back({"file", FileText(facts, "file")});
  if (facts.contains("config_hash")) rows.push_back({"config", FileText(facts, "config")});
  if (facts.contains("params") && !facts.at("params").empty()) rows.push_back({"params", MembersText(facts.at("params"))});
  if (facts.contains("base")) rows.push_back({"base", CellText(facts.at("base"))});
  if (is_placed) {
    rows.push_back({"rank", RankCell(facts.at("rank"))});
    rows.push_back({"edits", SitesText(facts.at("sites").size())});
    if (!facts.at("replacements").empty()) rows.push_back({"replaces", SitesText(facts.at("replacements").size())});
  }
  rows.push_back({"holds", fmt::format("{} elements, {}", facts.at("elements").get<std::uint64_t>(), SizeCell(facts.at("tensor_bytes")))});
  for (std::string label : {"configuration", "metadata"}) {
    const OutJson telling = Telling(facts, label);
    for (const auto& [name, value] : telling.items())
      rows.push_back({std::exchange(label, ""), fmt::format("{} = {}", Printable(name), CellText(value))});
  }
  if (!facts.at("ignored_keys").empty())
    rows.push_back({"ignored", MembersText(facts.at("ignored_keys")) + " (the kind computes nothing from these)"});
  std::string text = Table(rows);
  if (is_placed) {
    text += SitesTable(facts.at("sites")) + ReplacementsTable(facts.at("replacements")) + TensorsTable(facts.at("shared")) +
            IgnoredTable(facts.at("ignored"));
  } else {
    text += TensorsTable(facts.at("tensors"));
  }
  const std::string notes = NotesText(facts.at("notes"));
  return notes.empty() ? text : text + "\n" + notes;
}

std::string CompositionText(const OutJson& facts) {
  const auto with_hash = [](const OutJson& part, const char* name) {
    return fmt::format("{} {} ({})", part.at("hash").get<std::string>(), CellText(part.at(name)), SizeCell(part.at("size")));
  };
  Rows rows{{"what", "composition"},
            {"composition", facts.at("composition")},
            {"base", with_hash(facts.at("base"), "format")},
            {"tokenizer", with_hash(facts.at("tokenizer"), "id")},
            {"quantization", MembersText(facts.at("quantization"))},
            {"runtime", MembersText(facts.at("runtime"))},
            {"tied_weights", facts.at("tied_weights")}};
  std::string text = Table(rows);
  if (facts.at("adapters").empty()) return text + "\nno adapters: the base alone\n";
  Rows adapters{{"ORDER", "ADAPTER", "KIND", "STRENGTH", "RANK", "SPARSITY", "SITES", "FORMAT", "SIZE", "FILE", "CONFIG"}};
  for (const OutJson& one : facts.at("adapters"))
    adapters.push_back({fmt::format("{}", adapters.size()), one.at("name"), one.at("kind"), one.at("strength"), RankCell(one.at("rank")),
                        one.at("sparsity"), fmt::format("{}", one.at("targets").size()), one.at("format"), SizeCell(one.at("file_size")),
                        one.at("file_hash"), CellText(one.at("config_hash"))});
  text += "\n" + Table(adapters);
  for (const OutJson& one : facts.at("adapters")) {
    const std::string name = one.at("name");
    if (!one.at("params").empty()) text += fmt::format("params of {}: {}\n", name, MembersText(one.at("params")));
    if (!one.at("plugin").is_null()) text += fmt::format("plugin of {}: {}\n", name, MembersText(one.at("plugin")));
  }
  text += StacksTable(facts.at("sites"));
  const std::string notes = NotesText(facts.at("notes"));
  return notes.empty() ? text : text + "\n" + notes;
}

std::string DiffText(const OutJson& facts) {
  if (facts.at("equal").get<bool>()) return fmt::format("equal: both are {}\n", facts.at("a").get<std::string>());
  Rows rows{{"", "A", "B"}, {"composition", facts.at("a"), facts.at("b")}};
  for (const char* part : {"base", "tokenizer", "quantization", "runtime", "tied_weights"}) {
    const OutJson& both = facts.at(part);
    if (both.is_null()) continue;
    if (both.at("a").is_object()) {
      for (const auto& [name, value] : both.at("a").items())
        if (value != both.at("b").at(name))
          rows.push_back({fmt::format("{} {}", part, name), CellText(value), CellText(both.at("b").at(name))});
    } else {
      rows.push_back({part, CellText(both.at("a")), CellText(both.at("b"))});
    }
  }
  const OutJson& adapters = facts.at("adapters");
  for (const OutJson& one : adapters.at("removed")) rows.push_back({"removed", EntryText(one), "-"});
  for (const OutJson& one : adapters.at("added")) rows.push_back({"added", "-", EntryText(one)});
  for (const OutJson& one : adapters.at("changed"))
    for (const auto& [field, both] : one.at("differs").items()) {
      const auto side = [is_targets = field == "targets"](const OutJson& value) {
        if (is_targets) return value.empty() ? std::string("-") : TargetsText(value);
        return value.is_object() ? MembersText(value) : CellText(value);
      };
      rows.push_back({fmt::format("{} {}", one.at("name").get<std::string>(), field), side(both.at("a")), side(both.at("b"))});
    }
  if (const OutJson& order = adapters.at("order"); !order.is_null())
    rows.push_back({"order", JoinText(order.at("a")), JoinText(order.at("b"))});
  return Table(rows);
}

}  // namespace veneer::cli
