#include "core/compose/stage.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/core/compose/scripted_kind.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

using Strings = std::vector<std::string>;

const std::string kQ = "model.layers.0.self_attn.q_proj", kUp = "model.layers.1.mlp.up_proj", kNorm = "model.norm";

const std::shared_ptr<const Base>& TheBase() {
  static const auto base = OpenTiny(TinyModel{.biases = true});
  return base;
}
const Site& At(const std::string& id) { return *TheBase()->sites().Find(id); }

std::vector<float> RowZero(const std::string& id) {
  const Site& site = At(id);
  std::vector<float> row(site.shape_class == SiteClass::kVector ? site.out : site.in);
  ReadRows(site, 0, 1, row.data(), row.size());
  return row;
}

void CheckNothingLives() {
  CHECK(TheScript().artifacts == 0);
  CHECK(TheScript().bindings == 0);
}

TEST_CASE("stage: adapters are staged in manifest order, and every site lists its overlays in that order") {
  Script& script = NewScript();
  const auto staged = StageScripted(TheBase(), {Scripted("a", "test.step", {{kNorm, 1}, {kQ, 2}}),
                                                Scripted("b", "test.step", {{kQ, 3}, {kUp, 4}}), Scripted("c", "test.step", {{kQ, 5}})});
  REQUIRE(staged);
  CHECK(script.Of("stage") ==
        Strings{"stage model.norm 1", "stage " + kQ + " 2", "stage " + kQ + " 3", "stage " + kUp + " 4", "stage " + kQ + " 5"});
  // Every overlay is bound and costed before the first is staged.
  const auto first_stage = std::ranges::find_if(script.calls, [](const std::string& call) { return call.starts_with("stage "); });
  CHECK(std::ranges::count_if(script.calls.begin(), first_stage, [](const std::string& call) { return call.starts_with("bind "); }) == 5);
  CHECK((*staged)->at(At(kQ)).overlays.size() == 3);
  CHECK((*staged)->at(At(kUp)).overlays.size() == 1);
  CHECK((*staged)->at(At("model.layers.1.self_attn.q_proj")).overlays.empty());
  script.calls.clear();
  for (const OverlayBinding* overlay : (*staged)->at(At(kQ)).overlays) overlay->hot().Apply({}, 0, 1);
  CHECK(script.calls == Strings{"apply " + kQ + " 2", "apply " + kQ + " 3", "apply " + kQ + " 5"});
}

TEST_CASE("stage: dropping a composition unbinds every overlay and closes every artifact") {
  NewScript();
  auto staged = StageScripted(TheBase(), {Scripted("a", "test.step", {{kQ, 2}, {kUp, 1}}), Scripted("b", "test.reads", {{kQ, 3}})});
  REQUIRE(staged);
  CHECK(TheScript().artifacts == 2);
  CHECK(TheScript().bindings == 3);
  staged->reset();
  CheckNothingLives();
}

TEST_CASE("stage: whichever setup call of a plugin fails, the adapter and the site are named and nothing stays staged") {
  const std::vector<StageAdapter> stack{Scripted("first", "test.step", {{kNorm, 1}, {kQ, 2}}),
                                        Scripted("second", "test.step", {{kQ, 3}, {kUp, 4}})};
  struct Case {
    std::string call, at;
  };
  for (const Case& one :
       {Case{"open", "adapter first (test.step)"}, Case{"bind " + kQ + " 2", "adapter first (test.step): " + kQ},
        Case{"bind " + kUp + " 4", "adapter second (test.step): " + kUp},
        Case{"estimate " + kQ + " 3", "adapter second (test.step): " + kQ},
        Case{"stage model.norm 1", "adapter first (test.step): model.norm"},
        Case{"stage " + kUp + " 4", "adapter second (test.step): " + kUp}, Case{"bias " + kQ + " 3", "adapter second (test.step): " + kQ},
        Case{"weight_rows model.norm 1", "adapter first (test.step): model.norm"}}) {
    CAPTURE(one.call);
    NewScript().fail = one.call;
    const auto staged = StageScripted(TheBase(), stack);
    CHECK(std::ranges::count(TheScript().calls, one.call) == 1);
    REQUIRE_FALSE(staged);
    CHECK(staged.error().code == Code::PLUGIN_FAULT);
    CHECK(staged.error().at == one.at);
    CheckNothingLives();
  }
}

