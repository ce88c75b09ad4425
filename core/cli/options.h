// The command line as values. Boost.Program_options is included by options.cc alone.
#ifndef VENEER_CORE_CLI_OPTIONS_H_
#define VENEER_CORE_CLI_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/decode/sampler.h"

namespace veneer::cli {

struct Options {
  std::vector<std::string> words;  // verb and what it works on, in order
  bool help = false, version = false;

  // every command
  std::filesystem::path store;  // resolved: --store, $VENEER_STORE, XDG data directory
  bool json = false;
  std::uint64_t memory_budget = UINT64_MAX;
  std::uint32_t threads = 1;                                           // default: the cores this process may use
  std::vector<std::pair<std::string, std::filesystem::path>> plugins;  // --plugin NAME=PATH
  std::vector<std::filesystem::path> plugin_dirs;

  // what to run when it is not the active composition
  std::optional<std::filesystem::path> manifest;
  std::optional<std::string> base;
  std::vector<std::string> adapters;

  // decoding
  std::string compute = "fast";   // exact | fast
  std::optional<std::string> kv;  // a KvType's name; default f16 in fast, f32 in exact
  std::optional<std::uint32_t> context;
  std::optional<std::vector<std::int32_t>> tokens;
  std::uint32_t batch = 256;

  // generate
  std::optional<std::string> prompt;
  std::optional<std::filesystem::path> prompt_file;
  std::uint32_t predict = 128;
  std::vector<std::string> stops;
  SamplingOptions sampling;
  bool ignore_eos = false;
  bool lines = false;                 // a prompt a line, following the store
  std::string on_switch = "abort";    // abort | keep | drain | reject
  std::uint32_t switch_timeout = 60;  // seconds

  // the rest, by command
  std::optional<std::filesystem::path> out;
  std::optional<std::string> name, kind, expect;
  std::vector<std::pair<std::string, std::string>> params;  // --params NAME=VALUE
  std::optional<std::uint64_t> to, set_current;
  std::vector<std::uint64_t> keep, release;  // generations
  std::optional<std::filesystem::path> directory;
  std::optional<std::uint64_t> runs;   // each bench has its own default
  std::optional<std::uint32_t> count;  // tokens of a bench, generations of that of the store
  std::optional<std::uint32_t> depth;  // tokens before them
  std::optional<std::string> against;  // a peer's benchmark program
  std::optional<std::filesystem::path> svg;
  bool now = false, verbose = false;
  bool full = false, repair = false, all = false, no_special = false, parse_special = false, diff = false;
};

// E901 with the offending option or value; also when an option does not belong to the command.
Result<Options> ParseOptions(const std::vector<std::string>& arguments);

// The options of a command, formatted for --help.
std::string OptionHelp(std::string_view command);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_OPTIONS_H_
