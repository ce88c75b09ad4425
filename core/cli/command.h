// One verb of the command line. Each cmd_*.cc defines the verbs of one area; commands.cc lists them all.
#ifndef VENEER_CORE_CLI_COMMAND_H_
#define VENEER_CORE_CLI_COMMAND_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/cli/options.h"

namespace veneer::cli {

class Session;

struct Command {
  std::string_view name;             // "import"
  std::string_view usage;            // "import base FILE [--name N] | import adapter PATH …"
  std::string_view summary;          // one line for the overview
  std::string_view details;          // what it does, checks and changes; examples
  std::size_t min_words, max_words;  // words after the verb
  // Prints its result and returns the exit status, or an error that main prints as the ERR line.
  Result<int> (*run)(Session& session);
};

std::span<const Command> Commands();
const Command* FindCommand(std::string_view name);

// Runs one command line (without the program's name): what main does, also used by the demo. Returns the exit status.
int RunCommandLine(const std::vector<std::string>& arguments);

// The verbs, by file.
extern const Command kDemoCommand;
extern const Command kInitCommand, kStatusCommand, kLogCommand, kFsckCommand, kForgetCommand, kGcCommand;
extern const Command kImportCommand;
extern const Command kComposeCommand, kSealCommand, kValidateCommand;
extern const Command kActivateCommand, kRollbackCommand, kDeactivateCommand, kConsolidateCommand;
extern const Command kGenerateCommand, kLogitsCommand, kTokenizeCommand;
extern const Command kInspectCommand, kPlanCommand;
extern const Command kPluginCommand;
extern const Command kBenchCommand;

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_COMMAND_H_
