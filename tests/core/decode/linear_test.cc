#include "core/decode/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/core/decode/group_run.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

const std::string kLayer = "model.layers.0.";

const std::vector<std::string> kQkv = {kLayer + "self_attn.q_proj", kLayer + "self_attn.k_proj", kLayer + "self_attn.v_proj"};
const std::vector<std::string> kGateUp = {kLayer + "mlp.gate_proj", kLayer + "mlp.up_proj"};
const std::vector<std::string> kDown = {kLayer + "mlp.down_proj"};

TEST_CASE("linear: base products of every group, with biases and reordered rows, agree with f64 within the rounding bound") {
  for (const std::uint32_t type : {VNR_F32, VNR_F16, VNR_Q8_0, VNR_Q4_0}) {
    const Stack stack(OpenTiny({.matrix_type = type, .biases = true}));
    const auto staged = stack.Stage(ComputeMode::kExact);
    for (const auto& names : {kQkv, kGateUp, kDown})
      for (const std::uint32_t tokens : {1U, 3U, 33U}) CHECK(WorstError(stack, names, RunGroup(*staged, names, tokens, 2)) < 1);
  }
}

TEST_CASE("linear: each overlay sees its own version of x, so an input scaling inside a stack acts only on what comes before it") {
  Stack stack(OpenTiny({.biases = true}));
  const std::string& gate = kGateUp[0];
  stack.LowRank(gate, 4, 0.5).Rescale(gate, Scales::kInput).LowRank(gate, 3, -1.5).Rescale(gate, Scales::kInput).LowRank(gate, 2, 1);
  stack.LowRank(kGateUp[1], 5, 0.7);  // shares the group's x, which must not be the scaled one
  const auto staged = stack.Stage(ComputeMode::kExact);
  for (const std::uint32_t tokens : {1U, 7U, 70U})
    for (const std::uint32_t threads : {1U, 3U}) CHECK(WorstError(stack, kGateUp, RunGroup(*staged, kGateUp, tokens, threads)) < 1);
}

TEST_CASE("linear: output scaling, low rank and biases apply in manifest order in both orders") {
  for (const bool scale_first : {true, false}) {
    Stack stack(OpenTiny({.biases = true}));
    const std::string& q = kQkv[0];
    if (scale_first) stack.Rescale(q, Scales::kOutput);
    stack.LowRank(q, 4, 0.8, true);
    if (!scale_first) stack.Rescale(q, Scales::kOutput);
    stack.LowRank(kQkv[2], 8, 2, true);
    const auto staged = stack.Stage(ComputeMode::kExact);
    CHECK(WorstError(stack, kQkv, RunGroup(*staged, kQkv, 5, 2)) < 1);
    CHECK(WorstError(stack, kQkv, RunGroup(*staged, kQkv, 1, 2)) < 1);
  }
}

TEST_CASE("linear: a site without a bias gains the overlay's") {
  Stack stack(OpenTiny());
  stack.LowRank(kDown[0], 2, 0.5, true);
  const auto staged = stack.Stage(ComputeMode::kExact);
  CHECK(WorstError(stack, kDown, RunGroup(*staged, kDown, 2, 1)) < 1);
}

TEST_CASE("linear: exact results do not depend on threads, batch or neighbours; fast ones not on threads") {
  Stack stack(OpenTiny({.hidden = 128, .ffn = 352, .matrix_type = VNR_Q4_0}));  // 352 lanes: three whole tiles and a part
  stack.LowRank(kGateUp[0], 16, 0.5).Rescale(kGateUp[0], Scales::kInput).LowRank(kGateUp[1], 3, 1);
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    const auto staged = stack.Stage(mode);
    const GroupRun all = RunGroup(*staged, kGateUp, 67, 1);
    const GroupRun one = RunGroup(*staged, kGateUp, 1, 1, 40);
    for (const std::uint32_t threads : {2U, 3U, 8U}) {
      CHECK(RunGroup(*staged, kGateUp, 67, threads).y == all.y);
      CHECK(RunGroup(*staged, kGateUp, 1, threads, 40).y == one.y);
    }
    if (mode != ComputeMode::kExact) continue;
    for (std::size_t s = 0; s < kGateUp.size(); ++s)
      CHECK(std::equal(one.y[s].begin(), one.y[s].end(), all.y[s].begin() + static_cast<std::ptrdiff_t>(40 * one.y[s].size())));
  }
}

