// Defaults and rules are those of llama.cpp for `tokenizer.ggml.model = llama` (adapter-formats g.4).
#include "core/model/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace veneer {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::size_t kBytes = 256;

// Texts that end a turn or a generation in the vocabularies in use. llama.cpp treats a token of such a text as a control token
// that ends generation, whatever type and ids the file states.
constexpr std::array<std::string_view, 14> kEndTexts = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>",   "<|endoftext|>",
    "<|eom_id|>", "<EOT>",      "_<EOT>",  "[EOT]",      "[EOS]",    "<|end_of_text|>", "<end_of_utterance>",
};

std::unexpected<Error> Damaged(std::string_view key, std::string detail) {
  return Fail(Code::HEADER_CORRUPT, std::string(key), std::move(detail));
}

Status CheckModel(const GgufFile& file) {
  constexpr std::string_view kModelKey = "tokenizer.ggml.model";
  if (file.Find(kModelKey) == nullptr)
    return Fail(Code::FORMAT_UNSUPPORTED, std::string(kModelKey),
                "the file has no tokenizer; give token ids (--tokens 1,2,3) instead of text");
  VENEER_ASSIGN(const std::string model, file.String(kModelKey));
  if (model == "llama") return {};
  const std::string_view what = model == "gpt2" ? " (byte-level BPE)" : "";
  return Fail(
      Code::FORMAT_UNSUPPORTED, std::string(kModelKey),
      fmt::format("vocabularies of model \"{}\"{} are not read by this version, \"llama\" (SentencePiece) is; token ids work on this base: "
                  "give --tokens 1,2,3 instead of text",
                  model, what));
}

Result<TokenId> ReadId(const GgufFile& file, std::string_view name, TokenId fallback, std::size_t size) {
  const std::string key = fmt::format("tokenizer.ggml.{}", name);
  if (file.Find(key) == nullptr) return fallback >= 0 && static_cast<std::size_t>(fallback) < size ? fallback : -1;
  VENEER_ASSIGN(const std::uint64_t id, file.U64(key));
  if (id == std::numeric_limits<std::uint32_t>::max()) return -1;  // converters write -1 for "none"
  if (id >= size) return Damaged(key, fmt::format("found {}, the vocabulary has {} tokens", id, size));
  return static_cast<TokenId>(id);
}

Result<bool> ReadFlag(const GgufFile& file, std::string_view name, bool fallback) {
  const std::string key = fmt::format("tokenizer.ggml.{}", name);
  return file.Find(key) == nullptr ? Result<bool>(fallback) : file.Bool(key);
}

// Value of a byte token's text, "<0x0A>".
std::optional<unsigned> ByteOf(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(3, 2)) {
    if (c >= '0' && c <= '9')
      value = value * 16 + static_cast<unsigned>(c - '0');
    else if (c >= 'A' && c <= 'F')
      value = value * 16 + static_cast<unsigned>(c - 'A' + 10);
    else
      return std::nullopt;
  }
  return value;
}

TokenType TypeOf(SentencePiece::Kind kind) {
  switch (kind) {
    case SentencePiece::Kind::kNormal:
      return TokenType::kNormal;
    case SentencePiece::Kind::kUnknown:
      return TokenType::kUnknown;
    case SentencePiece::Kind::kControl:
      return TokenType::kControl;
    case SentencePiece::Kind::kUnused:
      return TokenType::kUnused;
    case SentencePiece::Kind::kByte:
      return TokenType::kByte;
  }
  return TokenType::kNormal;
}

Result<std::vector<Token>> ReadTokens(const GgufFile& file) {
  VENEER_ASSIGN(const auto texts, file.Strings(kTokensKey));
  if (texts.empty() || texts.size() > std::numeric_limits<TokenId>::max())
    return Damaged(kTokensKey, fmt::format("{} tokens", texts.size()));
  std::vector<Token> tokens(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) tokens[i].text = texts[i];

  constexpr std::string_view kScoresKey = "tokenizer.ggml.scores", kTypesKey = "tokenizer.ggml.token_type";
  if (file.Find(kScoresKey) != nullptr) {
    VENEER_ASSIGN(const auto scores, file.F32s(kScoresKey));
    if (scores.size() != tokens.size()) return Damaged(kScoresKey, fmt::format("{} scores for {} tokens", scores.size(), tokens.size()));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(scores[i]))
        return Fail(Code::NOT_FINITE, std::string(kScoresKey), fmt::format("the score of token {} is not a number", i));
      tokens[i].score = scores[i];
    }
  }
  if (file.Find(kTypesKey) != nullptr) {
    VENEER_ASSIGN(const auto types, file.I32s(kTypesKey));
    if (types.size() != tokens.size()) return Damaged(kTypesKey, fmt::format("{} types for {} tokens", types.size(), tokens.size()));
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] < 1 || types[i] > 6) return Damaged(kTypesKey, fmt::format("token {} has type {}, types are 1 to 6", i, types[i]));
      tokens[i].type = static_cast<TokenType>(types[i]);
      if (tokens[i].type == TokenType::kByte && !ByteOf(tokens[i].text))
        return Damaged(kTokensKey, fmt::format("byte token {} is not written as <0xXX>", i));
    }
  }
  return tokens;
}

}  // namespace

