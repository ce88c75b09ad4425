#include "core/cli/command.h"

#include <set>
#include <string>
#include <vector>

#include "tests/core/cli/captured.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace veneer::cli {
namespace {

TEST_CASE("commands: each has a usage that begins with its name, a summary, details and a help text") {
  std::set<std::string_view> names;
  for (const Command& command : Commands()) {
    CAPTURE(command.name);
    CHECK(names.insert(command.name).second);
    CHECK(command.usage.starts_with(command.name));
    CHECK_FALSE(command.summary.empty());
    CHECK(command.details.ends_with("\n"));
    CHECK(command.min_words <= command.max_words);
    CHECK(FindCommand(command.name) == &command);
    const Captured help = RunCommand({std::string(command.name), "--help"});
    CHECK(help.status == 0);
    CHECK(help.out.find(command.usage) != std::string::npos);
    CHECK(help.out.find("--memory-budget") != std::string::npos);
    CHECK(RunCommand({"help", std::string(command.name)}).out == help.out);
  }
  CHECK(FindCommand("frobnicate") == nullptr);
}

TEST_CASE("commands: the overview lists every command; without a verb it is an error") {
  const Captured asked = RunCommand({"--help"});
  CHECK(asked.status == 0);
  for (const Command& command : Commands()) CHECK(asked.out.find("  " + std::string(command.name) + " ") != std::string::npos);
  const Captured bare = RunCommand({});
  CHECK(bare.status == 2);
  CHECK(bare.out == asked.out);
}

TEST_CASE("commands: a wrong option, verb or number of words exits with 2 and says what to write") {
  const Captured option = RunCommand({"status", "--no-such-option"});
  CHECK(option.status == 2);
  CHECK(option.out.empty());
  CHECK(option.err.starts_with("ERR USAGE E901 USAGE at=status "));
  CHECK(option.err.find("no-such-option") != std::string::npos);
  CHECK(option.err.find("veneer status --help") != std::string::npos);
  CHECK(RunCommand({"frobnicate"}).status == 2);
  const Captured few = RunCommand({"activate"});
  CHECK(few.status == 2);
  CHECK(few.err.find("write: veneer activate MANIFEST") != std::string::npos);
  CHECK(RunCommand({"status", "extra"}).status == 2);
}

TEST_CASE("commands: an adapter's bad strength is refused before anything is hashed, with the option as its place") {
  const std::string base = (DemoData() / "fable-q4_0.gguf").string(), adapter = (DemoData() / "adapters/bard").string();
  const Captured refused = RunCommand({"generate", "--base", base, "--adapter", adapter + "=much", "--tokens", "1", "-n", "1"});
  CHECK(refused.status == 3);
  CHECK(refused.err.starts_with("ERR GENERATE E208 WEIGHT_INVALID at=--adapter " + adapter + "=much "));
}

TEST_CASE("commands: an instruction set that is unknown is the same usage error wherever kernels are selected") {
  const std::string base = (DemoData() / "fable-q4_0.gguf").string();
  for (const std::vector<std::string>& line : {std::vector<std::string>{"bench", "kernels"}, {"plan", "--base", base}}) {
    std::vector<std::string> argv{VENEER_PROGRAM};
    argv.insert(argv.end(), line.begin(), line.end());
    const ProcessResult refused = RunProcess(argv, "", {"VENEER_FORCE_ISA=abacus"});
    CAPTURE(line.front(), refused.err);
    CHECK(refused.status == 2);
    CHECK(refused.err.find(" E901 USAGE at=") != std::string::npos);
    CHECK(
        refused.err.ends_with("VENEER_FORCE_ISA names an instruction set that is unknown or cannot run here; unset it or write scalar\n"));
  }
}

TEST_CASE("commands: a store that is not there is E607, with the command that makes one") {
  const TempDir dir;
  const Captured status = RunCommand({"status", "--store", (dir.path() / "none").string()});
  CHECK(status.status == 4);
  CHECK(status.err.starts_with("ERR STATUS E607 STORE_FORMAT at="));
  CHECK(status.err.find("veneer init") != std::string::npos);
}

TEST_CASE("commands: a manifest's path that leads nowhere is named before a store is asked for") {
  const TempDir dir;
  const std::string store = (dir.path() / "none").string();
  for (const char* const path : {"missing.toml", "missing.json", "folder/manifest"})
    for (const char* const verb : {"validate", "plan"})
      CHECK(RunCommand({verb, path, "--store", store}).err.find(std::string(" E301 BLOB_MISSING at=") + path + " no such file") !=
            std::string::npos);
}

TEST_CASE("commands: the program is what the library runs") {
  const ProcessResult program = Veneer({"status", "--no-such-option"});
  CHECK(program.status == 2);
  CHECK(program.err == RunCommand({"status", "--no-such-option"}).err);
  CHECK(Veneer({"--version"}).out == RunCommand({"--version"}).out);
}

}  // namespace
}  // namespace veneer::cli
