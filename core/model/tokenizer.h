// Text to token ids and back, for vocabularies of the SentencePiece kind: a GGUF's (`tokenizer.ggml.model = llama`) and a
// tokenizer.model.
#ifndef VENEER_CORE_MODEL_TOKENIZER_H_
#define VENEER_CORE_MODEL_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/gguf.h"

namespace veneer {

using TokenId = std::int32_t;

struct EncodeOptions {
  bool add_special = true;     // BOS/EOS as the vocabulary asks
  bool parse_special = false;  // "<s>" in the text becomes the control token
};

class Tokenizer {
 public:
  // E401 for a model this version does not read (says so by name), E402 for a damaged vocabulary.
  static Result<Tokenizer> FromGguf(const GgufFile& file);
  // The bytes of a tokenizer.model, encoded by the SentencePiece library; a BOS is added where the model has one. `end_tokens` end a
  // generation beside its EOS; ids that the vocabulary lacks are added tokens, which have no text here. E402 for a damaged one.
  static Result<Tokenizer> FromSentencePiece(std::string_view model, std::span<const TokenId> end_tokens);

  [[nodiscard]] std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Text of the ids as valid UTF-8; control and unknown tokens are left out. The leading space that Encode added is removed at the
  // start: for a whole text. A continuation keeps its leading space: join the Pieces through a Utf8Stream.
  [[nodiscard]] std::string Decode(std::span<const TokenId> ids) const;
  // Raw bytes one token adds to the text (may be part of a UTF-8 sequence).
  [[nodiscard]] std::string Piece(TokenId id) const;

  [[nodiscard]] std::uint32_t size() const;
  [[nodiscard]] bool IsEndOfGeneration(TokenId id) const;  // EOS, EOT, EOM
  [[nodiscard]] TokenId bos() const;                       // -1 when there is none
  [[nodiscard]] TokenId eos() const;

 private:
  struct Vocabulary;
  explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary);
  std::shared_ptr<const Vocabulary> vocabulary_;
};

// Turns the pieces of a token stream into text that is always whole UTF-8: bytes of an unfinished sequence wait for the next
// piece; bytes that can never become valid are replaced by U+FFFD.
class Utf8Stream {
 public:
  [[nodiscard]] std::string Push(std::string_view piece);
  [[nodiscard]] std::string Finish();

 private:
  std::string pending_;
};

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_TOKENIZER_H_
