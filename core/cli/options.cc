#include "core/cli/options.h"

#include <sched.h>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "core/decode/active_composition.h"
#include "core/decode/kv_cache.h"

namespace veneer::cli {
namespace {

namespace po = boost::program_options;

std::unexpected<Error> Usage(std::string at, std::string detail) { return Fail(Code::USAGE, std::move(at), std::move(detail)); }

// The option groups; a command takes the groups that Groups() lists for it.
std::map<std::string, po::options_description> Descriptions() {
  std::map<std::string, po::options_description> groups;
  const SamplingOptions sampling;
  const auto text = [] { return po::value<std::string>(); };
  const auto texts = [] { return po::value<std::vector<std::string>>()->composing(); };
  const auto add = [&groups](const char* id, const char* title) -> po::options_description_easy_init {
    return groups.emplace(id, po::options_description(title, 110)).first->second.add_options();
  };
  add("common", "Options of every command")("store", text(), "store directory (default: $VENEER_STORE, else the XDG data directory)")(
      "json", "print one JSON object instead of text")("memory-budget", text(), "refuse what needs more memory; bytes, or with K, M, G")(
      "threads", text(), "worker threads (default: the cores this process may use)")(
      "plugin", texts(), "NAME=PATH of a plugin library, its card beside it")("plugin-dir", texts(), "further directory with plugins")(
      "help,h", "explain the command")("version", "print the version");
  add("source", "What to run (default: the active composition)")("manifest", text(), "a manifest, without activating it")(
      "base", text(), "ephemeral: this GGUF file or Hugging Face directory as base, no store needed")(
      "adapter", texts(), "ephemeral: PATH[=W], adapter with strength W; repeatable, in order");
  add("compose", "What to compose")("base", text(), "name of a base in the store")("adapter", texts(), "NAME[=W] in the store; repeatable")(
      "out,o", text(), "file to write (default: standard output)");
  add("decode", "Computing")("compute", text()->default_value("fast"),
                             "exact: same bits for any threads and batches; fast: int8 activations")(
      "kv", text(), "K/V cache: f16, f32 or q8_0 (default: f16 in fast; f32 in exact, and nothing else there)")(
      "ctx,c", text(), "context size in tokens (default: the model's)");
  add("tokens", "Input")("tokens", text(), "token ids 1,2,3, taken as they are (no BOS added)");
  add("generate", "Generating")("prompt,p", text(), "text to continue")("file,f", text(),
                                                                        "file with the text to continue; - reads standard input")(
      "predict,n", text()->default_value("128"), "most new tokens")("stop", texts(), "stop before this text; repeatable")(
      "ignore-eos", "go on to -n after an end-of-text token")("lines", "a prompt a line of -f or -, following what is activated")(
      "on-switch", text()->default_value("abort"), "--lines: abort, keep, drain or reject, when a line is being decoded")(
      "switch-timeout", text()->default_value("60"), "--lines: seconds that a switch may drain, and a line wait for it")(
      "temp", text()->default_value(fmt::format("{}", sampling.temperature)), "temperature; 0 is greedy, ties go to the lowest id")(
      "top-k", text()->default_value(fmt::format("{}", sampling.top_k)), "keep the k likeliest; 0 keeps all")(
      "top-p", text()->default_value(fmt::format("{}", sampling.top_p)), "keep the likeliest up to this probability; 1 keeps all")(
      "min-p", text()->default_value(fmt::format("{}", sampling.min_p)), "drop below this share of the likeliest; 0 drops none")(
      "repeat-penalty", text()->default_value(fmt::format("{}", sampling.repeat_penalty)), "divide logits of recent tokens; 1 is off")(
      "seed", text()->default_value(fmt::format("{}", sampling.seed)), "random seed; equal seeds give equal text");
  add("logits", "Output")("out,o", text(), "NPY file, float32 [n_tokens, vocab]")("batch", text()->default_value("256"),
                                                                                  "tokens fed at once");
  add("import", "Importing")("name", text(), "name in the store (default: cleaned file stem)")(
      "kind", text(), "adapter kind, when the files do not tell")("params", texts(), "k=v, a parameter of the kind; repeatable");
  add("seal", "Sealing")("out,o", text(), "write the composition here as well")("name", text(), "name the composition in the store");
  add("switch", "Switching")("expect", text(), "only when this composition (or none) is active now")(
      "verbose", "show on standard error each state the activation reaches, with its time");
  add("rollback", "Rolling back")("to", text(), "generation to return to (default: the one before)");
  add("gc", "Collecting")("now", "delete what was taken out at once, and what waits in trash/")(
      "keep", texts(), "first keep what this generation needs; repeatable")("release", texts(),
                                                                            "first end that for this generation; repeatable");
  add("fsck", "Checking")("full", "hash every blob")("repair", "rebuild what can be rebuilt, quarantine bad blobs")(
      "set-current", text(), "the generation to make active when CURRENT is damaged");
  add("tokenize", "Tokenizing")("no-special", "add no BOS or EOS")("parse-special", "read <s> and the like in the text as control tokens");
  add("inspect", "Inspecting")("diff", "compare two compositions")(
      "base", text(), "GGUF file, Hugging Face directory, or name of a base in the store, to read an adapter against")(
      "manifest", text(), "read an adapter against the base of this manifest")("kind", text(), "adapter kind, when the files do not tell")(
      "params", texts(), "k=v, read it with this parameter of its kind; repeatable")(
      "adapter", texts(), "with --base FILE and no WHAT: inspect this stack, PATH[=W]; repeatable, in order");
  add("bench", "Measuring")("runs", text(), "how often, for medians and intervals")("count,n", text(),
                                                                                    "tokens of a series; of store: generations")(
      "depth", text(), "tokens that the context holds before a series (decode, prefill)")("batch", text()->default_value("256"),
                                                                                          "tokens of a prompt fed at once")(
      "against", text(), "a program with llama-bench's options, run in turn with this one (decode, prefill; needs --base)")(
      "svg", text(), "file to draw the figures into as a plot (overlays, kernels)")(
      "dir", text(), "store: folder to make it in (default: the one for temporary files)");
  add("plugin", "Listing")("all", "refused plugins too, with the reason");
  return groups;
}

const std::map<std::string, std::vector<std::string>>& Groups() {
  static const std::map<std::string, std::vector<std::string>> groups{
      {"demo", {}},
      {"init", {}},
      {"status", {}},
      {"log", {}},
      {"fsck", {"fsck"}},
      {"forget", {}},
      {"gc", {"gc"}},
      {"import", {"import"}},
      {"compose", {"compose"}},
      {"seal", {"seal"}},
      {"validate", {}},
      {"activate", {"switch"}},
      {"rollback", {"rollback", "switch"}},
      {"deactivate", {"switch"}},
      {"consolidate", {"switch"}},
      {"generate", {"source", "tokens", "generate", "decode"}},
      {"logits", {"source", "tokens", "logits", "decode"}},
      {"tokenize", {"source", "tokenize"}},
      {"inspect", {"inspect"}},
      {"plan", {"source", "decode"}},
      {"plugin", {"plugin"}},
      {"bench", {"source", "decode", "bench"}},
      {"help", {}},
  };
  return groups;
}

std::vector<std::string> GroupsOf(const std::string& command) {
  std::vector<std::string> ids;
  const auto found = Groups().find(command);
  if (found != Groups().end()) ids = found->second;
  ids.emplace_back("common");
  return ids;
}

template <class T>
Result<T> ParseNumber(const std::string& option, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Usage("--" + option, fmt::format("'{}' is not a number that fits", text));
  return value;
}

Result<std::uint64_t> ParseBytes(const std::string& option, std::string text) {
  std::uint64_t unit = 1;
  if (!text.empty()) {
    const auto suffix = std::string_view("KMG").find(text.back());
    if (suffix != std::string_view::npos) {
      unit = std::uint64_t{1} << (10 * (suffix + 1));
      text.pop_back();
    }
  }
  VENEER_ASSIGN(const std::uint64_t number, ParseNumber<std::uint64_t>(option, text));
  if (number > UINT64_MAX / unit) return Usage("--" + option, "too large");
  return number * unit;
}

Result<std::vector<std::int32_t>> ParseTokens(const std::string& text) {
  std::vector<std::int32_t> tokens;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto first = part.find_first_not_of(' ');
    part = first == std::string::npos ? "" : part.substr(first, part.find_last_not_of(' ') - first + 1);
    VENEER_ASSIGN(tokens.emplace_back(), ParseNumber<std::int32_t>("tokens", part));
  }
  if (tokens.empty()) return Usage("--tokens", "no token id given; write --tokens 1,2,3");
  return tokens;
}

template <class T>
Result<std::vector<std::pair<std::string, T>>> ParsePairs(const std::string& option, std::string_view form,
                                                          const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, T>> pairs;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return Usage("--" + option, fmt::format("'{}', write {}", text, form));
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return pairs;
}

std::uint32_t UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&set)));
}

