// SentencePiece BPE as llama.cpp does it: special tokens are cut out of the text first, then pairs of neighbours merge greedily by
// score, and what is left over becomes bytes.
#include "core/model/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <queue>
#include <utility>

#include "core/model/vocabulary.h"

namespace veneer {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, how a vocabulary writes a space

// Bytes a UTF-8 sequence should have by its lead byte; stray continuation bytes stand alone.
std::size_t SequenceSize(char lead) {
  constexpr std::array<unsigned char, 16> kSizes = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  return kSizes[static_cast<unsigned char>(lead) >> 4];
}

std::string Escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + 16);
  for (const char c : text) {
    if (c == ' ')
      escaped += kBlank;
    else
      escaped += c;
  }
  return escaped;
}

std::string Unescape(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const std::size_t blank = text.find(kBlank);
    plain += text.substr(0, blank);
    if (blank == std::string_view::npos) break;
    plain += ' ';
    text.remove_prefix(blank + kBlank.size());
  }
  return plain;
}

// A stretch of text, or a special token that was cut out of it.
struct Fragment {
  std::string_view text;
  std::optional<TokenId> token;
};

// Replaces every occurrence of `text` inside text fragments by the token.
std::vector<Fragment> CutOut(std::vector<Fragment> fragments, std::string_view text, TokenId token) {
  const bool occurs = std::ranges::any_of(fragments, [text](const Fragment& fragment) { return fragment.text.contains(text); });
  if (!occurs) return fragments;
  std::vector<Fragment> cut;
  for (Fragment& fragment : fragments) {
    if (fragment.token) {
      cut.push_back(fragment);
      continue;
    }
    for (std::size_t match; (match = fragment.text.find(text)) != std::string_view::npos;) {
      if (match != 0) cut.push_back({fragment.text.substr(0, match), std::nullopt});
      cut.push_back({"", token});
      fragment.text.remove_prefix(match + text.size());
    }
    if (!fragment.text.empty()) cut.push_back(fragment);
  }
  return cut;
}

// One text: symbols are neighbouring stretches of it, at first one UTF-8 sequence each. The pair whose merged text is the token of
// the highest score merges first; of equal scores the leftmost.
template <class Vocabulary>
class Merger {
 public:
  Merger(const Vocabulary& vocabulary, std::string_view text) : vocabulary_(vocabulary), text_(text) {
    for (std::size_t offset = 0; offset < text.size();) {
      const std::size_t size = std::min(SequenceSize(text[offset]), text.size() - offset);
      symbols_.push_back({.offset = offset, .size = size, .previous = Index(symbols_.size()) - 1, .next = Index(symbols_.size()) + 1});
      offset += size;
    }
    if (!symbols_.empty()) symbols_.back().next = kNone;
  }

  void Run(std::vector<TokenId>& out) {
    for (std::size_t i = 1; i < symbols_.size(); ++i) AddPair(Index(i) - 1, Index(i));
    while (!pairs_.empty()) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      if (IsCurrent(pair)) Merge(pair);
    }
    for (std::ptrdiff_t i = symbols_.empty() ? kNone : 0; i != kNone; i = At(i).next) Append(TextOf(At(i)), out);
  }

 private:
  static constexpr std::ptrdiff_t kNone = -1;
  struct Symbol {
    std::size_t offset, size;  // size 0: merged into its left neighbour
    std::ptrdiff_t previous, next;
  };
  struct Pair {
    float score;
    std::ptrdiff_t left, right;
    std::size_t size;  // of the merged text when the pair was found
    bool operator<(const Pair& other) const { return score < other.score || (score == other.score && left > other.left); }
  };

  static std::ptrdiff_t Index(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }
  Symbol& At(std::ptrdiff_t i) { return symbols_[static_cast<std::size_t>(i)]; }
  std::string_view TextOf(const Symbol& symbol) const { return text_.substr(symbol.offset, symbol.size); }

  void AddPair(std::ptrdiff_t left, std::ptrdiff_t right) {
    if (left == kNone || right == kNone) return;
    const std::size_t size = At(left).size + At(right).size;
    const auto token = vocabulary_.Find(text_.substr(At(left).offset, size));
    if (token) pairs_.push({vocabulary_.tokens[static_cast<std::size_t>(*token)].score, left, right, size});
  }

  bool IsCurrent(const Pair& pair) {
    return At(pair.left).size != 0 && At(pair.right).size != 0 && At(pair.left).size + At(pair.right).size == pair.size;
  }

  void Merge(const Pair& pair) {
    Symbol &left = At(pair.left), &right = At(pair.right);
    left.size += right.size;
    right.size = 0;
    left.next = right.next;
    if (right.next != kNone) At(right.next).previous = pair.left;
    AddPair(left.previous, pair.left);
    AddPair(pair.left, left.next);
  }

  // A symbol that is no token becomes its bytes; without byte tokens the whole symbol is one unknown token.
  void Append(std::string_view text, std::vector<TokenId>& out) const {
    if (const auto token = vocabulary_.Find(text)) {
      out.push_back(*token);
      return;
    }
    const auto byte_token = [this](char c) { return vocabulary_.byte_tokens[static_cast<unsigned char>(c)]; };
    if (std::ranges::all_of(text, [&](char c) { return byte_token(c) == vocabulary_.unknown; })) {
      out.push_back(vocabulary_.unknown);
      return;
    }
    for (const char c : text) out.push_back(byte_token(c));
  }

  const Vocabulary& vocabulary_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Pair> pairs_;
};

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}

