// Text from a decoder: prefill, then one token at a time until a rule stops it.
#ifndef VENEER_CORE_DECODE_GENERATE_H_
#define VENEER_CORE_DECODE_GENERATE_H_

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
  std::string text;             // of those tokens; empty without a tokenizer
  StopReason reason = StopReason::kLength;
};

// `on_text` gets the text as it comes, always whole UTF-8; a stop string is never shown, not even in part. `tokenizer` may be null:
// then there is no text and no end-of-text rule. Errors are Decoder::Feed's; `so_far` then holds what had been made.
Status Generate(Decoder& decoder, const Tokenizer* tokenizer, std::span<const TokenId> prompt, const GenerateOptions& options,
                const std::function<void(std::string_view)>& on_text, Generated& so_far);

// Holds back the end of a text as long as it may be the beginning of a stop string.
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

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_GENERATE_H_
