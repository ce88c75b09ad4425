#include "core/cli/bench_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bench/decode_bench.h"
#include "core/bench/kernel_bench.h"
#include "core/bench/peer.h"
#include "core/bench/switch_bench.h"
#include "core/cli/bench_plots.h"
#include "core/cli/output.h"
#include "core/model/select_kernels.h"

namespace veneer::cli {
namespace {

constexpr std::uint32_t kDecodeTokens = 128, kPromptTokens = 512;
constexpr std::uint64_t kSpeedRuns = 5, kPrompts = 7, kSwitches = 500;
constexpr std::uint32_t kPairedTokens = 201;  // of overlays: an interval of about +-15 ranks around the median
constexpr std::uint32_t kPairedPrompt = 256, kSwitchPrompt = 128;

// Room for what is measured and not for the whole context of the model, whose K/V would be most of the memory.
DecoderOptions OptionsFor(const Session& session, const ValidatedComposition& validated, std::uint64_t tokens) {
  DecoderOptions decoder = session.decoder_options(session.options().batch);
  if (!decoder.context)
    decoder.context = static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, validated.base()->config().context_length));
  return decoder;
}

struct Ready {
  std::shared_ptr<const StagedComposition> staged;
  DecoderOptions options;
  [[nodiscard]] Result<std::unique_ptr<Decoder>> MakeDecoder() const { return Decoder::Create(staged, options); }
};
Result<Ready> Prepare(Session& session, const ValidatedComposition& validated, std::uint64_t tokens) {
  Ready ready;
  ready.options = OptionsFor(session, validated, tokens);
  VENEER_ASSIGN(StagedPlan planned, session.Stage(validated, ready.options, session.options().memory_budget));
  ready.staged = std::move(planned.staged);
  return ready;
}

