// A new store in a temporary directory, worked through the program as a user works it.
#ifndef VENEER_TESTS_E2E_PROGRAM_STORE_H_
#define VENEER_TESTS_E2E_PROGRAM_STORE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

class ProgramStore {
 public:
  ProgramStore() { Must({"init"}); }

  [[nodiscard]] ProcessResult Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--store", Path("store")});
    return Veneer(arguments);
  }
  // What it printed; a command that fails fails the test.
  std::string Must(const std::vector<std::string>& arguments) const {
    const ProcessResult result = Run(arguments);
    CAPTURE(arguments, result.err);
    REQUIRE(result.status == 0);
    return result.out;
  }
  [[nodiscard]] nlohmann::json MustJson(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    return nlohmann::json::parse(Must(arguments));
  }
  // Writes the manifest of a base and adapters (as for --adapter) of the store and returns its path.
  std::string Compose(const std::string& name, const std::string& base, const std::vector<std::string>& adapters) const {
    std::string manifest = Path(name + ".toml");
    std::vector<std::string> arguments{"compose", "--base", base, "-o", manifest};
    for (const std::string& adapter : adapters) arguments.insert(arguments.end(), {"--adapter", adapter});
    Must(arguments);
    return manifest;
  }
  [[nodiscard]] std::string Path(const std::string& name) const { return (dir_.path() / name).string(); }

 private:
  TempDir dir_;
};

#endif  // VENEER_TESTS_E2E_PROGRAM_STORE_H_
