// Text from a decoder: prefill, then one token at a time until a rule stops it.
#ifndef VENEER_CORE_DECODE_GENERATE_H_
#define VENEER_CORE_DECODE_GENERATE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/decode/decoder.h"
#include "core/decode/sampler.h"
#include "core/model/tokenizer.h"

namespace veneer {

enum class StopReason { kLength, kEndOfText, kStopString };

struct GenerateOptions {
  std::uint32_t max_tokens = 128;
  bool ignore_end_of_text = false;
  std::vector<std::string> stops;  // text is cut before the first of these; needs a tokenizer
  SamplingOptions sampling;
};

struct Generated {
  std::vector<TokenId> tokens;  // new tokens only; an end-of-text token that stopped it is not among them
  std::string text;             // of those tokens, up to a stop string; empty without a tokenizer
  StopReason reason = StopReason::kLength;
  std::uint32_t decode_steps = 0;                            // passes after the prefill, of one token each
  std::chrono::nanoseconds prefill_time{0}, decode_time{0};  // with sampling; decode_time covers decode_steps passes
};

// `on_text` gets the text as it comes, always whole UTF-8; a stop string is never shown, not even in part. `tokenizer` may be null:
// then there is no text and no end-of-text rule. Errors: E901 for an empty prompt or options out of range, E411 when the logits are
// not finite, and Decoder::Feed's; `so_far` then holds what had been made, all of its text shown.
Status Generate(Decoder& decoder, const Tokenizer* tokenizer, std::span<const TokenId> prompt, const GenerateOptions& options,
                const std::function<void(std::string_view)>& on_text, Generated& so_far);

// Finds stop strings in a text that comes in pieces. Holds back the end of the text as long as it may be the beginning of a stop string.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // Text that may be shown now.
  std::string Push(std::string_view text);
  std::string Finish();  // what was held back, when nothing more comes
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

// E411 when a logit is infinite or NaN: no token can be chosen from them.
Status CheckFinite(std::span<const float> logits);

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_GENERATE_H_
