#include "core/model/tokenizer.h"

#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/format/json.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

using Ids = std::vector<TokenId>;
constexpr const char* kBlank = "\xE2\x96\x81";

Result<Tokenizer> Open(const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(std::as_bytes(std::span(bytes)));
  if (!file) FAIL(file.error().Text());
  return Tokenizer::FromGguf(*file);
}

Tokenizer OpenFile(const std::filesystem::path& path) {
  const auto bytes = FileBytes::Map(path);
  if (!bytes) FAIL(bytes.error().Text());
  const auto file = GgufFile::Parse(bytes->bytes());
  if (!file) FAIL(file.error().Text());
  auto tokenizer = Tokenizer::FromGguf(*file);
  if (!tokenizer) FAIL(tokenizer.error().Text());
  return *std::move(tokenizer);
}

std::string Contents(const std::filesystem::path& path) {
  const auto text = ReadText(path, 1 << 20);
  if (!text) FAIL(text.error().Text());
  return *text;
}

struct Entry {
  std::string text;
  float score = 0;
  std::int32_t type = 1;
};

// 0 <unk>, 1 <s>, 2 </s>, then the entries: ids from 3.
GgufWriter Vocabulary(const std::vector<Entry>& entries) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<float> scores = {0, 0, 0};
  std::vector<std::int32_t> types = {2, 3, 3};
  for (const Entry& entry : entries) {
    tokens.push_back(entry.text);
    scores.push_back(entry.score);
    types.push_back(entry.type);
  }
  GgufWriter writer;
  writer.Set("tokenizer.ggml.model", "llama");
  writer.Set("tokenizer.ggml.tokens", tokens);
  writer.Set("tokenizer.ggml.scores", scores);
  writer.Set("tokenizer.ggml.token_type", types);
  return writer;
}

Ids Plain(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  return tokenizer.Encode(text, {.add_special = false, .parse_special = parse_special});
}

// 33 awkward strings with the ids an independent implementation gives (data README).
void CheckAgainst(const Tokenizer& tokenizer, const std::filesystem::path& expected) {
  const auto cases = ParseJson(Contents(expected));
  if (!cases) FAIL(cases.error().Text());
  REQUIRE(cases->elements.size() == 33);
  for (const Json& entry : cases->elements) {
    const auto ids = [&entry](const char* key) {
      Ids list;
      for (const Json& id : entry.Find(key)->elements) list.push_back(static_cast<TokenId>(id.U64().value()));
      return list;
    };
    const std::string& text = entry.Find("text")->text;
    CAPTURE(text);
    CHECK(tokenizer.Encode(text) == ids("with_bos"));
    CHECK(Plain(tokenizer, text) == ids("plain"));
    CHECK(tokenizer.Encode(text, {.parse_special = true}) == ids("parse_special"));
    std::string pieces;
    for (const TokenId id : ids("plain")) pieces += tokenizer.Piece(id);
    const std::string& detokenized = entry.Find("detokenized")->text;  // with the space prefix; a literal U+2581 comes back as a space
    CHECK(pieces == detokenized);
    CHECK(tokenizer.Decode(ids("with_bos")) == detokenized.substr(detokenized.empty() ? 0 : 1));
  }
}

TEST_CASE("tokenizer: ids of the demo base equal the reference for every awkward string, and decode to the text") {
  CheckAgainst(OpenFile(DemoData() / "fable-q4_0.gguf"), RepoData() / "fable/tokenize.json");
}

TEST_CASE("tokenizer: ids of stories260k equal the reference for every awkward string, and decode to the text") {
  CheckAgainst(OpenFile(RepoData() / "stories260k/stories260k-q8_0.gguf"), RepoData() / "stories260k/tokenize.json");
}

TEST_CASE("tokenizer: ids of the llama vocabulary equal llama.cpp's own test file") {
  const std::string name = "formats/ggml-vocab-llama-spm.gguf";
  const Tokenizer tokenizer = OpenFile(RepoData() / name);
  CHECK(tokenizer.size() == 32000);
  std::string inputs = Contents(RepoData() / (name + ".inp"));
  std::istringstream outputs(Contents(RepoData() / (name + ".out")));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::string line; std::getline(outputs, line); ++count) {
    const std::size_t end = inputs.find(separator);
    const std::string text = inputs.substr(0, end);
    inputs.erase(0, end == std::string::npos ? end : end + separator.size());
    Ids expected;
    std::istringstream numbers(line);
    for (TokenId id; numbers >> id;) expected.push_back(id);
    CAPTURE(text);
    CHECK(Plain(tokenizer, text) == expected);
  }
  CHECK(count > 30);
  CHECK(inputs.empty());
}

