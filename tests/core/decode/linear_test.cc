#include "core/decode/linear.h"

#include <cmath>
#include <cstring>

#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

const std::string kLayer = "model.layers.0.";

// The outputs of one group for `tokens` inputs of random numbers: [site][token * out + lane].
struct GroupRun {
  std::vector<float> x;  // [tokens, in]
  std::vector<std::vector<float>> y;
};

GroupRun RunGroup(const StagedComposition& staged, const std::vector<std::string>& names, std::uint32_t tokens, std::uint32_t threads,
                  std::uint32_t first_token = 0) {
  std::vector<const Site*> sites;
  for (const std::string& name : names) sites.push_back(staged.base().sites().Find(name));
  const LinearGroup group(staged, sites, *kernels::Select());
  LinearScratch scratch(group.needs(), std::max(tokens, threads), threads);
  ThreadPool pool(threads);
  GroupRun run;
  const std::uint64_t in = sites[0]->in;
  run.x = Uniform((first_token + tokens) * in, 1.0F, 99);
  run.x.erase(run.x.begin(), run.x.begin() + static_cast<std::ptrdiff_t>(first_token * in));
  std::vector<LinearGroup::Output> outputs;
  for (const Site* site : sites) run.y.emplace_back(tokens * site->out);
  for (std::size_t s = 0; s < sites.size(); ++s) outputs.push_back({run.y[s].data(), sites[s]->out, false});
  pool.Run([&](std::uint32_t worker) {
    group.Run(
        pool, worker, tokens, [&](std::uint32_t t, float* row) { std::memcpy(row, &run.x[t * in], in * sizeof(float)); }, scratch, outputs);
  });
  return run;
}

// Largest error in units of the bound of reference::Product; above 1 is wrong.
double WorstError(const Stack& stack, const std::vector<std::string>& names, const GroupRun& run) {
  double worst = 0;
  for (std::size_t s = 0; s < names.size(); ++s) {
    const Site& site = *stack.base().sites().Find(names[s]);
    const auto found = stack.edits().find(names[s]);
    const std::vector<reference::Edit> edits = found == stack.edits().end() ? std::vector<reference::Edit>() : found->second;
    for (std::size_t t = 0; t < run.y[s].size() / site.out; ++t) {
      const auto product = reference::Multiply(site, stack.base().sites(), edits, std::span(run.x).subspan(t * site.in, site.in));
      for (std::uint64_t lane = 0; lane < site.out; ++lane) {
        const double error = std::abs(static_cast<double>(run.y[s][t * site.out + lane]) - product.y[lane]);
        worst = std::max(worst, error / (1.01 * product.depth * 0x1p-24 * product.magnitude[lane]));
      }
    }
  }
  return worst;
}

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

TEST_CASE("linear: fast products of quantized bases stay within the error of 8-bit activations") {
  const Stack stack(OpenTiny({.matrix_type = VNR_Q8_0}));
  const auto staged = stack.Stage(ComputeMode::kFast);
  const GroupRun run = RunGroup(*staged, kGateUp, 3, 2);
  for (std::size_t s = 0; s < kGateUp.size(); ++s) {
    const Site& site = *stack.base().sites().Find(kGateUp[s]);
    std::vector<float> w(site.out * site.in);
    ReadRows(site, 0, site.out, w.data(), site.in);
    for (std::size_t t = 0; t < 3; ++t)
      for (std::uint64_t lane = 0; lane < site.out; ++lane) {
        // |x - d q| <= d / 2 with d = max|x| / 127 <= 1 / 127 for inputs in [-1, 1); 1 % for the f32 roundings of d and the sum.
        double y = 0, abs_sum = 0;
        for (std::uint64_t i = 0; i < site.in; ++i) {
          y += static_cast<double>(w[lane * site.in + i]) * static_cast<double>(run.x[t * site.in + i]);
          abs_sum += std::abs(static_cast<double>(w[lane * site.in + i]));
        }
        CHECK(std::abs(static_cast<double>(run.y[s][t * site.out + lane]) - y) <= 1.01 * abs_sum / 254);
      }
  }
  CHECK(WorstError(stack, kGateUp, run) > 1);  // and it is the 8-bit path that ran
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
