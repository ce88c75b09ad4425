// residual in the real host: the catalogue and the generic checks take a kind that declares no import and whose roles are all optional.
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "core/format/json.h"
#include "core/plugin/catalog.h"
#include "core/plugin/overlay.h"
#include "tests/plugins/harness.h"
#include "tests/support/catch.h"

using namespace plugin_test;

namespace {

veneer::RoleTensor View(const std::string& role, const Stored& stored) {
  return {role, {role, stored.dtype, stored.dims, std::as_bytes(std::span(stored.bytes))}};
}

veneer::Catalog LinkedCatalog() {
  auto catalog = veneer::Catalog::Scan({.directories = {}, .overrides = {}, .static_entries = StaticEntries()});
  REQUIRE(catalog);
  return std::move(*catalog);
}

constexpr std::uint64_t kOut = 40, kIn = 64;

}  // namespace

TEST_CASE("residual: its declaration goes through JSON and back, offers the kind, and is no importer of PEFT checkpoints") {
  const veneer::Catalog catalog = LinkedCatalog();
  const auto found = catalog.FindKind("residual");
  REQUIRE(found);
  REQUIRE((*found)->card.kinds.size() == 1);
  const veneer::KindDecl& declared = (*found)->card.kinds[0];
  const auto json = veneer::ParseJson(KindToJson(declared), {});
  REQUIRE(json);
  const auto read = veneer::KindFromJson(*json);
  REQUIRE(read);
  CHECK(KindToJson(*read) == KindToJson(declared));
  CHECK(read->id == "residual");
  CHECK_FALSE(read->import);
  for (const veneer::KindDecl* importer : catalog.Importers()) CHECK(importer->id != "residual");
  CHECK(catalog.Load(**found, "residual"));
}

TEST_CASE("residual: the host stages both forms within their estimate, and refuses wrong shapes, types and values before the plugin runs") {
  const veneer::Catalog catalog = LinkedCatalog();
  const auto found = catalog.FindKind("residual");
  REQUIRE(found);
  const auto kind = catalog.Load(**found, "residual");
  REQUIRE(kind);
  veneer::MemoryBudget budget(1 << 20);
  auto artifact = veneer::OverlayArtifact::Open(**kind, (*found)->card.kinds[0], "adapter merged (residual)", {}, budget,
                                                [](std::uint32_t n, const std::function<void(std::uint32_t)>& body) {
                                                  for (std::uint32_t i = 0; i < n; ++i) body(i);
                                                });
  REQUIRE(artifact);
  std::mt19937 rng(41);
  const Stored weight = Random(rng, VNR_BF16, {kOut, kIn}), scale = Random(rng, VNR_F16, {kOut, kIn / 32});
  const Stored q8{VNR_I8, {kOut, kIn}, {}, std::vector<unsigned char>(kOut * kIn, 3)};
  veneer::SiteFacts site;
  site.id = "model.layers.0.mlp.up_proj";
  site.out = kOut;
  site.in = kIn;
  const vnr_limits limits{sizeof limits, 2, 32, 2, 1 << 20};
  const auto refusal = [&](const veneer::OverlaySource& source) {
    const auto binding = (*artifact)->Bind(site, source);
    REQUIRE_FALSE(binding);
    return binding.error().code;
  };

  for (const veneer::OverlaySource& source :
       {veneer::OverlaySource{{View("weight", weight)}, {}}, veneer::OverlaySource{{View("q8", q8), View("scale", scale)}, {}}}) {
    const std::uint64_t before = budget.used();
    auto binding = (*artifact)->Bind(site, source);
    REQUIRE(binding);
    const auto cost = (*binding)->Estimate(limits);
    REQUIRE(cost);
    REQUIRE((*binding)->Stage(limits, nullptr));
    CHECK((*binding)->program().flags == VNR_ADDS_Y);
    CHECK(budget.used() - before == cost->resident_bytes);
    REQUIRE((*binding)->Describe());
  }

  CHECK(refusal({{View("weight", Random(rng, VNR_BF16, {kOut, kIn + 1}))}, {}}) == veneer::Code::SHAPE_MISMATCH);
  CHECK(refusal({{View("q8", q8), View("scale", Random(rng, VNR_F16, {kOut + 1, kIn / 32}))}, {}}) == veneer::Code::SHAPE_MISMATCH);
  CHECK(refusal({{View("q8", q8), View("scale", Random(rng, VNR_F32, {kOut, kIn / 32}))}, {}}) == veneer::Code::FORMAT_UNSUPPORTED);
  CHECK(refusal({{View("weight", Store(VNR_BF16, {kOut, kIn}, std::vector<double>(kOut * kIn, HUGE_VAL)))}, {}}) ==
        veneer::Code::NOT_FINITE);
  // What only the plugin knows comes back as SHAPE_MISMATCH, with the place in front.
  const auto both = (*artifact)->Bind(site, {{View("weight", weight), View("q8", q8), View("scale", scale)}, {}});
  REQUIRE_FALSE(both);
  CHECK(both.error().code == veneer::Code::SHAPE_MISMATCH);
  CHECK(both.error().at == "adapter merged (residual): model.layers.0.mlp.up_proj");
  CHECK(both.error().detail.starts_with("has weight and q8"));
}
