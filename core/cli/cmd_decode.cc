// generate, logits, tokenize: what is decoded over the selected composition.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <iterator>

#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/decode/generate.h"
#include "core/format/npy.h"

namespace veneer::cli {
namespace {

constexpr std::uint64_t kMaxPromptBytes = 16 << 20;

Result<std::string> ReadStandardInput() {
  std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  if (text.size() > kMaxPromptBytes) return Fail(Code::INPUT_TOO_LARGE, "standard input", "more than 16 MiB");
  return text;
}

// The text of -p, -f or "-"; nothing when --tokens is given.
Result<std::optional<std::string>> PromptText(const Session& session) {
  const Options& options = session.options();
  const bool reads_input = session.words() == 1 && session.word(0) == "-";
  if (session.words() == 1 && !reads_input)
    return Fail(Code::USAGE, session.word(0), "give the text with -p TEXT, a file with -f FILE, or - for standard input");
  const int given = (options.prompt ? 1 : 0) + (options.prompt_file ? 1 : 0) + (reads_input ? 1 : 0) + (options.tokens ? 1 : 0);
  if (given != 1) return Fail(Code::USAGE, "prompt", "give exactly one of -p TEXT, -f FILE, - or --tokens 1,2,3");
  if (options.prompt) return options.prompt;
  if (options.tokens) return std::optional<std::string>();
  if (reads_input || *options.prompt_file == "-") {
    VENEER_ASSIGN(std::string text, ReadStandardInput());
    return std::optional(std::move(text));
  }
  VENEER_ASSIGN(std::string text, ReadText(*options.prompt_file, kMaxPromptBytes));
  return std::optional(std::move(text));
}

std::string_view ReasonText(StopReason reason) {
  switch (reason) {
    case StopReason::kLength:
      return "length";
    case StopReason::kEndOfText:
      return "end-of-text";
    case StopReason::kStopString:
      return "stop";
  }
  return "";
}

Result<int> RunGenerate(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(const std::optional<std::string> text, PromptText(session));
  VENEER_ASSIGN(const ValidatedComposition selected, session.Selected());
  std::optional<Tokenizer> tokenizer;
  if (auto opened = OpenTokenizer(*selected.base()); opened) {
    tokenizer = *std::move(opened);
  } else if (text || !options.stops.empty()) {
    return Fail(std::move(opened).error());
  }
  const std::vector<TokenId> prompt = text ? tokenizer->Encode(*text, {.add_special = true, .parse_special = true}) : *options.tokens;
  VENEER_ASSIGN(const std::unique_ptr<Decoder> decoder, session.MakeDecoder(selected, options.batch));
  GenerateOptions generate;
  generate.max_tokens = options.predict;
  generate.ignore_end_of_text = options.ignore_eos;
  generate.stops = options.stops;
  generate.sampling = options.sampling;
  const bool streams = !options.json;
  const auto on_text = [streams](std::string_view piece) {
    if (streams) Print(piece);
  };
  if (streams && text) Print(*text);
  Generated made;
  const Status status = Generate(*decoder, tokenizer ? &*tokenizer : nullptr, prompt, generate, on_text, made);
  if (streams) {
    if (!tokenizer)
      for (std::size_t i = 0; i < made.tokens.size(); ++i) Print(fmt::format("{}{}", i == 0 ? "" : ",", made.tokens[i]));
    Print("\n");
  }
  if (!status) return Fail(status.error());
  if (options.json)
    PrintJson({{"tokens", made.tokens},
               {"text", made.text},
               {"composition", selected.composition().Id().Text()},
               {"prompt_tokens", prompt.size()},
               {"stopped_by", ReasonText(made.reason)}});
  return 0;
}

Result<int> RunLogits(Session& session) {
  const Options& options = session.options();
  if (!options.tokens) return Fail(Code::USAGE, "--tokens", "give the token ids: --tokens 1,2,3");
  if (!options.out) return Fail(Code::USAGE, "--out", "give the file to write: --out logits.npy");
  VENEER_ASSIGN(const ValidatedComposition selected, session.Selected());
  VENEER_ASSIGN(const std::unique_ptr<Decoder> decoder, session.MakeDecoder(selected, options.batch));
  const std::size_t vocab = selected.base()->config().vocab;
  VENEER_ASSIGN(NpyWriter writer, NpyWriter::Create(*options.out, options.tokens->size(), vocab));
  ProgressBar bar("logits");
  const auto write = [&](std::size_t i, std::span<const float> row) -> Status {
    bar.Update(i + 1, options.tokens->size());
    return writer.Append(row);
  };
  VENEER_TRY(decoder->Feed(*options.tokens, true, write));
  VENEER_TRY(writer.Finish());
  if (options.json)
    PrintJson(
        {{"out", options.out->string()}, {"shape", {options.tokens->size(), vocab}}, {"composition", selected.composition().Id().Text()}});
  else
    PrintLine(fmt::format("{}: float32 [{}, {}]", options.out->string(), options.tokens->size(), vocab));
  return 0;
}

Result<int> RunTokenize(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(const std::shared_ptr<const Base> base, session.SelectedBase());
  VENEER_ASSIGN(const Tokenizer tokenizer, OpenTokenizer(*base));
  const std::vector<TokenId> tokens =
      tokenizer.Encode(session.word(0), {.add_special = !options.no_special, .parse_special = options.parse_special});
  if (options.json) {
    PrintJson({{"tokens", tokens}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"ID", "PIECE"}};
  for (const TokenId id : tokens) rows.push_back({fmt::format("{}", id), fmt::format("'{}'", Printable(tokenizer.Piece(id)))});
  Print(Table(rows));
  return 0;
}

}  // namespace

constinit const Command kGenerateCommand{
    "generate",
    "generate (-p TEXT | -f FILE | - | --tokens 1,2,3) [-n N] [options]",
    "continue a text",
    "Decodes over the active composition, over --manifest FILE, or over --base FILE with --adapter PATH[=W] in order.\n"
    "Text goes to standard output as it comes, prompt first; --json prints {\"tokens\", \"text\", \"composition\"} with the new tokens "
    "only.\n"
    "Running out of context is an error that says so.\n",
    0,
    1,
    RunGenerate};

constinit const Command kLogitsCommand{
    "logits",
    "logits --tokens 1,2,3 --out FILE.npy [--batch N] [options]",
    "write the logits of a token sequence",
    "Feeds the tokens as they are and writes float32 [n_tokens, vocab]. With --compute exact the file is the same, byte for byte, for any\n"
    "--threads and --batch.\n",
    0,
    0,
    RunLogits};

constinit const Command kTokenizeCommand{"tokenize",
                                         "tokenize TEXT [--no-special | --parse-special]",
                                         "show the tokens of a text",
                                         "Uses the tokenizer of the selected composition's base.\n",
                                         1,
                                         1,
                                         RunTokenize};

}  // namespace veneer::cli