std::optional<TokenId> Tokenizer::Vocabulary::Find(std::string_view text) const {
  const auto found = by_text.find(text);
  return found == by_text.end() ? std::nullopt : std::optional(found->second);
}

Result<std::shared_ptr<const Tokenizer::Vocabulary>> Tokenizer::Vocabulary::Read(const GgufFile& file) {
  VENEER_TRY(CheckModel(file));
  auto vocabulary = std::make_shared<Vocabulary>();
  VENEER_ASSIGN(vocabulary->tokens, ReadTokens(file));
  const auto& tokens = vocabulary->tokens;
  VENEER_ASSIGN(vocabulary->bos, ReadId(file, "bos_token_id", 1, tokens.size()));
  VENEER_ASSIGN(vocabulary->eos, ReadId(file, "eos_token_id", 2, tokens.size()));
  VENEER_ASSIGN(vocabulary->unknown, ReadId(file, "unknown_token_id", 0, tokens.size()));
  VENEER_ASSIGN(const TokenId eot, ReadId(file, "eot_token_id", -1, tokens.size()));
  VENEER_ASSIGN(const TokenId eom, ReadId(file, "eom_token_id", -1, tokens.size()));
  VENEER_ASSIGN(vocabulary->add_bos, ReadFlag(file, "add_bos_token", true));
  VENEER_ASSIGN(vocabulary->add_eos, ReadFlag(file, "add_eos_token", false));
  VENEER_ASSIGN(vocabulary->add_space_prefix, ReadFlag(file, "add_space_prefix", true));
  if (vocabulary->unknown < 0) vocabulary->unknown = 0;

  for (const TokenId id : {vocabulary->eos, eot, eom})
    if (id >= 0) vocabulary->end_of_generation.push_back(id);
  vocabulary->Index();
  return vocabulary;
}

Result<std::shared_ptr<const Tokenizer::Vocabulary>> Tokenizer::Vocabulary::ReadSentencePiece(std::string_view model,
                                                                                              std::span<const TokenId> end_tokens) {
  auto vocabulary = std::make_shared<Vocabulary>();
  VENEER_ASSIGN(vocabulary->model, SentencePiece::Load(model));
  const SentencePiece& pieces = *vocabulary->model;
  vocabulary->tokens.resize(static_cast<std::size_t>(pieces.size()));
  for (TokenId id = 0; id < pieces.size(); ++id) {
    Token& token = vocabulary->tokens[static_cast<std::size_t>(id)];
    token.text = pieces.Text(id);
    token.type = TypeOf(pieces.KindOf(id));
    if (token.type == TokenType::kByte && !ByteOf(token.text))
      return Damaged("tokenizer.model", fmt::format("byte token {} is not written as <0xXX>", id));
  }
  vocabulary->bos = pieces.bos();
  vocabulary->eos = pieces.eos();
  vocabulary->unknown = std::max(pieces.unknown(), 0);
  vocabulary->end_of_generation.assign(end_tokens.begin(), end_tokens.end());
  if (vocabulary->eos >= 0) vocabulary->end_of_generation.push_back(vocabulary->eos);
  // Whether the model puts a space before a text shows in what it makes of one.
  std::vector<TokenId> sample;
  pieces.Encode("a", sample);
  vocabulary->add_space_prefix = !sample.empty() && pieces.Text(sample.front()).starts_with("\xE2\x96\x81");
  vocabulary->Index();
  return vocabulary;
}

void Tokenizer::Vocabulary::Index() {
  auto& ends = end_of_generation;
  for (TokenId id = 0; id < static_cast<TokenId>(tokens.size()); ++id) {
    Token& token = tokens[static_cast<std::size_t>(id)];
    if (std::ranges::find(kEndTexts, token.text) != kEndTexts.end()) {
      token.type = TokenType::kControl;
      ends.push_back(id);
    }
    if (!token.text.empty()) by_text[token.text] = id;
    const bool is_special = token.type == TokenType::kUserDefined || token.type == TokenType::kControl || token.type == TokenType::kUnknown;
    if (is_special && !token.text.empty()) special.push_back(id);
  }
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  std::ranges::sort(special, [this](TokenId a, TokenId b) {
    const std::size_t a_size = tokens[static_cast<std::size_t>(a)].text.size(), b_size = tokens[static_cast<std::size_t>(b)].text.size();
    return a_size != b_size ? a_size > b_size : a < b;
  });

  // A byte is the token "<0xXX>", else the token whose text is the byte itself.
  byte_tokens.assign(kBytes, unknown);
  for (unsigned byte = 0; byte < kBytes; ++byte) {
    const char itself = static_cast<char>(byte);
    auto id = Find(fmt::format("<0x{:02X}>", byte));
    if (!id) id = Find(std::string_view(&itself, 1));
    if (id) byte_tokens[byte] = *id;
  }
}

}  // namespace veneer