TEST_CASE("tokenizer: the pair with the higher score merges first, of equal scores the leftmost") {
  const std::vector<Entry> letters = {{"a"}, {"b"}, {"c"}};  // 3 4 5
  auto entries = letters;
  entries.insert(entries.end(), {{"ab", -2}, {"bc", -1}});  // 6 7
  GgufWriter writer = Vocabulary(entries);
  writer.Set("tokenizer.ggml.add_space_prefix", false);
  CHECK(Plain(Open(writer).value(), "abc") == Ids{3, 7});
  entries[3].score = entries[4].score;
  writer = Vocabulary(entries);
  writer.Set("tokenizer.ggml.add_space_prefix", false);
  CHECK(Plain(Open(writer).value(), "abc") == Ids{6, 5});
  CHECK(Plain(Open(writer).value(), "aaabcbc") == Ids{3, 3, 6, 5, 7});
}

TEST_CASE("tokenizer: a character that is no token becomes its bytes, without byte tokens one unknown token") {
  std::vector<Entry> entries = {{kBlank}, {"a"}};  // 3 4
  CHECK(Plain(Open(Vocabulary(entries)).value(), "a\xC3\xA9") == Ids{3, 4, 0});
  entries.push_back({"<0xC3>", 0, 6});  // 5
  entries.push_back({"<0xA9>", 0, 6});  // 6
  const Tokenizer tokenizer = Open(Vocabulary(entries)).value();
  CHECK(Plain(tokenizer, "a\xC3\xA9") == Ids{3, 4, 5, 6});
  CHECK(tokenizer.Piece(5) == "\xC3");
  CHECK(tokenizer.Decode(Ids{3, 4, 5, 6}) == "a\xC3\xA9");
  CHECK(tokenizer.Decode(Ids{3, 4, 5}) == "a\xEF\xBF\xBD");
  CHECK(Plain(tokenizer, "\xC3") == Ids{3, 5});
}

TEST_CASE("tokenizer: user-defined tokens are always cut out, control tokens only when asked, the longest first") {
  GgufWriter writer = Vocabulary({{kBlank}, {"a"}, {"<", 0}, {"s"}, {">"}, {"<u>", 0, 4}, {"<u>>", 0, 4}, {"/"}});  // 3 ... 10
  const Tokenizer tokenizer = Open(writer).value();
  CHECK(Plain(tokenizer, "a<u>") == Ids{3, 4, 8});
  CHECK(Plain(tokenizer, "<u>>") == Ids{9});
  CHECK(Plain(tokenizer, "<s>") == Ids{3, 5, 6, 7});
  CHECK(Plain(tokenizer, "<s>", true) == Ids{1});
  CHECK(Plain(tokenizer, "<unk></s>", true) == Ids{0, 2});
  CHECK(tokenizer.Piece(8) == "<u>");
  CHECK(tokenizer.Piece(1).empty());
  CHECK(tokenizer.Piece(0).empty());
}

TEST_CASE("tokenizer: text at the start and after a special token gets the space prefix") {
  GgufWriter writer = Vocabulary({{kBlank}, {"a"}});
  CHECK(Plain(Open(writer).value(), "a<s>a</s><s>aa", true) == Ids{3, 4, 1, 3, 4, 2, 1, 3, 4, 4});
  CHECK(Plain(Open(writer).value(), "").empty());
  CHECK(Open(writer).value().Encode("<s>", {.parse_special = true}) == Ids{1, 1});
  writer.Set("tokenizer.ggml.add_space_prefix", false);
  CHECK(Plain(Open(writer).value(), "a<s>a", true) == Ids{4, 1, 4});
  CHECK(Open(writer).value().Decode(Ids{3, 4}) == " a");
}

TEST_CASE("tokenizer: BOS and EOS are added as the vocabulary asks") {
  GgufWriter writer = Vocabulary({{kBlank}, {"a"}});
  CHECK(Open(writer).value().Encode("a") == Ids{1, 3, 4});
  writer.Set("tokenizer.ggml.add_bos_token", false);
  writer.Set("tokenizer.ggml.add_eos_token", true);
  CHECK(Open(writer).value().Encode("a") == Ids{3, 4, 2});
  writer.Set("tokenizer.ggml.bos_token_id", std::uint32_t{4});
  CHECK(Open(writer).value().bos() == 4);
  CHECK(Open(writer).value().eos() == 2);
}