std::filesystem::path DefaultStore() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);  // read once at start, before any thread
    return value == nullptr ? "" : value;
  };
  if (const std::string store = variable("VENEER_STORE"); !store.empty()) return store;
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty()) return std::filesystem::path(data) / "veneer";
  return std::filesystem::path(variable("HOME")) / ".local/share/veneer";
}

// Which option groups were merged into one description: names are unique over the groups one command takes.
po::options_description Merge(const std::map<std::string, po::options_description>& all, const std::vector<std::string>& ids) {
  po::options_description merged;
  for (const std::string& id : ids) merged.add(all.at(id));
  return merged;
}

// The verb is the first word that is neither an option nor an option's value. Options with values are the same for all commands
// as far as having a value goes, so one union suffices to find it.
std::string FindVerb(const std::vector<std::string>& arguments) {
  std::set<std::string> with_value;
  for (const auto& [id, group] : Descriptions())
    for (const auto& option : group.options())
      if (option->semantic()->max_tokens() > 0) {
        with_value.insert("--" + option->long_name());
        const std::string shortened = option->canonical_display_name(po::command_line_style::allow_dash_for_short);
        if (shortened.size() == 2) with_value.insert(shortened);
      }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.size() < 2 || word[0] != '-') return word;
    if (with_value.contains(word)) ++i;
  }
  return "";
}

