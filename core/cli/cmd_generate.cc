// generate: text from one prompt over the selected composition, or, with --lines, from many over whatever is active meanwhile.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/decode/generate.h"
#include "core/serve/served_store.h"

namespace veneer::cli {
namespace {

constexpr std::uint64_t kMaxPromptBytes = 16 << 20;

Result<std::string> ReadStandardInput() {
  std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  if (text.size() > kMaxPromptBytes) return Fail(Code::INPUT_TOO_LARGE, "standard input", "more than 16 MiB");
  return text;
}

bool ReadsStandardInput(const Session& session) {
  return (session.words() == 1 && session.word(0) == "-") || session.options().prompt_file == std::optional<std::filesystem::path>("-");
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
  if (ReadsStandardInput(session)) {
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

GenerateOptions OptionsOf(const Options& options) {
  GenerateOptions generate;
  generate.max_tokens = options.predict;
  generate.ignore_end_of_text = options.ignore_eos;
  generate.stops = options.stops;
  generate.sampling = options.sampling;
  return generate;
}

std::function<void(std::string_view)> Streamer(const Options& options) {
  if (options.json) return {};
  return [](std::string_view piece) { Print(piece); };
}

OutJson JsonOf(const Generated& made, const Digest& composition, std::size_t prompt_tokens) {
  return {{"tokens", made.tokens},
          {"text", made.text},
          {"composition", composition.Text()},
          {"prompt_tokens", prompt_tokens},
          {"stopped_by", ReasonText(made.reason)}};
}

std::vector<TokenId> Encode(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.Encode(text, {.add_special = true, .parse_special = true});
}

// --- one prompt ------------------------------------------------------------------------------------------------------------------

Result<int> RunOne(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(const std::optional<std::string> text, PromptText(session));
  VENEER_ASSIGN(const ValidatedComposition selected, session.Selected());
  std::optional<Tokenizer> tokenizer;
  if (auto opened = OpenTokenizer(*selected.base()); opened) {
    tokenizer = *std::move(opened);
  } else if (text || !options.stops.empty()) {
    return Fail(std::move(opened).error());
  }
  const std::vector<TokenId> prompt = text ? Encode(*tokenizer, *text) : *options.tokens;
  VENEER_ASSIGN(const std::unique_ptr<Decoder> decoder, session.MakeDecoder(selected, options.batch));
  const bool streams = !options.json;
  if (streams && text) Print(*text);
  Generated made;
  const Status status = Generate(*decoder, tokenizer ? &*tokenizer : nullptr, prompt, OptionsOf(options), Streamer(options), made);
  if (streams) {
    if (!tokenizer)
      for (std::size_t i = 0; i < made.tokens.size(); ++i) Print(fmt::format("{}{}", i == 0 ? "" : ",", made.tokens[i]));
    Print("\n");
  }
  if (!status) return Fail(status.error());
  if (options.json) PrintJson(JsonOf(made, selected.composition().Id(), prompt.size()));
  return 0;
}

// --- a prompt a line -------------------------------------------------------------------------------------------------------------

std::string ServedText(const ServingStatus& status) {
  std::string text = fmt::format("serving gen={} composition={}", status.served_generation, status.served ? status.served->Text() : "none");
  if (status.error) text += fmt::format("; gen={} is not: {}", status.wanted_generation, status.error->Text());
  return text;
}

// Answers prompts one after the other; each is decoded under one composition from its first token to its last.
class LineAnswerer {
 public:
  LineAnswerer(const Session& session, ServedStore& served)
      : session_(session), options_(session.options()), served_(served), streamer_(Streamer(options_)) {}

  // The exit status for the line; when it was not decoded to its end it says so itself.
  Result<int> Answer(const std::string& line) {
    (void)served_.Adopt();  // what was activated before this line came is in force for it, or status() says why not
    auto decode = BeginDecode(served_.active(), session_.decoder_options(options_.batch), std::chrono::seconds(options_.switch_timeout));
    if (!decode) return Report(decode.error(), {{"generation", served_.status().served_generation}});
    const StagedComposition& composition = decode->decoder->composition();
    const std::uint64_t generation = served_.GenerationOf(composition);
    if (tokenizer_of_ != &composition.base()) {
      VENEER_ASSIGN(tokenizer_, OpenTokenizer(composition.base()));
      tokenizer_of_ = &composition.base();
    }
    const std::vector<TokenId> prompt = Encode(*tokenizer_, line);
    Generated made;
    if (streamer_) Print(line);
    const Status status = Generate(*decode->decoder, &*tokenizer_, prompt, OptionsOf(options_), streamer_, made);
    if (streamer_) Print("\n");
    OutJson json = JsonOf(made, composition.id(), prompt.size());
    json["generation"] = generation;
    if (!status) return Report(status.error(), std::move(json));
    if (!streamer_) PrintJson(json);
    return 0;
  }

 private:
  int Report(const Error& error, OutJson json) {
    PrintError("generate", error, false);
    if (streamer_) return ExitStatus(error);
    json["stopped_by"] = "error";
    json["error"] = {{"code", static_cast<int>(error.code)}, {"name", CodeName(error.code)}, {"at", error.at}, {"detail", error.detail}};
    PrintJson(json);
    return ExitStatus(error);
  }

  const Session& session_;
  const Options& options_;
  ServedStore& served_;
  std::function<void(std::string_view)> streamer_;
  std::optional<Tokenizer> tokenizer_;
  const Base* tokenizer_of_ = nullptr;
};

Result<int> RunLines(Session& session) {
  const Options& options = session.options();
  if (options.base || options.manifest || options.prompt || options.tokens)
    return Fail(Code::USAGE, "--lines",
                "answers the lines of -f FILE or - over the store's active composition; leave out --base, "
                "--manifest, -p and --tokens");
  if (!options.prompt_file && !ReadsStandardInput(session)) return Fail(Code::USAGE, "--lines", "give the prompts with -f FILE or -");
  std::ifstream file;
  if (!ReadsStandardInput(session)) {
    VENEER_TRY(OpenRegular(*options.prompt_file));  // the error, if there is one
    file.open(*options.prompt_file);
  }
  std::istream& input = ReadsStandardInput(session) ? std::cin : file;
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  ServeOptions serve;
  serve.stage = session.stage_options();
  serve.decoder = session.decoder_options(options.batch);
  serve.memory_budget = options.memory_budget;
  serve.policy = *ParseSwitchPolicy(options.on_switch);
  serve.patience = std::chrono::seconds(options.switch_timeout);
  VENEER_ASSIGN(const std::unique_ptr<ServedStore> served, ServedStore::Open(*store, *catalog, serve));
  const std::jthread follower(  // notes what is served now, too
      [&served](const std::stop_token& stop) { served->Follow(stop, [](const ServingStatus& status) { Note(ServedText(status)); }); });
  LineAnswerer answerer(session, *served);
  int status = 0;  // of the first line that was not decoded to its end
  for (std::string line; std::getline(input, line);) {
    if (line.empty()) continue;
    if (line.size() > kMaxPromptBytes) return Fail(Code::INPUT_TOO_LARGE, "line", "more than 16 MiB");
    VENEER_ASSIGN(const int answered, answerer.Answer(line));
    if (status == 0) status = answered;
  }
  return status;
}

Result<int> RunGenerate(Session& session) { return session.options().lines ? RunLines(session) : RunOne(session); }

}  // namespace

constinit const Command kGenerateCommand{
    "generate",
    "generate (-p TEXT | -f FILE | - | --tokens 1,2,3) [-n N] [options]\n       veneer generate --lines (-f FILE | -) [--on-switch POLICY] "
    "[-n N] [options]",
    "continue a text",
    "Decodes over the active composition, over --manifest FILE, or over --base FILE|DIR with --adapter PATH[=W] in order.\n"
    "Text goes to standard output as it comes, prompt first; --json prints {\"tokens\", \"text\", \"composition\"} with the new tokens "
    "only.\n"
    "Running out of context is an error that says so.\n"
    "\n"
    "--lines answers one prompt after the other in one process and follows the store: what another process activates is in force for the\n"
    "next line. For a line that is being decoded at that moment --on-switch decides: abort ends it with E616 (what it has made is shown),\n"
    "drain and keep let it end first, reject puts the switch off until no line is being decoded. A generation that cannot be loaded is\n"
    "named on standard error, and the one before stays in force. With --json each line gives an object, with \"generation\" and, when it "
    "did\n"
    "not end well, \"error\". The exit status is that of the first line that\n"
    "did not.\n",
    0,
    1,
    RunGenerate};

}  // namespace veneer::cli
