#include "core/decode/generate.h"

#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

// What a filter shows for the pieces, one string per piece and one for the end.
std::vector<std::string> Filtered(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopFilter filter(stops);
  std::vector<std::string> shown;
  for (const std::string& piece : pieces) {
    shown.push_back(filter.Push(piece));
    if (filter.stopped()) return shown;
  }
  shown.push_back(filter.Finish());
  return shown;
}

TEST_CASE("stop strings: text that may become one is held back and shown when it does not") {
  using Strings = std::vector<std::string>;
  CHECK(Filtered({"END"}, {"abc", "E", "N", "x"}) == Strings{"abc", "", "", "ENx", ""});
  CHECK(Filtered({"END"}, {"abE", "ND tail", "more"}) == Strings{"ab", ""});
  CHECK(Filtered({"END"}, {"EEN", "D"}) == Strings{"E", ""});
  CHECK(Filtered({"END"}, {"abcEN"}) == Strings{"abc", "EN"});
  CHECK(Filtered({}, {"abc"}) == Strings{"abc", ""});
  CHECK(Filtered({""}, {"abc"}) == Strings{"abc", ""});
}

TEST_CASE("stop strings: of several the one that begins first cuts the text") {
  CHECK(Filtered({"yy", "x"}, {"axyy"}) == std::vector<std::string>{"a"});
  CHECK(Filtered({"abc", "b"}, {"za", "b"}) == std::vector<std::string>{"z", "a"});
}

struct Made {
  std::shared_ptr<const Base> base;
  Generated result;
  std::string streamed;
  Status status;
};

Made GenerateTiny(std::vector<TokenId> prompt, GenerateOptions options, bool with_tokenizer = true, DecoderOptions decoder_options = {}) {
  Made made{.base = OpenTiny(), .result = {}, .streamed = {}, .status = {}};
  const Stack stack(made.base);
  const auto decoder = MakeDecoder(stack.Stage(ComputeMode::kExact), decoder_options);
  const auto tokenizer = OpenTokenizer(*made.base);
  REQUIRE(tokenizer);
  made.status = Generate(
      *decoder, with_tokenizer ? &*tokenizer : nullptr, prompt, options, [&](std::string_view text) { made.streamed += text; },
      made.result);
  return made;
}

GenerateOptions Greedy(std::uint32_t n) {
  GenerateOptions options;
  options.max_tokens = n;
  options.ignore_end_of_text = true;
  options.sampling.temperature = 0;
  return options;
}

TEST_CASE("generate: greedy tokens are the largest logits of feeding the text so far, one after the other") {
  const Made made = GenerateTiny({1, 5, 9}, Greedy(6), false);
  REQUIRE(made.status);
  const Stack stack(made.base);
  const auto staged = stack.Stage(ComputeMode::kExact);
  std::vector<TokenId> text = {1, 5, 9};
  const std::size_t vocab = made.base->config().vocab;
  for (const TokenId token : made.result.tokens) {
    const std::vector<float> logits = LogitsOf(*MakeDecoder(staged), text);
    CHECK(token == ArgMax(std::span(logits).last(vocab)));
    text.push_back(token);
  }
  CHECK(made.result.tokens.size() == 6);
  CHECK(made.result.reason == StopReason::kLength);
  CHECK(made.result.decode_steps == 5);
  CHECK(made.result.text.empty());
  CHECK(made.result.prefill_time.count() > 0);
  CHECK(made.result.decode_time.count() > 0);
}

TEST_CASE("generate: the streamed text is the result's text, with and without a stop string, which never shows") {
  const Made whole = GenerateTiny({1, 5, 9}, Greedy(12));
  REQUIRE(whole.status);
  CHECK(whole.streamed == whole.result.text);
  REQUIRE(whole.result.text.size() > 4);
  const std::string stop = whole.result.text.substr(3, 2);
  GenerateOptions options = Greedy(12);
  options.stops = {stop};
  const Made cut = GenerateTiny({1, 5, 9}, options);
  REQUIRE(cut.status);
  CHECK(cut.result.reason == StopReason::kStopString);
  CHECK(cut.result.text == whole.result.text.substr(0, whole.result.text.find(stop)));
  CHECK(cut.streamed == cut.result.text);
  CHECK(cut.result.tokens.size() <= whole.result.tokens.size());
}