template <class Target, class T>
Status Set(Target& target, Result<T> value) {
  if (!value) return Fail(std::move(value).error());
  target = *std::move(value);
  return {};
}

// Copies one option into the values; every text is checked here.
Status Apply(const std::string& name, const boost::any& raw, Options& options) {
  static const std::string kEmpty;
  const auto* one = boost::any_cast<std::string>(&raw);
  const auto* many = boost::any_cast<std::vector<std::string>>(&raw);
  const std::string& text = one != nullptr ? *one : kEmpty;
  if (name == "store") options.store = text;
  if (name == "json") options.json = true;
  if (name == "help") options.help = true;
  if (name == "version") options.version = true;
  if (name == "full") options.full = true;
  if (name == "now") options.now = true;
  if (name == "verbose") options.verbose = true;
  if (name == "repair") options.repair = true;
  if (name == "all") options.all = true;
  if (name == "no-special") options.no_special = true;
  if (name == "parse-special") options.parse_special = true;
  if (name == "ignore-eos") options.ignore_eos = true;
  if (name == "diff") options.diff = true;
  if (name == "lines") options.lines = true;
  if (name == "on-switch") options.on_switch = text;
  if (name == "manifest") options.manifest = text;
  if (name == "base") options.base = text;
  if (name == "kv") options.kv = text;
  if (name == "compute") options.compute = text;
  if (name == "prompt") options.prompt = text;
  if (name == "file") options.prompt_file = text;
  if (name == "out") options.out = text;
  if (name == "dir") options.directory = text;
  if (name == "name") options.name = text;
  if (name == "kind") options.kind = text;
  if (name == "expect") options.expect = text;
  if (name == "adapter") options.adapters = *many;
  if (name == "stop") options.stops = *many;
  if (name == "params") VENEER_TRY(Set(options.params, ParsePairs<std::string>(name, "NAME=VALUE", *many)));
  if (name == "plugin-dir") options.plugin_dirs.assign(many->begin(), many->end());
  if (name == "plugin") VENEER_TRY(Set(options.plugins, ParsePairs<std::filesystem::path>(name, "NAME=PATH", *many)));
  if (name == "memory-budget") VENEER_TRY(Set(options.memory_budget, ParseBytes(name, text)));
  if (name == "tokens") VENEER_TRY(Set(options.tokens, ParseTokens(text)));
  if (name == "threads") VENEER_TRY(Set(options.threads, ParseNumber<std::uint32_t>(name, text)));
  if (name == "ctx") VENEER_TRY(Set(options.context, ParseNumber<std::uint32_t>(name, text)));
  if (name == "batch") VENEER_TRY(Set(options.batch, ParseNumber<std::uint32_t>(name, text)));
  if (name == "predict") VENEER_TRY(Set(options.predict, ParseNumber<std::uint32_t>(name, text)));
  if (name == "count") VENEER_TRY(Set(options.count, ParseNumber<std::uint32_t>(name, text)));
  if (name == "depth") VENEER_TRY(Set(options.depth, ParseNumber<std::uint32_t>(name, text)));
  if (name == "against") options.against = text;
  if (name == "svg") options.svg = text;
  if (name == "runs") VENEER_TRY(Set(options.runs, ParseNumber<std::uint64_t>(name, text)));
  if (name == "set-current") VENEER_TRY(Set(options.set_current, ParseNumber<std::uint64_t>(name, text)));
  if (name == "switch-timeout") VENEER_TRY(Set(options.switch_timeout, ParseNumber<std::uint32_t>(name, text)));
  if (name == "to") VENEER_TRY(Set(options.to, ParseNumber<std::uint64_t>(name, text)));
  if (name == "keep" || name == "release")
    for (const std::string& generation : *many) {
      VENEER_ASSIGN(const std::uint64_t number, ParseNumber<std::uint64_t>(name, generation));
      (name == "keep" ? options.keep : options.release).push_back(number);
    }
  if (name == "temp") VENEER_TRY(Set(options.sampling.temperature, ParseNumber<float>(name, text)));
  if (name == "top-k") VENEER_TRY(Set(options.sampling.top_k, ParseNumber<std::uint32_t>(name, text)));
  if (name == "top-p") VENEER_TRY(Set(options.sampling.top_p, ParseNumber<float>(name, text)));
  if (name == "min-p") VENEER_TRY(Set(options.sampling.min_p, ParseNumber<float>(name, text)));
  if (name == "repeat-penalty") VENEER_TRY(Set(options.sampling.repeat_penalty, ParseNumber<float>(name, text)));
  if (name == "seed") VENEER_TRY(Set(options.sampling.seed, ParseNumber<std::uint64_t>(name, text)));
  return {};
}

