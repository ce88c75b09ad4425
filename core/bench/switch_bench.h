// What a process pays to change the composition it decodes under.
#ifndef VENEER_CORE_BENCH_SWITCH_BENCH_H_
#define VENEER_CORE_BENCH_SWITCH_BENCH_H_

#include <cstdint>
#include <memory>

#include "core/base/error.h"
#include "core/bench/statistics.h"
#include "core/compose/staged_composition.h"
#include "core/decode/decoder.h"

namespace veneer {

struct SwitchReport {
  Quantiles publish;          // from the call to the new composition being what the next decode gets, while another thread decodes
  double prompt_ms = 0;       // median: the prompt fed under a composition for the first time, to its first logits
  double switch_back_ms = 0;  // median: the next token under a composition whose K/V is still held
  std::uint64_t decodes = 0;  // that were begun meanwhile
};

// Publishes the two compositions in turn, `runs` times. E504, and what decoding refuses.
Result<SwitchReport> BenchSwitch(const std::shared_ptr<const StagedComposition>& one, const std::shared_ptr<const StagedComposition>& other,
                                 const DecoderOptions& options, std::uint32_t prompt_tokens, std::uint64_t runs);

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_SWITCH_BENCH_H_