// 303 tokens are more than a tile holds, and no multiple of four; 352 lanes are no multiple of a panel's 64.
TEST_CASE("linear: fast base products of a token have the same bits alone, in a few tokens and in many, for any number of threads") {
  for (const std::uint32_t type : {VNR_Q4_0, VNR_Q5_1, VNR_Q8_0}) {
    const Stack stack(OpenTiny({.hidden = 128, .ffn = 352, .matrix_type = type, .biases = true}));
    const auto staged = stack.Stage(ComputeMode::kFast);
    for (const auto& names : {kQkv, kGateUp, kDown}) {
      const GroupRun all = RunGroup(*staged, names, 303, 1);
      for (const std::uint32_t threads : {2U, 3U}) CHECK(RunGroup(*staged, names, 303, threads).y == all.y);
      for (const std::uint32_t tokens : {1U, 3U, 4U, 5U, 33U}) {
        for (const std::uint32_t first : {0U, 254U, 270U}) {
          CAPTURE(type, names[0], tokens, first);
          const GroupRun some = RunGroup(*staged, names, tokens, 2, first);
          for (std::size_t s = 0; s < names.size(); ++s) {
            const std::size_t out = some.y[s].size() / tokens;
            CHECK(std::equal(some.y[s].begin(), some.y[s].end(), all.y[s].begin() + static_cast<std::ptrdiff_t>(first * out)));
          }
        }
      }
    }
  }
}

TEST_CASE("linear: fast overlays act on every token of a batch that is wider than a tile, as on each block of it") {
  Stack stack(OpenTiny({.hidden = 128, .ffn = 352, .matrix_type = VNR_Q4_0}));
  stack.LowRank(kGateUp[0], 5, 0.5).Rescale(kGateUp[0], Scales::kInput).LowRank(kGateUp[1], 3, 1).Rescale(kGateUp[1], Scales::kOutput);
  const auto staged = stack.Stage(ComputeMode::kFast);
  const GroupRun all = RunGroup(*staged, kGateUp, 303, 2);
  for (const std::uint32_t first : {0U, 32U, 256U}) {  // where blocks of overlays begin: the same calls, so the same bits
    const GroupRun block = RunGroup(*staged, kGateUp, first == 256 ? 47 : 32, 1, first);
    for (std::size_t s = 0; s < 2; ++s)
      CHECK(std::equal(block.y[s].begin(), block.y[s].end(), all.y[s].begin() + static_cast<std::ptrdiff_t>(first * 352)));
  }
}

TEST_CASE("linear: fast products of quantized bases stay within the error of 8-bit activations, each site with its own x_0") {
  Stack stack(OpenTiny({.matrix_type = VNR_Q8_0}));
  stack.Rescale(kGateUp[0], Scales::kInput);
  const auto staged = stack.Stage(ComputeMode::kFast);
  const std::uint32_t tokens = GENERATE(3U, 7U);  // one by one, and in a tile
  const GroupRun run = RunGroup(*staged, kGateUp, tokens, 2);
  for (std::size_t s = 0; s < kGateUp.size(); ++s) {
    const Site& site = *stack.base().sites().Find(kGateUp[s]);
    const reference::Vector t = s == 0 ? stack.edits().at(kGateUp[0])[0].t : reference::Vector(site.in, 1.0);
    std::vector<float> w(site.out * site.in);
    ReadRows(site, 0, site.out, w.data(), site.in);
    for (std::size_t token = 0; token < tokens; ++token)
      for (std::uint64_t lane = 0; lane < site.out; ++lane) {
        // |x - d q| <= d / 2 with d = max|x_0| / 127, and |x_0| < 1.5; 1 % for the f32 roundings of d and the sum.
        double y = 0, abs_sum = 0;
        for (std::uint64_t i = 0; i < site.in; ++i) {
          const auto weight = static_cast<double>(w[lane * site.in + i]);
          y += weight * t[i] * static_cast<double>(run.x[token * site.in + i]);
          abs_sum += std::abs(weight);
        }
        const double bound = 1.01 * abs_sum * (s == 0 ? 1.5 : 1.0) / 254;
        CHECK(std::abs(static_cast<double>(run.y[s][token * site.out + lane]) - y) <= bound);
      }
  }
  CHECK(WorstError(stack, kGateUp, run) > 1);  // and it is the 8-bit path that ran
}

// What a probe added to a site's lanes, divided by x[0]: the value of the binding that prepared.
double ProbeValue(const GroupRun& with, const GroupRun& without, std::size_t site, std::size_t token, std::uint64_t in) {
  const std::size_t first = token * (with.y[site].size() / (with.x.size() / in));
  return static_cast<double>(with.y[site][first] - without.y[site][first]) / static_cast<double>(with.x[token * in]);
}