TEST_CASE("stage: the code of a plugin's refusal becomes ours") {
  for (const auto& [theirs, ours] : {std::pair{VNR_E_INVALID, Code::SHAPE_MISMATCH}, std::pair{VNR_E_UNSUPPORTED, Code::FORMAT_UNSUPPORTED},
                                     std::pair{VNR_E_NUMERIC, Code::NOT_FINITE}, std::pair{VNR_E_BUDGET, Code::MEMORY_BUDGET},
                                     std::pair{VNR_E_NOMEM, Code::OUT_OF_MEMORY}}) {
    Script& script = NewScript();
    script.fail = "bind " + kQ + " 2";
    script.code = theirs;
    const auto staged = StageScripted(TheBase(), {Scripted("a", "test.step", {{kQ, 2}})});
    REQUIRE_FALSE(staged);
    CHECK(staged.error().code == ours);
    CheckNothingLives();
  }
}

TEST_CASE("stage: an overlay that needs the rows below it gets the base's with all earlier overlays on them, at their strengths") {
  NewScript();
  const auto staged = StageScripted(TheBase(), {Scripted("a", "test.step", {{kQ, 2}}), Scripted("b", "test.step", {{kQ, 8}}, 0.25),
                                                Scripted("c", "test.reads", {{kQ, 100}}), Scripted("d", "test.step", {{kQ, 1000}})});
  REQUIRE(staged);
  std::vector<float> expected = RowZero(kQ);
  expected[0] += 2;
  expected[0] += 2;  // 8 at strength 0.25
  CHECK(TheScript().predecessor == expected);
}

TEST_CASE("stage: when an earlier overlay fails to give its rows to a later one, staging fails and names the earlier") {
  NewScript().fail = "weight_rows " + kQ + " 2";
  const auto staged = StageScripted(TheBase(), {Scripted("earlier", "test.step", {{kQ, 2}}), Scripted("later", "test.reads", {{kQ, 3}})});
  CHECK(TheScript().Of("weight_rows").size() == 1);
  REQUIRE_FALSE(staged);
  CHECK(staged.error().code == Code::PLUGIN_FAULT);
  CHECK(staged.error().at == "adapter later (test.reads): " + kQ + ": adapter earlier (test.step): " + kQ);
  CheckNothingLives();
}

TEST_CASE("stage: with strength 0 no plugin code runs and every site is bit for bit that of the base alone") {
  NewScript();
  const auto bare = StageScripted(TheBase(), {});
  const auto zero =
      StageScripted(TheBase(), {Scripted("a", "test.step", {{kQ, 2}, {kNorm, 1}, {kUp, 4}}, 0), Scripted("b", "test.reads", {{kQ, 3}}, 0)});
  REQUIRE(bare);
  REQUIRE(zero);
  CHECK(TheScript().calls.empty());
  CHECK((*zero)->overlay_bytes() == 0);
  for (const Site& site : TheBase()->sites().sites()) {
    CAPTURE(site.id);
    CHECK((*zero)->at(site).overlays.empty());
    CHECK((*zero)->at(site).bias == (*bare)->at(site).bias);
    CHECK((*zero)->at(site).vector == (*bare)->at(site).vector);
  }
  CHECK((*zero)->id() != (*bare)->id());  // another composition all the same
}

TEST_CASE("stage: strength 0 between two others leaves what they make as it is without it") {
  const auto stack = [](bool with) {
    std::vector<StageAdapter> adapters{Scripted("a", "test.step", {{kQ, 2}, {kNorm, 0.1}})};
    if (with) adapters.push_back(Scripted("z", "test.step", {{kQ, 7}, {kNorm, 7}}, 0));
    adapters.push_back(Scripted("b", "test.step", {{kQ, 0.3}, {kNorm, 0.7}}));
    return StageScripted(TheBase(), adapters);
  };
  NewScript();
  const auto without = stack(false), with = stack(true);
  REQUIRE(without);
  REQUIRE(with);
  CHECK((*with)->at(At(kQ)).bias == (*without)->at(At(kQ)).bias);
  CHECK((*with)->at(At(kNorm)).vector == (*without)->at(At(kNorm)).vector);
}

