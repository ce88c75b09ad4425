#include "core/decode/generate.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace veneer {

std::string StopFilter::Push(std::string_view text) {
  held_ += text;
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stops_)
    if (!stop.empty()) cut = std::min(cut, held_.find(stop));
  if (cut != std::string::npos) {
    stopped_ = true;
    std::string shown = held_.substr(0, cut);
    held_.clear();
    return shown;
  }
  std::size_t keep = 0;  // longest end of the text that begins a stop string
  for (const std::string& stop : stops_)
    for (std::size_t n = std::min(stop.size(), held_.size()); n > keep; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopFilter::Finish() { return std::exchange(held_, {}); }

namespace {

// What the loop of Generate carries from token to token.
class Run {
 public:
  Run(Decoder& decoder, const Tokenizer* tokenizer, const GenerateOptions& options, const std::function<void(std::string_view)>& on_text,
      Generated& so_far)
      : decoder_(decoder),
        tokenizer_(tokenizer),
        options_(options),
        on_text_(on_text),
        so_far_(so_far),
        sampler_(options.sampling),
        filter_(options.stops) {}

  // Feeds the tokens and samples the one after them. True when another one may follow.
  Result<bool> Step(std::span<const TokenId> tokens);
  void Accept(std::span<const TokenId> prompt) {
    for (const TokenId token : prompt) sampler_.Accept(token);
  }
  void ShowRest() {
    Show(filter_.Push(utf8_.Finish()));
    Show(filter_.Finish());
  }

 private:
  void Show(const std::string& text) {
    if (text.empty()) return;
    so_far_.text += text;
    if (on_text_) on_text_(text);
  }

  Decoder& decoder_;
  const Tokenizer* tokenizer_;
  const GenerateOptions& options_;
  const std::function<void(std::string_view)>& on_text_;
  Generated& so_far_;
  Sampler sampler_;
  Utf8Stream utf8_;
  StopFilter filter_;
};

Result<bool> Run::Step(std::span<const TokenId> tokens) {
  TokenId next = 0;
  VENEER_TRY(decoder_.Feed(tokens, false, [&](std::size_t, std::span<const float> logits) -> Status {
    if (Status finite = CheckFinite(logits); !finite) return finite;
    next = sampler_.Sample(logits);
    return {};
  }));
  if (tokenizer_ != nullptr && !options_.ignore_end_of_text && tokenizer_->IsEndOfGeneration(next)) {
    so_far_.reason = StopReason::kEndOfText;
    return false;
  }
  so_far_.tokens.push_back(next);
  if (tokenizer_ == nullptr) return true;
  Show(filter_.Push(utf8_.Push(tokenizer_->Piece(next))));
  if (!filter_.stopped()) return true;
  so_far_.reason = StopReason::kStopString;
  return false;
}

}  // namespace

Status CheckFinite(std::span<const float> logits) {
  if (std::ranges::all_of(logits, [](float value) { return std::isfinite(value); })) return {};
  return Fail(Code::NOT_FINITE, "logits", "a logit is infinite or NaN: the base or an adapter drives the activations out of range");
}

Status Generate(Decoder& decoder, const Tokenizer* tokenizer, std::span<const TokenId> prompt, const GenerateOptions& options,
                const std::function<void(std::string_view)>& on_text, Generated& so_far) {
  using Clock = std::chrono::steady_clock;
  if (prompt.empty()) return Fail(Code::USAGE, "prompt", "no token to start from; give some text or --tokens");
  VENEER_TRY(CheckSampling(options.sampling));
  so_far = {};
  Run run(decoder, tokenizer, options, on_text, so_far);
  run.Accept(prompt);
  for (std::uint32_t made = 0; made < options.max_tokens; ++made) {
    const bool is_prefill = made == 0;
    const Clock::time_point start = Clock::now();
    const Result<bool> goes_on = run.Step(is_prefill ? prompt : std::span<const TokenId>(&so_far.tokens.back(), 1));
    (is_prefill ? so_far.prefill_time : so_far.decode_time) += Clock::now() - start;
    if (!goes_on) {
      run.ShowRest();
      return Fail(goes_on.error());
    }
    if (!is_prefill) ++so_far.decode_steps;
    if (!*goes_on) break;
  }
  if (so_far.reason != StopReason::kStopString) run.ShowRest();
  return {};
}

}  // namespace veneer
