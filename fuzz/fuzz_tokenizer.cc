// First byte odd: the rest is a GGUF; its vocabulary, if it has one that is read, encodes and decodes without fault.
// First byte even: the rest is text for a vocabulary with all byte tokens: the pieces of its ids are the text again.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/format/gguf.h"
#include "core/format/utf8.h"
#include "core/model/tokenizer.h"
#include "fuzz/expect.h"
#include "tests/support/tiny_gguf.h"

namespace {

void UseVocabulary(std::span<const std::uint8_t> bytes) {
  const auto file = veneer::GgufFile::Parse(std::as_bytes(bytes));
  if (!file) return;
  const auto tokenizer = veneer::Tokenizer::FromGguf(*file);
  if (!tokenizer) return;
  for (const bool parse_special : {false, true})
    for (const veneer::TokenId id : tokenizer->Encode("hello <s> w\xC3\xB6rld </s>\xFF", {.parse_special = parse_special}))
      FUZZ_EXPECT(id >= 0 && static_cast<std::uint32_t>(id) < tokenizer->size());
  std::vector<veneer::TokenId> ids = {-1, std::numeric_limits<veneer::TokenId>::max()};
  for (veneer::TokenId id = 0; id < static_cast<veneer::TokenId>(tokenizer->size()); ++id) ids.push_back(id);
  FUZZ_EXPECT(veneer::FindInvalidUtf8(tokenizer->Decode(ids)) == std::string_view::npos);
}

const veneer::Tokenizer& TinyTokenizer() {
  static const veneer::Tokenizer tokenizer = [] {
    const std::string bytes = TinyLlama({.n_layers = 1, .matrix_type = VNR_F32, .embedding_type = VNR_F32}).Bytes();
    return *veneer::Tokenizer::FromGguf(*veneer::GgufFile::Parse(std::as_bytes(std::span(bytes))));
  }();
  return tokenizer;
}

std::string WithBlanks(std::string_view text) {  // U+2581 stands for a space and cannot be told from it afterwards
  std::string out;
  while (!text.empty()) {
    if (text.starts_with("\xE2\x96\x81")) {
      out += ' ';
      text.remove_prefix(3);
    } else {
      out += text[0];
      text.remove_prefix(1);
    }
  }
  return out;
}

void RoundTrip(std::string_view text) {
  std::string pieces;
  veneer::Utf8Stream stream;
  std::string streamed;
  for (const veneer::TokenId id : TinyTokenizer().Encode(text, {.add_special = false})) {
    pieces += TinyTokenizer().Piece(id);
    streamed += stream.Push(TinyTokenizer().Piece(id));
    FUZZ_EXPECT(veneer::FindInvalidUtf8(streamed) == std::string_view::npos);
  }
  streamed += stream.Finish();
  const std::string expected = text.empty() ? std::string() : std::string(" ").append(WithBlanks(text));
  // Valid text only: a stray lead byte swallows what follows it, and the two ways of finding U+2581 may differ there.
  if (veneer::FindInvalidUtf8(text) != std::string_view::npos) return;
  FUZZ_EXPECT(pieces == expected);
  FUZZ_EXPECT(streamed == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  if (data[0] % 2 == 1)
    UseVocabulary(rest);
  else
    RoundTrip({reinterpret_cast<const char*>(rest.data()), rest.size()});
  return 0;
}
