// Speed of a decoder: one token at a time, a prompt, and both with an overlay against without.
#ifndef VENEER_CORE_BENCH_DECODE_BENCH_H_
#define VENEER_CORE_BENCH_DECODE_BENCH_H_

#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "core/bench/statistics.h"
#include "core/decode/decoder.h"

namespace veneer {

// Feeds the tokens in one call, with the logits of the last looked at by nobody; milliseconds.
Result<double> MsOfFeed(Decoder& decoder, std::span<const TokenId> tokens);

enum class Phase { kDecode, kPrefill };
struct Series {
  Phase phase = Phase::kDecode;
  std::uint32_t tokens = 128;
  std::uint32_t depth = 0;  // tokens that the cache holds before
};
// One series, timed: `tokens` tokens are fed behind `depth` others, one by one or in one call. E505 when the context is shorter.
Result<double> TokensPerS(Decoder& decoder, const Series& series);
// The same after an untimed series, the whole prompt or a few tokens: after a pause, the first passes over the weights also wake workers
// and find their pages again.
Result<double> WarmTokensPerS(Decoder& decoder, const Series& series);

struct SpeedReport {
  Interval tokens_per_s;
  double control_gb_per_s = 0;        // read-only passes between the series
  std::uint64_t bytes_per_token = 0;  // of the base's weights
  std::uint64_t overlay_bytes = 0;
  // What a token's base bytes would take at the control's speed, against what it took.
  [[nodiscard]] double share_of_control() const;
};
// A warm-up, then `runs` series with control passes between them.
Result<SpeedReport> BenchSpeed(Decoder& decoder, const Series& series, std::uint64_t runs, std::uint32_t threads);

// Speed with overlays against without (1: they cost nothing). Decoding alternates token by token, and prefill prompt by prompt, so that
// what the machine does besides falls on both.
struct OverlayReport {
  std::uint64_t overlay_bytes = 0, base_bytes = 0;  // that a token reads
  Interval decode_ratio, prefill_ratio;
  // The share of time that the bytes alone explain.
  [[nodiscard]] double byte_ratio() const { return static_cast<double>(overlay_bytes) / static_cast<double>(base_bytes); }
};
Result<OverlayReport> BenchOverlays(Decoder& without, Decoder& with, std::uint32_t tokens, std::uint32_t prompt_tokens,
                                    std::uint64_t prompts);

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_DECODE_BENCH_H_
