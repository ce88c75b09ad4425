// A SentencePiece vocabulary, out of a GGUF or a tokenizer.model: read once, checked, immutable.
#ifndef VENEER_CORE_MODEL_VOCABULARY_H_
#define VENEER_CORE_MODEL_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/format/gguf.h"
#include "core/model/sentence_piece.h"
#include "core/model/tokenizer.h"

namespace veneer {

// tokenizer.ggml.token_type
enum class TokenType : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Token {
  std::string text;  // as in the file: blanks are U+2581
  float score = 0;
  TokenType type = TokenType::kNormal;
};

struct Tokenizer::Vocabulary {
  static Result<std::shared_ptr<const Vocabulary>> Read(const GgufFile& file);
  static Result<std::shared_ptr<const Vocabulary>> ReadSentencePiece(std::string_view model, std::span<const TokenId> end_tokens);

  std::vector<Token> tokens;
  std::unordered_map<std::string_view, TokenId> by_text;  // keys are views into `tokens`; of equal texts the last has the entry
  std::vector<TokenId> byte_tokens;                       // [256], or `unknown` where the vocabulary has no token for the byte
  std::vector<TokenId> special;                           // user-defined, control and unknown tokens, longest text first
  std::vector<TokenId> end_of_generation;                 // sorted
  TokenId bos = -1, eos = -1, unknown = 0;
  bool add_bos = true, add_eos = false, add_space_prefix = true;
  std::shared_ptr<const SentencePiece> model;  // encodes text; null: the tokens and scores above do

  [[nodiscard]] std::optional<TokenId> Find(std::string_view text) const;

 private:
  void Index();  // all that follows from `tokens` and the ids in end_of_generation
};

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_VOCABULARY_H_