TEST_CASE("linear: overlays of one artifact with equal share keys and the same x prepare once; all others for themselves") {
  const auto base = OpenTiny();
  const std::uint64_t in = base->config().hidden;
  const auto values = [&](Stack& stack, std::uint32_t tokens) {
    const GroupRun without = RunGroup(*Stack(base).Stage(ComputeMode::kExact), kQkv, tokens, 2);
    const GroupRun with = RunGroup(*stack.Stage(ComputeMode::kExact), kQkv, tokens, 2);
    std::vector<double> found;
    for (std::size_t site = 0; site < 3; ++site) found.push_back(ProbeValue(with, without, site, tokens - 1, in));
    return found;
  };
  for (const std::uint32_t tokens : {1U, 40U}) {
    Stack shared(base), keyless(base), apart(base);
    shared.Probes({{kQkv[0], 10}, {kQkv[1], 20}, {kQkv[2], 30}}, 7);
    keyless.Probes({{kQkv[0], 10}, {kQkv[1], 20}, {kQkv[2], 30}}, 0);
    apart.Probes({{kQkv[0], 10}}, 7).Probes({{kQkv[1], 20}}, 7).Probes({{kQkv[2], 30}}, 7);
    const auto near = [](double value) { return Approx(value).epsilon(1e-2); };  // sums of order 1 around 10 x[0]
    for (Stack* stack : {&keyless, &apart}) {
      const auto found = values(*stack, tokens);
      CHECK(found[0] == near(10));
      CHECK(found[1] == near(20));
      CHECK(found[2] == near(30));
    }
    const auto found = values(shared, tokens);
    CHECK(found[0] == near(10));
    CHECK(found[1] == near(10));
    CHECK(found[2] == near(10));
  }
  Stack other_x(base);  // v's probe sees a scaled x, so it must not take what q's prepared
  other_x.Probes({{kQkv[0], 10}, {kQkv[2], 30}}, 7).Rescale(kQkv[2], Scales::kInput);
  const double l0 = other_x.edits().at(kQkv[2])[0].t[0];
  const GroupRun with = RunGroup(*other_x.Stage(ComputeMode::kExact), kQkv, 1, 1);
  const auto product = reference::Multiply(*base->sites().Find(kQkv[2]), base->sites(), other_x.edits().at(kQkv[2]), with.x);
  CHECK((static_cast<double>(with.y[2][0]) - product.y[0]) / static_cast<double>(with.x[0]) == Approx(30 * l0).epsilon(1e-4));
}

// Lanes of `with` that are larger by one, within rounding: where calls began.
std::vector<std::size_t> CallStarts(const GroupRun& with, const GroupRun& without) {
  std::vector<std::size_t> starts;
  for (std::size_t lane = 0; lane < with.y[0].size(); ++lane)
    if (with.y[0][lane] - without.y[0][lane] > 0.5F) starts.push_back(lane);
  return starts;
}

TEST_CASE(
    "linear: overlays of level 1 are called tile by tile for any number of threads, those of level 2 for all "
    "that a worker has in one piece") {
  const auto base = OpenTiny({.hidden = 128, .ffn = 1440, .matrix_type = VNR_Q4_0});  // 13 tiles of 104 lanes and 88 lanes
  const std::vector<std::string> up = {kGateUp[1]};
  const GroupRun without = RunGroup(*Stack(base).Stage(ComputeMode::kFast), up, 1, 1);
  std::vector<std::size_t> grid;
  for (std::size_t lane = 0; lane < 1440; lane += kTileLanes) grid.push_back(lane);
  Stack tiles(base), runs(base);
  const auto level1 = tiles.CallMarks(up[0], 1).Stage(ComputeMode::kFast), level2 = runs.CallMarks(up[0], 2).Stage(ComputeMode::kFast);
  for (const std::uint32_t threads : {1U, 2U, 3U}) CHECK(CallStarts(RunGroup(*level1, up, 1, threads), without) == grid);
  CHECK(CallStarts(RunGroup(*level2, up, 1, 1), without) == std::vector<std::size_t>{0});
  const auto starts = CallStarts(RunGroup(*level2, up, 1, 3), without);
  CHECK(std::ranges::includes(grid, starts));
  CHECK(starts.size() < grid.size());
}

TEST_CASE("linear: an accumulating output adds to what is there") {
  const Stack stack(OpenTiny());
  const auto staged = stack.Stage(ComputeMode::kExact);
  const Site& site = *stack.base().sites().Find(kDown[0]);
  const GroupRun run = RunGroup(*staged, kDown, 2, 1);
  const LinearGroup group(*staged, {&site}, *kernels::Select());
  LinearScratch scratch(group.needs(), 2, 1);
  ThreadPool pool(1);
  std::vector<float> y(2 * site.out, 3.0F);
  const LinearGroup::Output output[] = {{y.data(), site.out, true}};
  group.Run(
      pool, 0, 2, [&](std::uint32_t t, float* row) { std::memcpy(row, &run.x[t * site.in], site.in * sizeof(float)); }, scratch, output);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == 3.0F + run.y[0][i]);
}

}  // namespace
}  // namespace veneer
