#include "core/decode/plan.h"

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
