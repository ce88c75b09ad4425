// logits and tokenize, over the selected composition.
#include <fmt/format.h>

#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/decode/generate.h"
#include "core/format/npy.h"

namespace veneer::cli {
namespace {

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
    VENEER_TRY(CheckFinite(row));
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
