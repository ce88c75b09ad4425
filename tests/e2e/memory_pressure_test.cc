// The program under a limit of its address space: each run ends in success, E501 or E504, whatever the limit, and changes nothing when it
// refuses.
#include <nlohmann/json.hpp>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"

namespace {

// The program with at most `kibibytes` of address space.
ProcessResult Limited(std::uint64_t kibibytes, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"/bin/sh", "-c", "ulimit -c 0; ulimit -v " + std::to_string(kibibytes) + "; exec \"$@\"", "sh",
                                VENEER_PROGRAM};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProcess(argv);
}

// The smallest limit, to 64 KiB, at which the program comes as far as its own code.
std::uint64_t LeastToStart() {
  std::uint64_t fails = 1024, works = 1024 * 1024;
  while (works - fails > 64) {
    const std::uint64_t middle = (fails + works) / 2;
    (Limited(middle, {"--version"}).status == 0 ? works : fails) = middle;
  }
  return works;
}

class Pressed : public ProgramStore {
 public:
  Pressed() {
    Must({"import", "base", (DemoData() / "fable-q4_0.gguf").string(), "--name", "fable"});
    for (const char* adapter : {"bard", "lexicon"})
      Must({"import", "adapter", (DemoData() / "adapters" / adapter).string(), "--name", adapter});
    Must({"activate", Compose("plain", "fable", {})});
    Compose("both", "fable", {"lexicon=0.5", "bard=0.7"});
  }
  [[nodiscard]] std::vector<std::string> In(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--threads", "2", "--store", Path("store")});
    return arguments;
  }
};

bool IsRefusal(const ProcessResult& result) {
  return result.status == 4 &&
         (result.err.find(" E504 OUT_OF_MEMORY ") != std::string::npos || result.err.find(" E501 MEMORY_BUDGET ") != std::string::npos);
}

}  // namespace

TEST_CASE("memory pressure: at any limit of the address space activate succeeds or is E504, and then nothing else is active") {
  const Pressed store;
  const std::uint64_t least = LeastToStart();
  const auto plain = store.MustJson({"status"}).at("composition");
  int refused = 0, done = 0;
  for (std::uint64_t limit = least; done < 3; limit += 509) {
    const ProcessResult result = Limited(limit, store.In({"activate", store.Path("both.toml")}));
    CAPTURE(limit, result.status, result.err);
    const auto now = store.MustJson({"status"}).at("composition");
    if (result.status == 0) {
      ++done;
      CHECK(now != plain);
      store.Must({"activate", store.Path("plain.toml")});
      continue;
    }
    ++refused;
    REQUIRE(IsRefusal(result));
    REQUIRE(now == plain);
  }
  CHECK(refused > 10);
  store.Must({"fsck", "--full"});
  store.Must({"activate", store.Path("both.toml")});
}

TEST_CASE("memory pressure: at any limit of the address space generate gives the right text or is E504") {
  const Pressed store;
  store.Must({"activate", store.Path("both.toml")});
  const std::vector<std::string> line = store.In({"generate", "-p", "And the king said", "-n", "8", "--temp", "0", "--json"});
  const ProcessResult right = Veneer(line);
  REQUIRE(right.status == 0);
  int refused = 0, done = 0;
  for (std::uint64_t limit = LeastToStart(); done < 3; limit += 509) {
    const ProcessResult result = Limited(limit, line);
    CAPTURE(limit, result.status, result.err);
    if (result.status == 0) {
      ++done;
      CHECK(result.out == right.out);
    } else {
      ++refused;
      REQUIRE(IsRefusal(result));
    }
  }
  CHECK(refused > 10);
}

TEST_CASE("memory pressure: over the budget is E501 before anything is allocated, for one composition and for a second beside it") {
  const Pressed store;
  const auto refused = store.Run({"generate", "-p", "x", "--memory-budget", "1M"});
  CHECK(refused.status == 4);
  CHECK(refused.err.find("E501 MEMORY_BUDGET at=--memory-budget") != std::string::npos);
  CHECK(store.Run({"activate", store.Path("both.toml"), "--memory-budget", "1M"}).err.find("E501") != std::string::npos);
  CHECK(store.MustJson({"status"}).at("generation") == 2);
}
