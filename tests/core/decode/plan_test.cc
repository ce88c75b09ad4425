#include "core/decode/plan.h"

#include <algorithm>
#include <string>

#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

TEST_CASE("plan: scratch and K/V known beforehand are what a decoder without overlays then holds") {
  const Stack stack(OpenTiny());
  for (const DecoderOptions& options : {DecoderOptions{}, DecoderOptions{.threads = 3, .context = 50, .max_batch = 7},
                                        DecoderOptions{.max_batch = 1, .all_logits = true}}) {
    for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
      const auto decoder = MakeDecoder(stack.Stage(mode), options);
      const Decoder::Memory planned = Decoder::PlannedMemory(stack.base().config(), mode, options);
      // In exact mode no activations are quantized: 36 bytes of each 128 + 40 of an input row.
      CHECK(planned.scratch_bytes >= decoder->scratch_bytes());
      CHECK(planned.scratch_bytes <= decoder->scratch_bytes() * 5 / 4 + 4096);
      CHECK(planned.kv_bytes == decoder->cache().row_bytes() * decoder->cache().context() * 2 * stack.base().config().n_layers);
    }
  }
}

TEST_CASE("plan: keys and values in q8_0 take 34 bytes for each 32 numbers, in the plan and in the decoder") {
  const Stack stack(OpenTiny({.n_kv_heads = 2, .head_dim = 64}));
  const auto staged = stack.Stage(ComputeMode::kFast);
  const DecoderOptions options{.context = 50, .kv = KvType::kQ8_0};
  const std::uint64_t expected = std::uint64_t{stack.base().config().n_layers} * 2 * 50 * 2 * (2 * 34);
  CHECK(Decoder::PlannedMemory(stack.base().config(), ComputeMode::kFast, options).kv_bytes == expected);
  const auto planned = Decoder::PlannedMemory(*staged, options);
  REQUIRE(planned);
  CHECK(planned->kv_bytes == expected);
  CHECK(MakeDecoder(staged, options)->cache().row_bytes() == 2 * 2 * 34);
}

TEST_CASE("plan: with overlays staged it knows to the byte what a decoder then holds, more than of the base alone by what they need") {
  const std::string layer = "model.layers.1.";
  Stack stack(OpenTiny());
  stack.LowRank(layer + "mlp.down_proj", 40, 0.5).Rescale(layer + "mlp.down_proj", Scales::kInput).LowRank("model.embed_tokens", 24, 0.5);
  stack.Rescale(layer + "mlp.down_proj", Scales::kInput);
  for (const DecoderOptions& options : {DecoderOptions{}, DecoderOptions{.threads = 3, .context = 50, .max_batch = 7},
                                        DecoderOptions{.threads = 2, .max_batch = 1, .all_logits = true}}) {
    const auto staged = stack.Stage(ComputeMode::kFast);
    const auto planned = Decoder::PlannedMemory(*staged, options);
    REQUIRE(planned);
    const auto decoder = MakeDecoder(staged, options);
    CHECK(planned->scratch_bytes == decoder->scratch_bytes());
    CHECK(planned->kv_bytes == decoder->cache().row_bytes() * decoder->cache().context() * 2 * stack.base().config().n_layers);
    // down_proj reads 96 numbers: two more versions of them a row; 40 prepared numbers a row there. 24 a token of a block of 32 and
    // thread for the embedding.
    const Decoder::Memory alone = Decoder::PlannedMemory(stack.base().config(), ComputeMode::kFast, options);
    const std::uint64_t rows = std::max(options.max_batch, options.threads);
    CHECK(planned->scratch_bytes - alone.scratch_bytes >= rows * (2 * 96 + 40) * sizeof(float) + options.threads * 32 * 24 * sizeof(float));
  }
}

TEST_CASE("plan: completing it replaces the decoder's terms, adds the composed constants to the runtime and leaves the rest") {
  Stack stack(OpenTiny());
  stack.Rescale("model.layers.0.mlp.down_proj", Scales::kInput);
  const auto staged = stack.Stage(ComputeMode::kExact);
  MemoryPlan before;
  before.runtime_bytes = 1000;
  before.base_bytes = 20;
  before.adapter_bytes = 300;
  const auto plan = CompletePlan(before, *staged, {.context = 16});
  REQUIRE(plan);
  CHECK(plan->runtime_bytes == 1000 + 5 * 64 * sizeof(float));  // five norms of 64 numbers
  CHECK(plan->base_bytes == 20);
  CHECK(plan->adapter_bytes == 300);
  CHECK(plan->kv_bytes == 2 * 2 * 16 * 32 * sizeof(float));  // layers, K and V, positions, width
  CHECK(plan->scratch_bytes == MakeDecoder(staged, {.context = 16})->scratch_bytes());
  CHECK_FALSE(CompletePlan(before, *staged, {.context = 129}));  // the model was made for 128
}

TEST_CASE("plan: admission compares the sum of the terms with the budget, to the byte, and names the terms") {
  MemoryPlan plan;
  plan.runtime_bytes = 1;
  plan.base_bytes = 20;
  plan.adapter_bytes = 300;
  plan.scratch_bytes = 4000;
  plan.kv_bytes = 50000;
  CHECK(plan.peak_bytes() == 54321);
  CHECK(Admit(plan, 54321));
  const Status refused = Admit(plan, 54320);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::MEMORY_BUDGET);
  for (const char* const term : {"54321", "runtime 1", "base 20", "adapters 300", "scratch 4000", "K/V 50000"})
    CHECK(refused.error().detail.find(term) != std::string::npos);
}

}  // namespace
}  // namespace veneer
