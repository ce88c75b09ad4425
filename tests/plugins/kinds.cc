#include "tests/plugins/kinds.h"

#include "tests/plugins/sparse_delta_matrix.h"

extern "C" {
extern const vnr_entry veneer_overlay_entry_v1_example_dora;
}

namespace plugin_test {

const vnr_kind& DoraKind() { return *veneer_overlay_entry_v1_example_dora.kinds[0]; }

std::vector<Example> Examples(std::uint64_t out, std::uint64_t in, std::uint64_t rank) {
  std::mt19937 rng(20261201);
  const Site linear{VNR_SITE_LINEAR, out, in}, embedding{VNR_SITE_EMBEDDING, out, in};
  const std::vector<float> base = RandomFloats(rng, out * in);
  std::vector<Example> examples;
  for (const auto& [type, name] : {std::pair<std::uint32_t, const char*>{VNR_F32, "f32"}, {VNR_F16, "f16"}, {VNR_BF16, "bf16"}}) {
    const std::string suffix = std::string(" ") + name;
    examples.push_back({"lora" + suffix,
                        &StaticKind("lora"),
                        linear,
                        {{"A", Random(rng, type, {rank, in})}, {"B", Random(rng, type, {out, rank})}, {"bias", Random(rng, type, {out})}},
                        {{"/scale", 1.5}, {"/strength", 0.8}},
                        base});
    examples.push_back({"lora embedding" + suffix,
                        &StaticKind("lora"),
                        embedding,
                        {{"embedding_A", Random(rng, type, {rank, out})}, {"embedding_B", Random(rng, type, {in, rank})}},
                        {{"/scale", 1.5}, {"/strength", 0.8}},
                        base});
    examples.push_back(
        {"ia3 input" + suffix, &StaticKind("ia3"), linear, {{"l_in", Random(rng, type, {1, in})}}, {{"/strength", 0.8}}, base});
    examples.push_back(
        {"ia3 output" + suffix, &StaticKind("ia3"), linear, {{"l_out", Random(rng, type, {out, 1})}}, {{"/strength", 0.8}}, base});
    for (const Site& site : {linear, embedding})
      examples.push_back(
          {"residual" + suffix, &StaticKind("residual"), site, {{"weight", Random(rng, type, {out, in})}}, {{"/strength", 0.8}}, base});
  }
  const std::pair<std::uint32_t, double> densities[] = {{VNR_F32, 0.02}, {VNR_F16, 0.3}, {VNR_BF16, 0.9}};
  for (const auto& [type, density] : densities) {
    const SparseMatrix matrix = SparseMatrix::Random(rng, out, in, density, type);
    const Params params = {{"/scale", 1.5}, {"/strength", 0.8}};
    examples.push_back({"sparse-delta csr", &StaticKind("sparse-delta"), linear, matrix.Csr(), params, base});
    examples.push_back({"sparse-delta coo", &StaticKind("sparse-delta"), linear, matrix.Shuffled(rng).Coo(VNR_I32), params, base});
  }
  examples.push_back(
      {"dora",
       &DoraKind(),
       linear,
       {{"A", Random(rng, VNR_F32, {rank, in})}, {"B", Random(rng, VNR_F16, {out, rank})}, {"m", Random(rng, VNR_F32, {out})}},
       {{"/scale", 0.5}, {"/strength", 0.8}},
       base});
  return examples;
}

}  // namespace plugin_test
