#include "core/compose/staged_composition.h"

#include "tests/core/compose/scripted_kind.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

const std::string kQ = "model.layers.0.self_attn.q_proj", kUp = "model.layers.1.mlp.up_proj";

TEST_CASE("staged composition: healthy until a hot call fails, from then on E417 naming the overlay's site") {
  NewScript().fail = "apply " + kUp + " 4";
  const auto base = OpenTiny();
  const auto staged = StageScripted(base, {Scripted("a", "test.step", {{kQ, 2}, {kUp, 4}})});
  REQUIRE(staged);
  const auto apply = [&](const std::string& id) { (*staged)->at(*base->sites().Find(id)).overlays[0]->hot().Apply({}, 0, 1); };
  apply(kQ);
  CHECK((*staged)->CheckHealthy());
  apply(kUp);
  TheScript().fail.clear();
  apply(kUp);  // works again, and what was decoded in between is still not to be used
  const Status health = (*staged)->CheckHealthy();
  REQUIRE_FALSE(health);
  CHECK(health.error().code == Code::PLUGIN_FAULT);
  CHECK(health.error().at == kUp);
  CHECK(health.error().detail.find("activate another") != std::string::npos);
}

TEST_CASE("staged composition: its id is that of the composition, its bytes those that the overlays hold") {
  NewScript();
  const auto base = OpenTiny();
  const std::vector<StageAdapter> stack{Scripted("a", "test.step", {{kQ, 2}}), Scripted("b", "test.step", {{kQ, 2}})};
  const auto staged = StageScripted(base, stack);
  const auto bare = StageScripted(base, {});
  REQUIRE(staged);
  REQUIRE(bare);
  CHECK((*staged)->id() == CompositionOf(*base, stack).Id());
  CHECK((*staged)->id() != (*bare)->id());
  CHECK((*bare)->overlay_bytes() == 0);
  CHECK((*staged)->overlay_bytes() > 0);
  CHECK((*staged)->shared_base() == base);
}

TEST_CASE("staged composition: the constants are the norms of the base, and biases where overlays make some") {
  NewScript();
  const auto base = OpenTiny();  // no biases; 2 layers with two norms each and the last norm, 64 numbers each
  const auto bare = StageScripted(base, {});
  const auto staged = StageScripted(base, {Scripted("a", "test.step", {{kUp, 4}})});
  REQUIRE(bare);
  REQUIRE(staged);
  CHECK((*bare)->constant_bytes() == 5 * 64 * sizeof(float));
  CHECK((*staged)->constant_bytes() == (5 * 64 + 96) * sizeof(float));
}

}  // namespace
}  // namespace veneer
