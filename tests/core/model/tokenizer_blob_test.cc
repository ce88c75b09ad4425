#include "core/model/tokenizer_blob.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

Result<TokenizerBlob> Of(const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)));
  if (!file) FAIL(file.error().Text());
  return ReadTokenizerBlob(*file);
}

std::string U64(std::uint64_t value) { return {reinterpret_cast<const char*>(&value), 8}; }
std::string U32(std::uint32_t value) { return {reinterpret_cast<const char*>(&value), 4}; }

TEST_CASE("tokenizer blob: the records of all tokenizer keys, sorted by key, and nothing else") {
  GgufWriter writer;
  writer.Set("tokenizer.ggml.pre", "llama-bpe");
  writer.Set("general.name", "x");
  writer.Set("tokenizer.ggml.model", "gpt2");
  writer.Set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  const auto blob = Of(writer).value();
  CHECK(blob.id == "gguf-gpt2-llama-bpe");
  CHECK(blob.bytes == U64(27) + "tokenizer.ggml.eos_token_id" + U32(4) + U32(2) +        //
                          U64(20) + "tokenizer.ggml.model" + U32(8) + U64(4) + "gpt2" +  //
                          U64(18) + "tokenizer.ggml.pre" + U32(8) + U64(9) + "llama-bpe");
}

TEST_CASE("tokenizer blob: without a pre-tokenizer the id is the model, without a tokenizer it is none") {
  GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "llama");
  CHECK(Of(writer).value().id == "gguf-llama");
  const auto none = Of(GgufWriter()).value();
  CHECK(none.id == "gguf-none");
  CHECK(none.bytes.empty());
}

TEST_CASE("tokenizer blob: a model name that cannot stand in an id is refused") {
  for (const char* const name : {"", "a b", "../x", "abcdefghijklmnopqrstuvwxyz0123456789", "n\xC3\xA9"}) {
    GgufWriter writer;
    writer.Set("tokenizer.ggml.model", name);
    const auto blob = Of(writer);
    REQUIRE_FALSE(blob.has_value());
    CHECK(blob.error().code == Code::HEADER_CORRUPT);
    CHECK(blob.error().at == "tokenizer.ggml.model");
  }
}

}  // namespace
}  // namespace veneer