TEST_CASE("generate: the end-of-text token ends it and is not among the tokens, unless it is to be ignored") {
  // The seed decides when </s> (2) comes: the first one that draws it within 400 tokens of level sampling.
  GenerateOptions options;
  options.max_tokens = 100;
  options.ignore_end_of_text = true;
  options.sampling = {.temperature = 100, .top_k = 0, .top_p = 1, .min_p = 0};
  for (options.sampling.seed = 1; options.sampling.seed < 200; ++options.sampling.seed) {
    const Made whole = GenerateTiny({1, 5}, options);
    REQUIRE(whole.status);
    REQUIRE(whole.result.tokens.size() == 100);
    const auto end = std::ranges::find(whole.result.tokens, 2);
    if (end == whole.result.tokens.end()) continue;
    options.ignore_end_of_text = false;
    const Made ended = GenerateTiny({1, 5}, options);
    CHECK(ended.result.reason == StopReason::kEndOfText);
    CHECK(ended.result.tokens == std::vector<TokenId>(whole.result.tokens.begin(), end));
    return;
  }
  FAIL("no seed drew the end-of-text token");
}

TEST_CASE("generate: the end of the context is E505, and what was made until then is kept and shown") {
  const Made made = GenerateTiny({1, 5, 9}, Greedy(50), true, {.context = 8});
  REQUIRE_FALSE(made.status);
  CHECK(made.status.error().code == Code::CONTEXT_FULL);
  CHECK(made.result.tokens.size() == 6);  // 3 + 5 fit; the last one is sampled and does not fit any more
  CHECK(made.streamed == made.result.text);

  GenerateOptions holding = Greedy(50);  // whose end could have become a stop string
  holding.stops = {made.result.text.substr(made.result.text.size() - 1) + "|never|"};
  const Made held = GenerateTiny({1, 5, 9}, holding, true, {.context = 8});
  REQUIRE_FALSE(held.status);
  CHECK(held.result.text == made.result.text);
  CHECK(held.streamed == made.result.text);
}

TEST_CASE("generate: a cancel ends it with the caller's error and keeps what was made") {
  const auto base = OpenTiny();
  const Stack stack(base);
  const auto decoder = MakeDecoder(stack.Stage(ComputeMode::kFast));
  const auto tokenizer = OpenTokenizer(*base);
  REQUIRE(tokenizer);
  Generated made;
  decoder->SetCancelCheck([&]() -> std::optional<Error> {
    if (made.tokens.size() < 4) return std::nullopt;
    return Error{Code::COMPOSITION_CHANGED, "decode", "another composition was activated"};
  });
  const std::vector<TokenId> prompt = {1, 5};
  std::string streamed;
  const Status status = Generate(*decoder, &*tokenizer, prompt, Greedy(20), [&](std::string_view text) { streamed += text; }, made);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == Code::COMPOSITION_CHANGED);
  CHECK(made.tokens.size() == 4);
  CHECK(streamed == made.text);
}

TEST_CASE("generate: an empty prompt, sampling out of range and logits that are not finite are refused") {
  CHECK(GenerateTiny({}, Greedy(1)).status.error().code == Code::USAGE);
  GenerateOptions options = Greedy(1);
  options.sampling.top_p = 2;
  CHECK(GenerateTiny({1}, options).status.error().at == "--top-p");

  TinyModel model;
  model.matrix_type = VNR_F32;
  GgufWriter file = TinyLlama(model);
  std::vector<float> huge(model.hidden, 3e38F);  // the final norm: finite in the file, infinite in the logits
  file.SetTensor("output_norm.weight", VNR_F32, {model.hidden}, std::string(reinterpret_cast<const char*>(huge.data()), huge.size() * 4));
  const Stack stack(OpenTiny(file));
  const auto decoder = MakeDecoder(stack.Stage(ComputeMode::kExact));
  Generated made;
  const std::vector<TokenId> prompt = {1};
  const Status status = Generate(*decoder, nullptr, prompt, Greedy(3), {}, made);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == Code::NOT_FINITE);
  CHECK(made.tokens.empty());
}

}  // namespace
}  // namespace veneer
