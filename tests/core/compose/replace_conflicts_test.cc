#include "core/compose/replace_conflicts.h"

#include "tests/support/catch.h"

namespace veneer {
namespace {

StageAdapter Entry(const std::string& name, const std::vector<std::string>& edits, std::vector<Replacement> replacements,
                   double strength = 1) {
  auto adapter = std::make_shared<Adapter>();
  for (const std::string& site : edits) adapter->sites.push_back({site, {}, 0, std::nullopt});
  adapter->replacements = std::move(replacements);
  return {name, std::move(adapter), strength, {}};
}
Replacement Whole(const std::string& site) { return {site, {}, {}}; }
Replacement Rows(const std::string& site, const std::vector<std::uint64_t>& lanes) {
  Replacement one{site, {}, {}};
  for (const std::uint64_t lane : lanes) one.rows.push_back({lane, one.rows.size()});
  return one;
}
int CodeOf(const std::vector<StageAdapter>& stack) {
  const Status status = CheckReplacements(stack);
  return status ? 0 : static_cast<int>(status.error().code);
}

}  // namespace

TEST_CASE("replace: an earlier entry that edits what a later one replaces is E216 and names both and the site") {
  const std::vector<StageAdapter> stack = {Entry("style", {"lm_head"}, {}), Entry("head", {}, {Whole("lm_head")})};
  const Status status = CheckReplacements(stack);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == Code::REPLACE_CONFLICT);
  CHECK(status.error().at == "head");
  CHECK(status.error().detail.find("style") != std::string::npos);
  CHECK(status.error().detail.find("lm_head") != std::string::npos);
  CHECK(CodeOf({stack[1], stack[0]}) == 0);
  CHECK(CodeOf({Entry("both", {"lm_head"}, {Whole("lm_head")})}) == 0);  // an adapter's own replacement comes before its edits
}

TEST_CASE("replace: one owner for a tensor or a row; rows that two entries share are E216, others are not") {
  CHECK(CodeOf({Entry("a", {}, {Whole("x")}), Entry("b", {}, {Whole("x")})}) == 216);
  CHECK(CodeOf({Entry("a", {}, {Whole("x")}), Entry("b", {}, {Rows("x", {1})})}) == 216);
  CHECK(CodeOf({Entry("a", {}, {Rows("x", {1, 5})}), Entry("b", {}, {Rows("x", {2, 5})})}) == 216);
  CHECK(CodeOf({Entry("a", {}, {Rows("x", {1, 5})}), Entry("b", {}, {Rows("x", {2, 6})})}) == 0);
  CHECK(CodeOf({Entry("a", {}, {Whole("x")}), Entry("b", {}, {Whole("y")})}) == 0);
}

TEST_CASE("replace: a trained bias behind an entry that edits its module is E216, before it not") {
  const StageAdapter scaling = Entry("scaling", {"m.q_proj"}, {}), bias = Entry("bias", {}, {Whole("m.q_proj.bias")});
  CHECK(CodeOf({scaling, bias}) == 216);
  CHECK(CodeOf({bias, scaling}) == 0);
  CHECK(CodeOf({Entry("other", {"m.k_proj"}, {}), bias}) == 0);
}

TEST_CASE("replace: an entry of strength zero is in nobody's way") {
  CHECK(CodeOf({Entry("a", {"x"}, {}, 0), Entry("b", {}, {Whole("x")})}) == 0);
  CHECK(CodeOf({Entry("a", {"x"}, {}), Entry("b", {}, {Whole("x")}, 0)}) == 0);
}

TEST_CASE("replace: the sites of an adapter are what it edits and what it replaces, each once") {
  CHECK(EditedSites(*Entry("a", {"y", "x"}, {Whole("z"), Whole("x")}).adapter) == std::vector<std::string>{"x", "y", "z"});
}

}  // namespace veneer
