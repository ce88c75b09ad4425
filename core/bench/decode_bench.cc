#include "core/bench/decode_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/bench/read_control.h"

namespace veneer {
namespace {

constexpr std::uint32_t kWarmUpTokens = 4;
constexpr int kControlPasses = 3;

// Which tokens they are does not matter to the speed, as long as their embeddings are not all the same row.
std::vector<TokenId> SomeTokens(const Decoder& decoder, std::uint32_t n) {
  const std::uint32_t vocab = decoder.composition().base().config().vocab;
  std::vector<TokenId> tokens;
  std::uint32_t state = 1;
  for (std::uint32_t i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    tokens.push_back(static_cast<TokenId>((state >> 8) % vocab));
  }
  return tokens;
}

Result<double> MsOfToken(Decoder& decoder, const TokenId& token) { return MsOfFeed(decoder, {&token, 1}); }

// The first token after the other decoder's is not timed: that one's workers spin for a moment yet, on the same cores, before they sleep.
Result<double> MsOfSettledToken(Decoder& decoder, const TokenId& token) {
  VENEER_TRY(MsOfToken(decoder, token));
  return MsOfToken(decoder, token);
}

// Ratios of speed, one a token. Who goes first alternates; the caches are emptied when they are half full.
Result<std::vector<double>> PairTokens(Decoder& without, Decoder& with, std::uint32_t tokens) {
  std::vector<double> ratios;
  for (const TokenId token : SomeTokens(without, tokens)) {
    if (2 * without.cache().position() >= without.cache().context()) {
      without.cache().Truncate(0);
      with.cache().Truncate(0);
    }
    const bool swapped = ratios.size() % 2 == 1;
    VENEER_ASSIGN(const double first, MsOfSettledToken(swapped ? with : without, token));
    VENEER_ASSIGN(const double second, MsOfSettledToken(swapped ? without : with, token));
    ratios.push_back(swapped ? second / first : first / second);
  }
  return ratios;
}

Result<std::vector<double>> PairPrompts(Decoder& without, Decoder& with, std::uint32_t tokens, std::uint64_t prompts) {
  std::vector<double> ratios;
  for (std::uint64_t i = 0; i < prompts; ++i) {
    Decoder& first = i % 2 == 0 ? without : with;
    Decoder& second = i % 2 == 0 ? with : without;
    VENEER_ASSIGN(const double a, TokensPerS(first, {Phase::kPrefill, tokens}));
    VENEER_ASSIGN(const double b, TokensPerS(second, {Phase::kPrefill, tokens}));
    ratios.push_back(i % 2 == 0 ? b / a : a / b);
  }
  return ratios;
}

// A whole prompt, whose batches are not those of a short one; of tokens one by one, a few.
Status WarmUp(Decoder& decoder, Series series) {
  if (series.phase == Phase::kDecode) series.tokens = std::min(series.tokens, kWarmUpTokens);
  VENEER_TRY(TokensPerS(decoder, series));
  return {};
}

}  // namespace

Result<double> MsOfFeed(Decoder& decoder, std::span<const TokenId> tokens) {
  const auto start = BenchClock::now();
  VENEER_TRY(decoder.Feed(tokens, false, [](std::size_t, std::span<const float>) { return Status(); }));
  return MsSince(start);
}

Result<double> TokensPerS(Decoder& decoder, const Series& series) {
  if (const std::uint32_t context = decoder.cache().context(); std::uint64_t{series.depth} + series.tokens > context)
    return Fail(Code::CONTEXT_FULL, "context",
                fmt::format("{} tokens behind {}, the context has {}; give a larger -c, if the model allows it, or fewer tokens",
                            series.tokens, series.depth, context));
  decoder.cache().Truncate(std::min(series.depth, decoder.cache().position()));
  if (const std::uint32_t lacking = series.depth - decoder.cache().position(); lacking > 0)
    VENEER_TRY(MsOfFeed(decoder, SomeTokens(decoder, lacking)));
  const auto ids = SomeTokens(decoder, series.tokens);
  const auto start = BenchClock::now();
  if (series.phase == Phase::kPrefill) {
    VENEER_TRY(MsOfFeed(decoder, ids));
  } else {
    for (const TokenId& token : ids) VENEER_TRY(MsOfToken(decoder, token));
  }
  return 1e3 * series.tokens / MsSince(start);
}

Result<double> WarmTokensPerS(Decoder& decoder, const Series& series) {
  VENEER_TRY(WarmUp(decoder, series));
  return TokensPerS(decoder, series);
}

double SpeedReport::share_of_control() const { return tokens_per_s.median * static_cast<double>(bytes_per_token) / 1e9 / control_gb_per_s; }

Result<SpeedReport> BenchSpeed(Decoder& decoder, const Series& series, std::uint64_t runs, std::uint32_t threads) {
  const StagedComposition& composition = decoder.composition();
  ReadControl control(composition.base(), threads);
  VENEER_TRY(WarmUp(decoder, series));
  std::vector<double> speeds, controls{control.GbPerS(kControlPasses)};
  for (std::uint64_t run = 0; run < runs; ++run) {
    VENEER_ASSIGN(speeds.emplace_back(), TokensPerS(decoder, series));
    controls.push_back(control.GbPerS(kControlPasses));
  }
  return SpeedReport{IntervalOf(std::move(speeds)), MedianOf(std::move(controls)), control.bytes(), composition.overlay_bytes()};
}

Result<OverlayReport> BenchOverlays(Decoder& without, Decoder& with, std::uint32_t tokens, std::uint32_t prompt_tokens,
                                    std::uint64_t prompts) {
  OverlayReport report;
  report.overlay_bytes = with.composition().overlay_bytes();
  for (const auto& weight : LinearWeights(with.composition().base())) report.base_bytes += weight.size();
  for (Decoder* decoder : {&without, &with}) VENEER_TRY(TokensPerS(*decoder, {Phase::kDecode, kWarmUpTokens}));
  VENEER_ASSIGN(auto decoded, PairTokens(without, with, tokens));
  report.decode_ratio = IntervalOf(std::move(decoded));
  VENEER_ASSIGN(auto prefilled, PairPrompts(without, with, prompt_tokens, prompts));
  report.prefill_ratio = IntervalOf(std::move(prefilled));
  return report;
}

}  // namespace veneer
