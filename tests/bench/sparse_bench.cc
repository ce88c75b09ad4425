// The sparse overlay on a site of 2048 x 5632: one prepare and one apply over all lanes in tiles of 104, one thread, as a decoder calls
// them. `alone` gives the same tokens one by one, which no sharing of entries helps. Items are multiply-adds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/plugins/harness.h"
#include "tests/plugins/sparse_delta_matrix.h"

namespace {

constexpr std::uint64_t kOut = 2048, kIn = 5632, kTile = 104;
constexpr std::uint32_t kBlock = 32;  // tokens of a call

void Run(benchmark::State& state, std::uint32_t type, double density, std::uint32_t tokens, std::uint32_t block) {
  std::mt19937 rng(1);
  const auto matrix = plugin_test::SparseMatrix::Random(rng, kOut, kIn, density, type);
  plugin_test::TestHost host;
  plugin_test::Binding binding(host, plugin_test::StaticKind("sparse-delta"), {VNR_SITE_LINEAR, kOut, kIn}, matrix.Csr(), {});
  if (!binding.Ready()) return state.SkipWithError("not ready");
  const std::vector<float> x = plugin_test::RandomFloats(rng, tokens * kIn);
  const std::uint64_t prepared_floats = binding.program.prepared_bytes_per_token / sizeof(float) + 16;
  std::vector<float> y(kBlock * kTile), prepared(tokens * prepared_floats);
  vnr_io io{};
  io.struct_size = sizeof io;
  io.x_stride = kIn;
  io.y_stride = kTile;
  io.prepared_stride = prepared_floats * sizeof(float);
  const auto at = [&](std::uint32_t t0) {
    io.tokens = std::min(block, tokens - t0);
    io.x = x.data() + t0 * kIn;
    io.prepared = prepared.data() + t0 * prepared_floats;
  };
  for (auto _ : state) {
    for (std::uint32_t t0 = 0; t0 < tokens; t0 += block) {
      at(t0);
      binding.kind().prepare(binding.raw(), &io, 0, binding.program.prepare_units);
    }
    for (std::uint64_t lane = 0; lane < kOut; lane += kTile)
      for (std::uint32_t t0 = 0; t0 < tokens; t0 += block) {
        at(t0);
        io.y = y.data() - lane;
        binding.kind().apply(binding.raw(), &io, lane, std::min(lane + kTile, kOut));
      }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(matrix.entries.size() * tokens));
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& [type, name] : {std::pair<std::uint32_t, const char*>{VNR_F32, "f32"}, {VNR_F16, "f16"}})
    for (const double density : {0.001, 0.01})
      for (const std::uint32_t tokens : {1U, 8U, 32U, 128U, 512U})
        for (const bool is_alone : {false, true}) {
          if (is_alone && tokens == 1) continue;
          const std::string label = std::string(name) + (density < 0.005 ? "/0.1%" : "/1%") + "/tokens:" + std::to_string(tokens);
          benchmark::RegisterBenchmark((label + (is_alone ? "/alone" : "")).c_str(), [=](benchmark::State& state) {
            Run(state, type, density, tokens, is_alone ? 1 : kBlock);
          })->Unit(benchmark::kMicrosecond);
        }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