Result<Tokenizer> Tokenizer::FromGguf(const GgufFile& file) {
  VENEER_ASSIGN(auto vocabulary, Vocabulary::Read(file));
  return Tokenizer(std::move(vocabulary));
}

Result<Tokenizer> Tokenizer::FromSentencePiece(std::string_view model, std::span<const TokenId> end_tokens) {
  VENEER_ASSIGN(auto vocabulary, Vocabulary::ReadSentencePiece(model, end_tokens));
  return Tokenizer(std::move(vocabulary));
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<Fragment> fragments;
  if (!text.empty()) fragments.push_back({text, std::nullopt});
  for (const TokenId id : vocabulary_->special) {
    const Token& token = vocabulary_->tokens[static_cast<std::size_t>(id)];
    if (options.parse_special || token.type == TokenType::kUserDefined) fragments = CutOut(std::move(fragments), token.text, id);
  }
  std::vector<TokenId> ids;
  if (options.add_special && vocabulary_->add_bos && vocabulary_->bos >= 0) ids.push_back(vocabulary_->bos);
  bool after_special = true;  // text at the start and text after a special token gets the space prefix
  for (const Fragment& fragment : fragments) {
    if (fragment.token) {
      ids.push_back(*fragment.token);
    } else if (vocabulary_->model) {
      vocabulary_->model->Encode(fragment.text, ids);  // adds the space prefix itself
    } else {
      const std::string escaped = (vocabulary_->add_space_prefix && after_special ? std::string(kBlank) : "") + Escape(fragment.text);
      Merger(*vocabulary_, escaped).Run(ids);
    }
    after_special = fragment.token.has_value();
  }
  if (options.add_special && vocabulary_->add_eos && vocabulary_->eos >= 0) ids.push_back(vocabulary_->eos);
  return ids;
}

std::string Tokenizer::Piece(TokenId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_->tokens.size()) return "";
  const Token& token = vocabulary_->tokens[static_cast<std::size_t>(id)];
  switch (token.type) {
    case TokenType::kNormal:
      return Unescape(token.text);
    case TokenType::kUserDefined:
      return token.text;
    case TokenType::kByte: {
      const auto hex = [](char c) { return c <= '9' ? c - '0' : c - 'A' + 10; };
      return {static_cast<char>(hex(token.text[3]) * 16 + hex(token.text[4]))};
    }
    case TokenType::kUnknown:
    case TokenType::kControl:
    case TokenType::kUnused:
      return "";
  }
  return "";
}

std::string Tokenizer::Decode(std::span<const TokenId> ids) const {
  Utf8Stream stream;
  std::string text;
  for (const TokenId id : ids) text += stream.Push(Piece(id));
  text += stream.Finish();
  if (vocabulary_->add_space_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::uint32_t Tokenizer::size() const { return static_cast<std::uint32_t>(vocabulary_->tokens.size()); }
bool Tokenizer::IsEndOfGeneration(TokenId id) const { return std::ranges::binary_search(vocabulary_->end_of_generation, id); }
TokenId Tokenizer::bos() const { return vocabulary_->bos; }
TokenId Tokenizer::eos() const { return vocabulary_->eos; }

}  // namespace veneer
