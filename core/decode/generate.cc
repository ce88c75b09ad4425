#include "core/decode/generate.h"

#include <algorithm>
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

Status Generate(Decoder& decoder, const Tokenizer* tokenizer, std::span<const TokenId> prompt, const GenerateOptions& options,
                const std::function<void(std::string_view)>& on_text, Generated& so_far) {
  if (prompt.empty()) return Fail(Code::USAGE, "prompt", "no token to start from; give some text or --tokens");
  Sampler sampler(options.sampling);
  for (const TokenId token : prompt) sampler.Accept(token);
  Utf8Stream utf8;
  StopFilter filter(options.stops);
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    so_far.text += text;
    if (on_text) on_text(text);
  };
  TokenId next = 0;
  const auto sample = [&](std::size_t, std::span<const float> logits) -> Status {
    next = sampler.Sample(logits);
    return {};
  };
  so_far.reason = StopReason::kLength;
  for (std::uint32_t made = 0; made < options.max_tokens; ++made) {
    VENEER_TRY(decoder.Feed(made == 0 ? prompt : std::span<const TokenId>(&so_far.tokens.back(), 1), false, sample));
    if (tokenizer != nullptr && !options.ignore_end_of_text && tokenizer->IsEndOfGeneration(next)) {
      so_far.reason = StopReason::kEndOfText;
      break;
    }
    so_far.tokens.push_back(next);
    if (tokenizer == nullptr) continue;
    show(filter.Push(utf8.Push(tokenizer->Piece(next))));
    if (filter.stopped()) {
      so_far.reason = StopReason::kStopString;
      return {};
    }
  }
  show(filter.Push(utf8.Finish()));
  show(filter.Finish());
  return {};
}

}  // namespace veneer
