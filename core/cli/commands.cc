#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>

#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/cli/version.h"

namespace veneer::cli {
namespace {

constexpr std::string_view kIntroduction =
    R"(veneer runs a quantized language model that never changes, with adapters laid over it as reversible overlays.

First steps, without a store:
  veneer generate --base model.gguf -p "Once upon a time"
  veneer generate --base model.gguf --adapter my-adapter/ --adapter another/=0.5 -p "Once upon a time"

With a store (named files, activation as a transaction, rollback):
  veneer init
  veneer import base model.gguf --name tiny
  veneer import adapter my-adapter/ --name style
  veneer compose --base tiny --adapter style=0.8 -o style.toml
  veneer activate style.toml
  veneer generate -p "Once upon a time"
  veneer rollback

)";

void PrintOverview() {
  Print(kIntroduction);
  Print("Commands (`veneer COMMAND --help` explains each):\n");
  std::vector<std::vector<std::string>> rows;
  for (const Command& command : Commands()) rows.push_back({fmt::format("  {}", command.name), std::string(command.summary)});
  Print(Table(rows));
  Print(fmt::format("\n{}", OptionHelp("")));
  Print(
      "Exit status: 0 done, 2 usage, 3 refused (E1 input, E2 schema, E3 integrity, E4 compatibility), 4 resources or store (E5, E6), 5 "
      "internal.\n");
}

void PrintHelp(const Command& command) {
  Print(fmt::format("veneer {}\n\n{}\n{}\n", command.usage, command.details, OptionHelp(command.name)));
}

Result<int> Run(const Command& command, Options options) {
  const std::size_t words = options.words.size() - 1;
  if (words < command.min_words || words > command.max_words)
    return Fail(Code::USAGE, std::string(command.name), fmt::format("write: veneer {}", command.usage));
  Session session(std::move(options));
  return command.run(session);
}

}  // namespace

std::span<const Command> Commands() {
  static const std::array commands{kDemoCommand,     kInitCommand,     kStatusCommand,   kLogCommand,        kFsckCommand,
                                   kForgetCommand,   kGcCommand,       kImportCommand,   kComposeCommand,    kSealCommand,
                                   kValidateCommand, kActivateCommand, kRollbackCommand, kDeactivateCommand, kConsolidateCommand,
                                   kGenerateCommand, kLogitsCommand,   kTokenizeCommand, kInspectCommand,    kPlanCommand,
                                   kPluginCommand,   kBenchCommand};
  return commands;
}

const Command* FindCommand(std::string_view name) {
  const auto commands = Commands();
  const auto found = std::ranges::find(commands, name, &Command::name);
  return found == commands.end() ? nullptr : &*found;
}

int RunCommandLine(const std::vector<std::string>& arguments) {
  auto options = ParseOptions(arguments);
  if (!options) {
    PrintError("USAGE", options.error(), false);
    return ExitStatus(options.error());
  }
  if (options->version) {
    PrintLine(fmt::format("veneer {}", kVersion));
    return 0;
  }
  const std::string verb = options->words.empty() ? "" : options->words.front();
  if (verb.empty() || verb == "help") {
    const Command* topic = options->words.size() > 1 ? FindCommand(options->words[1]) : nullptr;
    topic != nullptr ? PrintHelp(*topic) : PrintOverview();
    return verb.empty() && !options->help ? 2 : 0;
  }
  const Command* command = FindCommand(verb);
  if (options->help) {
    PrintHelp(*command);
    return 0;
  }
  const bool json = options->json;
  Result<int> status = Run(*command, std::move(*options));
  if (status) return *status;
  PrintError(verb, status.error(), json);
  return ExitStatus(status.error());
}

}  // namespace veneer::cli