Status CheckRanges(const Options& options) {
  if (options.threads == 0 || options.threads > 256) return Usage("--threads", fmt::format("{}, allowed 1..256", options.threads));
  if (options.batch == 0 || options.batch > 4096) return Usage("--batch", fmt::format("{}, allowed 1..4096", options.batch));
  if (options.runs && (*options.runs == 0 || *options.runs > 100'000))
    return Usage("--runs", fmt::format("{}, allowed 1..100000", *options.runs));
  if (options.count == 0U) return Usage("-n", "0, give at least 1");
  if (options.compute != "exact" && options.compute != "fast")
    return Usage("--compute", fmt::format("'{}', allowed exact, fast", options.compute));
  if (options.kv && !ParseKvType(*options.kv)) return Usage("--kv", fmt::format("'{}', allowed f16, f32, q8_0", *options.kv));
  if (!ParseSwitchPolicy(options.on_switch))
    return Usage("--on-switch", fmt::format("'{}', allowed abort, keep, drain, reject", options.on_switch));
  if (options.context == 0U) return Usage("--ctx", "0, give at least 1");
  if (options.base && options.manifest) return Usage("--manifest", "give either --manifest or --base");
  const SamplingOptions& s = options.sampling;
  if (!(s.temperature >= 0 && s.temperature <= 100)) return Usage("--temp", "allowed 0..100");
  if (!(s.top_p >= 0 && s.top_p <= 1)) return Usage("--top-p", "allowed 0..1");
  if (!(s.min_p >= 0 && s.min_p <= 1)) return Usage("--min-p", "allowed 0..1");
  if (!(s.repeat_penalty > 0 && s.repeat_penalty <= 100)) return Usage("--repeat-penalty", "allowed above 0, up to 100");
  return {};
}

}  // namespace

std::string OptionHelp(std::string_view command) {
  const auto all = Descriptions();
  std::ostringstream out;
  for (const std::string& id : GroupsOf(std::string(command))) out << all.at(id) << "\n";
  return out.str();
}

Result<Options> ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  options.threads = UsableCores();
  options.store = DefaultStore();
  const std::string verb = FindVerb(arguments);
  if (!verb.empty() && !Groups().contains(verb)) return Usage(verb, "is not a command; `veneer --help` lists them");
  const po::options_description known = Merge(Descriptions(), GroupsOf(verb));
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    po::options_description with_words = known;
    with_words.add_options()("words", po::value<std::vector<std::string>>());
    po::positional_options_description positional;
    positional.add("words", -1);
    po::variables_map values;
    po::store(po::command_line_parser(arguments).options(with_words).positional(positional).style(style).run(), values);
    if (values.contains("words")) options.words = values["words"].as<std::vector<std::string>>();
    for (const auto& [name, value] : values)
      if (name != "words") VENEER_TRY(Apply(name, value.value(), options));
  } catch (const po::error& error) {
    return Usage(verb.empty() ? "command line" : verb, fmt::format("{}; `veneer {} --help` explains", error.what(), verb));
  }
  VENEER_TRY(CheckRanges(options));
  return options;
}

}  // namespace veneer::cli
