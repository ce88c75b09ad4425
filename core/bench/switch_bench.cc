#include "core/bench/switch_bench.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "core/bench/decode_bench.h"
#include "core/decode/active_composition.h"

namespace veneer {
namespace {

constexpr std::uint64_t kSwitchBacks = 7;

// Decodes, prompt after prompt, under whatever is published, until told to stop or something but a switch ends it.
class Load {
 public:
  Load(ActiveComposition& active, const DecoderOptions& options) : thread_([this, &active, options] { Run(active, options); }) {}
  ~Load() { Stop(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void AwaitFirst() const {
    while (decodes_ == 0 && !ended_) std::this_thread::yield();
  }
  Status Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return error_ ? Status(std::unexpected(*error_)) : Status();
  }
  [[nodiscard]] std::uint64_t decodes() const { return decodes_; }

 private:
  void Run(ActiveComposition& active, const DecoderOptions& options) {
    while (!stop_ && !error_) {
      auto decode = BeginDecode(active, options);
      if (!decode) {
        error_ = std::move(decode).error();
        break;
      }
      ++decodes_;
      Decoder& decoder = *decode->decoder;
      while (!stop_) {
        if (decoder.cache().position() == decoder.cache().context()) decoder.cache().Truncate(0);
        const TokenId token = 1;
        const auto fed = MsOfFeed(decoder, {&token, 1});
        if (fed) continue;
        if (fed.error().code != Code::COMPOSITION_CHANGED) error_ = fed.error();
        break;
      }
    }
    ended_ = true;
  }

  std::atomic<bool> stop_{false}, ended_{false};
  std::atomic<std::uint64_t> decodes_{0};
  std::optional<Error> error_;  // written by the thread; read when it has been joined
  std::thread thread_;          // last: it uses all of these
};

Status MeasurePublishing(ActiveComposition& active, const std::shared_ptr<const StagedComposition>& one,
                         const std::shared_ptr<const StagedComposition>& other, const DecoderOptions& options, std::uint64_t runs,
                         SwitchReport& report) {
  Load load(active, options);
  load.AwaitFirst();
  std::vector<double> publish;
  for (std::uint64_t run = 0; run < runs; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + run % 7));  // into different moments of a token
    const auto start = BenchClock::now();
    const auto previous = active.Switch(run % 2 == 0 ? other : one, SwitchPolicy::kAbort);
    publish.push_back(MsSince(start));
    if (!previous) return Fail(previous.error());
  }
  report.publish = QuantilesOf(std::move(publish));
  const Status status = load.Stop();
  report.decodes = load.decodes();
  return status;
}

Status MeasureSwitchBack(const std::shared_ptr<const StagedComposition>& one, const std::shared_ptr<const StagedComposition>& other,
                         const DecoderOptions& options, std::uint32_t prompt_tokens, SwitchReport& report) {
  VENEER_ASSIGN(const auto first, Decoder::Create(one, options));
  VENEER_ASSIGN(const auto second, Decoder::Create(other, options));
  const std::vector<TokenId> prompt(prompt_tokens, 1);
  std::vector<double> cold, back;
  for (std::uint64_t i = 0; i < kSwitchBacks; ++i) {
    for (Decoder* decoder : {first.get(), second.get()}) {
      decoder->cache().Truncate(0);
      VENEER_ASSIGN(cold.emplace_back(), MsOfFeed(*decoder, prompt));
    }
    for (Decoder* decoder : {first.get(), second.get()}) {
      VENEER_ASSIGN(back.emplace_back(), MsOfFeed(*decoder, {prompt.data(), 1}));
    }
  }
  report.prompt_ms = MedianOf(std::move(cold));
  report.switch_back_ms = MedianOf(std::move(back));
  return {};
}

}  // namespace

Result<SwitchReport> BenchSwitch(const std::shared_ptr<const StagedComposition>& one, const std::shared_ptr<const StagedComposition>& other,
                                 const DecoderOptions& options, std::uint32_t prompt_tokens, std::uint64_t runs) {
  SwitchReport report;
  ActiveComposition active(one);
  VENEER_TRY(MeasurePublishing(active, one, other, options, runs, report));
  VENEER_TRY(MeasureSwitchBack(one, other, options, prompt_tokens, report));
  return report;
}

}  // namespace veneer