TEST_CASE("stage: biases and vectors are composed from the base's and every edit in order; a site without a bias may gain one") {
  NewScript();
  const auto staged =
      StageScripted(TheBase(), {Scripted("a", "test.step", {{kQ, 2}, {kNorm, 0.5}, {kUp, 3}}), Scripted("b", "test.step", {{kQ, 4}}, 0.5)});
  REQUIRE(staged);
  std::vector<float> bias = RowZero(kQ + ".bias");
  for (float& value : bias) value = value + 2 + 2;
  CHECK((*staged)->at(At(kQ)).bias == bias);
  std::vector<float> norm = RowZero(kNorm);
  norm[0] += 0.5F;
  CHECK((*staged)->at(At(kNorm)).vector == norm);
  CHECK((*staged)->at(At(kUp)).bias == std::vector<float>(At(kUp).out, 3.0F));
  CHECK((*staged)->at(At("model.layers.0.mlp.up_proj")).bias.empty());
  // A bias edited under its own name comes first, for it is what the linear site's overlays then see.
  const auto by_name = StageScripted(TheBase(), {Scripted("a", "test.step", {{kQ + ".bias", 16}})});
  REQUIRE(by_name);
  CHECK((*by_name)->at(At(kQ)).bias[0] == RowZero(kQ + ".bias")[0] + 16);
  CHECK((*by_name)->at(At(kQ)).bias[1] == RowZero(kQ + ".bias")[1]);
}

TEST_CASE("stage: the cost counts what artifacts share once each, and the largest of the passing needs; admission is to the byte") {
  const std::vector<StageAdapter> stack{Scripted("a", "test.step", {{kQ, 2}, {kUp, 1}}), Scripted("b", "test.step", {{kQ, 3}})};
  const auto bind = [&](std::uint64_t budget) {
    NewScript();
    return BoundComposition::Bind(TheBase(), CompositionOf(*TheBase(), stack), stack, ScriptedCatalog(), {.overlay_budget = budget});
  };
  auto bound = bind(UINT64_MAX);
  REQUIRE(bound);
  CHECK(bound->cost().resident_bytes == 2 * 64 + 3 * 256);
  CHECK(bound->cost().peak_bytes == 2 * 64 + 3 * 256 + (1024 - 256));
  const std::uint64_t peak = bound->cost().peak_bytes;
  auto fits = bind(peak);
  REQUIRE(fits);
  CHECK(std::move(*fits).Stage());
  auto tight = bind(peak - 1);
  REQUIRE(tight);
  const auto refused = std::move(*tight).Stage();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::MEMORY_BUDGET);
  CHECK(refused.error().at == "overlays");
  CHECK(refused.error().detail.find(std::to_string(peak)) != std::string::npos);
  CHECK(TheScript().Of("stage").empty());
}

TEST_CASE("stage: a site that the base lacks, a kind that nobody offers and a plugin that policy does not mean are refused") {
  NewScript();
  const auto no_site = StageScripted(TheBase(), {Scripted("a", "test.step", {{"model.layers.7.mlp.up_proj", 1}})});
  REQUIRE_FALSE(no_site);
  CHECK(no_site.error().code == Code::TARGET_UNKNOWN);
  CHECK(no_site.error().at == "model.layers.7.mlp.up_proj");
  const auto no_kind = StageScripted(TheBase(), {Scripted("a", "test.nobody", {{kQ, 1}})});
  REQUIRE_FALSE(no_kind);
  CHECK(no_kind.error().code == Code::KIND_UNKNOWN);
  StageAdapter pinned = Scripted("a", "test.step", {{kQ, 1}});
  pinned.demand.version = "2.0.0";
  const auto other = StageScripted(TheBase(), {pinned});
  REQUIRE_FALSE(other);
  CHECK(other.error().code == Code::PLUGIN_REFUSED);
  CHECK(TheScript().Of("stage").empty());
  CheckNothingLives();
}

}  // namespace
}  // namespace veneer