TEST_CASE("tokenizer: EOS, EOT, EOM and the texts that end a turn end generation") {
  GgufWriter writer = Vocabulary({{"a"}, {"b"}, {"<|im_end|>", 0, 4}, {"c"}});  // 3 ... 6
  writer.Set("tokenizer.ggml.eot_token_id", std::uint32_t{3});
  writer.Set("tokenizer.ggml.eom_token_id", std::uint32_t{4});
  const Tokenizer tokenizer = Open(writer).value();
  for (const TokenId id : {2, 3, 4, 5}) CHECK(tokenizer.IsEndOfGeneration(id));
  for (const TokenId id : {-1, 0, 1, 6, 7, 1000}) CHECK_FALSE(tokenizer.IsEndOfGeneration(id));
  CHECK(tokenizer.Piece(5).empty());
}

TEST_CASE("tokenizer: ids from anywhere are harmless to decode") {
  const Tokenizer tokenizer = Open(Vocabulary({{"a"}})).value();
  CHECK(tokenizer.Decode(Ids{-1, std::numeric_limits<TokenId>::min(), std::numeric_limits<TokenId>::max(), 4, 3}) == "a");
}

TEST_CASE("tokenizer: a damaged vocabulary is refused with its key") {
  const auto refused = [](const char* key, auto value, Code code) {
    GgufWriter writer = Vocabulary({{"a"}, {"b"}});
    writer.Set(key, value);
    const auto tokenizer = Open(writer);
    REQUIRE_FALSE(tokenizer.has_value());
    CHECK(tokenizer.error().code == code);
    CHECK(tokenizer.error().at == key);
  };
  refused("tokenizer.ggml.bos_token_id", std::uint32_t{5}, Code::HEADER_CORRUPT);
  refused("tokenizer.ggml.eos_token_id", std::uint32_t{1} << 31, Code::HEADER_CORRUPT);
  refused("tokenizer.ggml.unknown_token_id", std::uint32_t{99}, Code::HEADER_CORRUPT);
  refused("tokenizer.ggml.eot_token_id", std::int32_t{-5}, Code::FIELD_TYPE);
  refused("tokenizer.ggml.scores", std::vector<float>{1, 2}, Code::HEADER_CORRUPT);
  refused("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, 0, std::numeric_limits<float>::quiet_NaN()}, Code::NOT_FINITE);
  refused("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1}, Code::HEADER_CORRUPT);
  refused("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 7}, Code::HEADER_CORRUPT);
  refused("tokenizer.ggml.add_bos_token", "yes", Code::FIELD_TYPE);
  refused("tokenizer.ggml.tokens", std::vector<std::string>{}, Code::HEADER_CORRUPT);
  GgufWriter byte = Vocabulary({{"<0xZZ>", 0, 6}});
  CHECK(Open(byte).error().code == Code::HEADER_CORRUPT);
}

TEST_CASE("tokenizer: a byte-level BPE vocabulary is refused by name and says that token ids still work") {
  GgufWriter writer = Vocabulary({{"a"}});
  writer.Set("tokenizer.ggml.model", "gpt2");
  const Error error = Open(writer).error();
  CHECK(error.code == Code::FORMAT_UNSUPPORTED);
  CHECK(error.detail.find("gpt2") != std::string::npos);
  CHECK(error.detail.find("token ids") != std::string::npos);
  writer.Remove("tokenizer.ggml.model");
  CHECK(Open(writer).error().code == Code::FORMAT_UNSUPPORTED);
}

TEST_CASE("tokenizer: bytes that are no UTF-8 are encoded, not lost") {
  const Tokenizer tokenizer = OpenFile(RepoData() / "stories260k/stories260k-q8_0.gguf");
  for (const std::string& text : {std::string("\xFF\xFE"), std::string("a\x80z"), std::string("\xE2\x96"), std::string("\xF0")}) {
    std::string pieces;
    for (const TokenId id : Plain(tokenizer, text)) pieces += tokenizer.Piece(id);
    CHECK(pieces == " " + text);
  }
}

}  // namespace
}  // namespace veneer
