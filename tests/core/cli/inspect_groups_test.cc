#include "core/cli/inspect_groups.h"

#include <string>
#include <vector>

#include "core/cli/inspect_cells.h"
#include "tests/support/catch.h"

namespace veneer::cli {
namespace {

using Names = std::vector<std::string>;

Names Grouped(const Names& names) { return GroupNames(names); }

TEST_CASE("inspect groups: equal layers stand on one line, gaps and single layers are told apart") {
  CHECK(Grouped({"a.0.x", "a.1.x", "a.2.x"}) == Names{"a.{0-2}.x"});
  CHECK(Grouped({"a.0.x", "a.1.x"}) == Names{"a.{0,1}.x"});
  CHECK(Grouped({"a.7.x"}) == Names{"a.7.x"});
  CHECK(Grouped({"a.0.x", "a.10.x", "a.1.x", "a.2.x", "a.4.x"}) == Names{"a.{0-2,4,10}.x"});
  CHECK(Grouped({"blk.0.q.weight.lora_a", "blk.1.q.weight.lora_a"}) == Names{"blk.{0,1}.q.weight.lora_a"});
}

TEST_CASE("inspect groups: other modules and names without a layer stay apart, in the order of their first appearance") {
  CHECK(Grouped({"embed", "a.0.x", "a.0.y", "a.1.x", "a.1.y", "head"}) == Names{"embed", "a.{0,1}.x", "a.{0,1}.y", "head"});
  CHECK(Grouped({"head", "head"}) == Names{"head", "head"});
  CHECK(Grouped({"b.0.x", "a.0.x"}) == Names{"b.0.x", "a.0.x"});
}

TEST_CASE("inspect groups: the first part of digits alone is the layer; other digits belong to the name") {
  CHECK(Grouped({"a.0.e.0.w1", "a.0.e.1.w1"}) == Names{"a.0.e.0.w1", "a.0.e.1.w1"});
  CHECK(Grouped({"a.0.e.3.w1", "a.1.e.3.w1"}) == Names{"a.{0,1}.e.3.w1"});
  CHECK(Grouped({"w1.x", "w2.x"}) == Names{"w1.x", "w2.x"});
  CHECK(Grouped({"a.00.x", "a.01.x"}) == Names{"a.00.x", "a.01.x"});
  CHECK(Grouped({"a.1234567890.x", "a.1234567891.x"}) == Names{"a.1234567890.x", "a.1234567891.x"});
  CHECK(Grouped({"a..0", "a..1", ""}) == Names{"a..{0,1}", ""});
}

TEST_CASE("inspect groups: rows of other cells do not fall together, bytes and counts add up") {
  const std::vector<LayerGroup> groups = GroupLayers(std::vector<LayerRow>{
      {"m.0.q", {"r4"}, 10}, {"m.1.q", {"r8"}, 20}, {"m.2.q", {"r4"}, 30}, {"m.10.q", {"r4"}, 1}, {"m.0.v", {"r4"}, 5}});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].name == "m.{0,2,10}.q");
  CHECK(groups[0].count == 3);
  CHECK(groups[0].bytes == 41);
  CHECK(groups[0].cells == Names{"r4"});
  CHECK(groups[1].name == "m.1.q");
  CHECK(groups[1].bytes == 20);
  CHECK(groups[2].name == "m.0.v");
}

TEST_CASE("inspect groups: a name that falls apart goes by lowest layer, whatever the order of the rows") {
  const std::vector<LayerGroup> groups =
      GroupLayers(std::vector<LayerRow>{{"m.10.q", {"r8"}, 0}, {"m.11.q", {"r8"}, 0}, {"m.2.q", {"r4"}, 0}, {"m.3.q", {"r4"}, 0}});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].name == "m.{2,3}.q");
  CHECK(groups[1].name == "m.{10,11}.q");
}

TEST_CASE("inspect cells: a table of hundreds of sites has one line per group and a sum") {
  std::vector<LayerRow> rows;
  for (int layer = 0; layer < 80; ++layer)
    for (const char* module : {"q", "k", "v"}) rows.push_back({"m." + std::to_string(layer) + "." + module, {"f16"}, 1024});
  const Rows table = GroupRows({"SITE", "SITES", "TYPE", "BYTES"}, rows);
  REQUIRE(table.size() == 5);
  CHECK(table[1] == Names{"m.{0-79}.q", "80", "f16", "80.0 KiB"});
  CHECK(table[4] == Names{"in all", "240", "", "240.0 KiB"});
  CHECK(GroupRows({"SITE", "SITES", "BYTES"}, {{"head", {}, 3}}) == Rows{{"SITE", "SITES", "BYTES"}, {"head", "1", "3 B"}});
}

TEST_CASE("inspect cells: types are named once when all tensors have the same, by role otherwise, and say what a copy becomes") {
  const OutJson a{{"role", "A"}, {"dtype", "f16"}}, b{{"role", "B"}, {"dtype", "f16"}};
  const OutJson c{{"role", "B"}, {"dtype", "q8_0"}, {"held_as", {{"dtype", "f32"}, {"bytes", 1}}}};
  CHECK(DTypesCell(OutJson::array({a, b})) == "f16");
  CHECK(DTypesCell(OutJson::array({a, c})) == "A f16, B q8_0 (as f32)");
  CHECK(DTypesCell(OutJson::array()).empty());
}

TEST_CASE("inspect cells: what files contain is cut between characters and cannot drive the terminal") {
  CHECK(CellText("evil\x1b[2J") == "evil\\x1b[2J");
  CHECK(CellText(nullptr) == "-");
  CHECK(CellText(2.8284271247461903) == "2.82843");
  CHECK(CellText(std::string(119, 'x') + "\xC3\xA9\xC3\xA9") == std::string(119, 'x') + "\u2026 (123 bytes)");
  CHECK(MembersText({{"r", 8}, {"t", {"q", "v"}}}) == R"(r=8, t=["q","v"])");
  CHECK(ShapeCell(OutJson::array({64, 172})) == "[64, 172]");
}

}  // namespace
}  // namespace veneer::cli