std::string RangeText(const Interval& interval, int digits) {
  return fmt::format("{:.{}f} .. {:.{}f}", interval.low, digits, interval.high, digits);
}
std::string ValueText(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

std::string Heading(const Series& series, std::uint32_t threads) {
  const std::string behind = series.depth == 0 ? "" : fmt::format(" BEHIND {}", series.depth);
  return fmt::format("{} TOKENS{}, {} THREADS", series.tokens, behind, threads);
}

Result<int> PrintAgainst(Session& session, Decoder& decoder, const Series& series, const char* key) {
  const Options& options = session.options();
  if (!options.base) return Fail(Code::USAGE, "--against", "needs --base FILE: the other program reads the same file");
  const PeerRun peer{*options.against, *options.base, series, options.threads};
  const auto ours = [&] { return WarmTokensPerS(decoder, series); };  // the other program warms up too
  VENEER_ASSIGN(const PairedReport report, BenchAgainst(peer, ours, options.runs.value_or(kSpeedRuns)));
  if (options.json) {
    PrintJson({{key, report.ours.median},
               {"tokens", series.tokens},
               {"depth", series.depth},
               {"threads", options.threads},
               {"interval", ToJson(report.ours)},
               {"peer", {{"program", *options.against}, {"tokens_per_s", ToJson(report.theirs)}, {"ratio", ToJson(report.ratio)}}}});
    return 0;
  }
  const std::vector<std::vector<std::string>> rows{
      {Heading(series, options.threads), "MEDIAN", "95 %"},
      {"veneer, tokens/s", ValueText(report.ours.median, 2), RangeText(report.ours, 2)},
      {fmt::format("{}, tokens/s", options.against->c_str()), ValueText(report.theirs.median, 2), RangeText(report.theirs, 2)},
      {"ratio of pairs", ValueText(report.ratio.median, 3), RangeText(report.ratio, 3)}};
  Print(Table(rows));
  return 0;
}

Result<int> RunSpeed(Session& session, Phase phase, std::uint32_t default_tokens, const char* key) {
  const Options& options = session.options();
  const Series series{phase, options.count.value_or(default_tokens), options.depth.value_or(0)};
  VENEER_ASSIGN(const ValidatedComposition selected, session.Selected());
  VENEER_ASSIGN(const Ready ready, Prepare(session, selected, std::uint64_t{series.depth} + series.tokens));
  VENEER_ASSIGN(const auto decoder, ready.MakeDecoder());
  if (options.against) return PrintAgainst(session, *decoder, series, key);
  VENEER_ASSIGN(const SpeedReport report, BenchSpeed(*decoder, series, options.runs.value_or(kSpeedRuns), options.threads));
  const double gb_per_s = report.tokens_per_s.median * static_cast<double>(report.bytes_per_token) / 1e9;
  if (options.json) {
    OutJson json{{key, report.tokens_per_s.median},
                 {"tokens", series.tokens},
                 {"depth", series.depth},
                 {"threads", options.threads},
                 {"interval", ToJson(report.tokens_per_s)},
                 {"base_bytes_per_token", report.bytes_per_token},
                 {"overlay_bytes", report.overlay_bytes},
                 {"control_gb_per_s", report.control_gb_per_s}};
    if (phase == Phase::kDecode) json.update(OutJson{{"gb_per_s", gb_per_s}, {"share_of_control", report.share_of_control()}});
    PrintJson(json);
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{Heading(series, options.threads), "MEDIAN", "95 %"},
                                             {"tokens/s", ValueText(report.tokens_per_s.median, 2), RangeText(report.tokens_per_s, 2)},
                                             {"control: read only, GB/s", ValueText(report.control_gb_per_s, 1), ""}};
  if (phase == Phase::kDecode) {
    rows.push_back({"weights, GB/s", ValueText(gb_per_s, 1), ""});
    rows.push_back({"share of the control", ValueText(report.share_of_control(), 3), ""});
  }
  Print(Table(rows));
  return 0;
}

// A stack to measure, and what to call it.
struct Stack {
  std::string name;
  std::vector<std::string> adapters;
};

std::vector<Stack> StacksOf(const Options& options) {
  std::vector<Stack> stacks;
  for (const std::string& adapter : options.adapters) stacks.push_back({adapter, {adapter}});
  if (stacks.size() > 1) stacks.push_back({"all of them", options.adapters});
  return stacks;
}

// A session over the same base with other adapters.
Session With(const Session& session, std::vector<std::string> adapters) {
  Options options = session.options();
  options.adapters = std::move(adapters);
  return Session(std::move(options));
}

struct StackResult {
  Stack stack;
  std::string kinds;                  // "lora r16"
  std::optional<std::uint64_t> rank;  // their sum, when each has one
  OverlayReport report;
};

std::string KindsText(const Composition& composition) {
  std::string text;
  for (const AdapterEntry& adapter : composition.adapters)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", adapter.kind, adapter.rank == 0 ? "" : fmt::format(" r{}", adapter.rank));
  return text;
}

std::optional<std::uint64_t> RankOf(const Composition& composition) {
  std::uint64_t sum = 0;
  for (const AdapterEntry& adapter : composition.adapters) {
    if (adapter.rank == 0) return std::nullopt;
    sum += adapter.rank;
  }
  return sum;
}

// The same on every machine, as far as the machine is not what is measured.
std::string FactsOf(const Options& options, const std::string& subject, std::string_view isa) {
  return fmt::format("{}, {} thread{}, {}", subject, options.threads, options.threads == 1 ? "" : "s", isa);
}

Result<StackResult> MeasureStack(const Session& session, Stack stack, Decoder& without, std::uint32_t context) {
  const Options& options = session.options();
  Session own = With(session, stack.adapters);
  VENEER_ASSIGN(const ValidatedComposition validated, own.Selected());
  Session::PrintNotes(validated);
  VENEER_ASSIGN(const Ready ready, Prepare(own, validated, context));
  VENEER_ASSIGN(const auto with, ready.MakeDecoder());
  VENEER_ASSIGN(OverlayReport report, BenchOverlays(without, *with, options.count.value_or(kPairedTokens), std::min(kPairedPrompt, context),
                                                    options.runs.value_or(kPrompts)));
  return StackResult{std::move(stack), KindsText(validated.composition()), RankOf(validated.composition()), report};
}

Plot PlotOf(const Options& options, const std::vector<StackResult>& results) {
  std::vector<OverlayFigures> figures;
  for (const StackResult& result : results) figures.push_back({result.kinds, result.rank, result.report});
  const auto base = std::filesystem::path(*options.base).lexically_normal();
  const auto name = base.has_filename() ? base.filename() : base.parent_path().filename();  // of a folder, written "NAME/"
  return OverheadPlot(figures, FactsOf(options, name.string(), kernels::Select()->isa));
}

void PrintStacks(const Options& options, const std::vector<StackResult>& results) {
  if (options.json) {
    OutJson list = OutJson::array();
    for (const StackResult& result : results)
      list.push_back({{"adapters", result.stack.adapters},
                      {"kinds", result.kinds},
                      {"overlay_bytes", result.report.overlay_bytes},
                      {"byte_ratio", result.report.byte_ratio()},
                      {"decode_ratio", ToJson(result.report.decode_ratio)},
                      {"prefill_ratio", ToJson(result.report.prefill_ratio)}});
    PrintJson({{"base_bytes_per_token", results.front().report.base_bytes}, {"threads", options.threads}, {"overlays", list}});
    return;
  }
  std::vector<std::vector<std::string>> rows{{"OVERLAY", "KIND", "BYTES", "OF BASE", "DECODE", "95 %", "PREFILL", "95 %"}};
  for (const StackResult& result : results)
    rows.push_back({result.stack.name, result.kinds, ByteText(result.report.overlay_bytes),
                    fmt::format("{:.2f} %", 100 * result.report.byte_ratio()), ValueText(result.report.decode_ratio.median, 3),
                    RangeText(result.report.decode_ratio, 3), ValueText(result.report.prefill_ratio.median, 3),
                    RangeText(result.report.prefill_ratio, 3)});
  Print(Table(rows));
}

Status NeedBaseAndAdapters(const Options& options) {
  if (options.base && !options.adapters.empty()) return {};
  return Fail(Code::USAGE, options.base ? "--adapter" : "--base",
              fmt::format("is missing; give --base FILE and --adapter PATH[=W] for what is to be compared"));
}

}  // namespace

OutJson ToJson(const Interval& interval) { return {{"median", interval.median}, {"low", interval.low}, {"high", interval.high}}; }

Result<int> RunDecodeBench(Session& session) { return RunSpeed(session, Phase::kDecode, kDecodeTokens, "decode_tokens_per_s"); }

Result<int> RunPrefillBench(Session& session) { return RunSpeed(session, Phase::kPrefill, kPromptTokens, "prefill_tokens_per_s"); }

Result<int> RunKernelsBench(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(const kernels::Table* const table, SelectKernels());
  KernelBenchOptions bench;
  bench.threads = options.threads;
  bench.tokens = options.count.value_or(bench.tokens);
  bench.runs = options.runs.value_or(bench.runs);
  VENEER_ASSIGN(auto svg, OpenSvg(options.svg));
  VENEER_ASSIGN(const auto results, BenchKernels(*table, bench));
  VENEER_TRY(WriteSvg(svg, RooflinePlot(results, bench.tokens, FactsOf(options, ByteText(bench.bytes) + " of weights", table->isa))));
  if (options.json) {
    OutJson list = OutJson::array();
    for (const KernelResult& result : results)
      list.push_back({{"type", result.type},
                      {"activations", result.is_integer ? "int8" : "f32"},
                      {"bytes_per_weight", result.bytes_per_weight},
                      {"gb_per_s", result.gb_per_s},
                      {"control_gb_per_s", result.control_gb_per_s},
                      {"gop_per_s", result.gop_per_s}});
    PrintJson({{"isa", table->isa}, {"threads", options.threads}, {"tokens", bench.tokens}, {"kernels", list}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{fmt::format("{}, {} THREADS", table->isa, options.threads), "X", "GB/S", "CONTROL", "SHARE",
                                              fmt::format("GOP/S, {} TOKENS", bench.tokens)}};
  for (const KernelResult& result : results)
    rows.push_back({result.type, result.is_integer ? "int8" : "f32", ValueText(result.gb_per_s, 1), ValueText(result.control_gb_per_s, 1),
                    ValueText(result.gb_per_s / result.control_gb_per_s, 2), ValueText(result.gop_per_s, 0)});
  Print(Table(rows));
  return 0;
}

Result<int> RunOverlaysBench(Session& session) {
  const Options& options = session.options();
  VENEER_TRY(NeedBaseAndAdapters(options));
  VENEER_ASSIGN(auto svg, OpenSvg(options.svg));
  Session alone = With(session, {});
  VENEER_ASSIGN(const ValidatedComposition validated, alone.Selected());
  VENEER_ASSIGN(const Ready ready, Prepare(alone, validated, kPairedPrompt));
  VENEER_ASSIGN(const auto without, ready.MakeDecoder());
  std::vector<StackResult> results;
  for (Stack& stack : StacksOf(options)) {
    VENEER_ASSIGN(results.emplace_back(), MeasureStack(session, std::move(stack), *without, without->cache().context()));
  }
  VENEER_TRY(WriteSvg(svg, PlotOf(options, results)));
  PrintStacks(options, results);
  return 0;
}

Result<int> RunSwitchBench(Session& session) {
  const Options& options = session.options();
  VENEER_TRY(NeedBaseAndAdapters(options));
  const std::uint32_t prompt = options.count.value_or(kSwitchPrompt);
  Session alone = With(session, {});
  VENEER_ASSIGN(const ValidatedComposition base, alone.Selected());
  VENEER_ASSIGN(const ValidatedComposition full, session.Selected());
  VENEER_ASSIGN(const Ready one, Prepare(alone, base, prompt + 1));
  VENEER_ASSIGN(const Ready other, Prepare(session, full, prompt + 1));
  VENEER_ASSIGN(const SwitchReport report, BenchSwitch(one.staged, other.staged, one.options, prompt, options.runs.value_or(kSwitches)));
  if (options.json) {
    PrintJson({{"publish_median_ms", report.publish.median_ms},
               {"publish_p99_ms", report.publish.p99_ms},
               {"decodes", report.decodes},
               {"prompt_tokens", prompt},
               {"prompt_ms", report.prompt_ms},
               {"switch_back_ms", report.switch_back_ms},
               {"threads", options.threads}});
    return 0;
  }
  Print(Table(
      {{fmt::format("{} THREADS", options.threads), "MEDIAN", "P99"},
       {"publishing, while decoding", fmt::format("{:.4f} ms", report.publish.median_ms), fmt::format("{:.4f} ms", report.publish.p99_ms)},
       {fmt::format("prompt of {} tokens", prompt), fmt::format("{:.2f} ms", report.prompt_ms), ""},
       {"next token where K/V is held", fmt::format("{:.2f} ms", report.switch_back_ms), ""}}));
  return 0;
}

}  // namespace veneer::cli
