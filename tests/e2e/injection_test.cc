// Faults put into the shipped program from outside: strace fails or kills it at the n-th call of a kind, so calls that bypass the seam
// would be hit too. VENEER_INJECTIONS: how many n of each kind (default 2).
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/e2e/two_models.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kStrace = "/usr/bin/strace";

bool CanTrace() { return fs::exists(kStrace) && RunProcess({kStrace, "-qq", "-o", "/dev/null", "/bin/true"}).status == 0; }

int Rounds() {
  const char* const rounds = std::getenv("VENEER_INJECTIONS");
  return rounds == nullptr ? 2 : std::max(1, std::atoi(rounds));
}

struct Operation {
  std::string name;
  std::vector<std::string> arguments;
};

void CopyTree(const fs::path& from, const fs::path& to) {
  fs::remove_all(to);
  REQUIRE(RunProcess({"/bin/cp", "-a", from.string(), to.string()}).status == 0);
}

}  // namespace

TEST_CASE("injection: failing and killed system calls of the program leave the old or the new composition, and a repair leaves no fault") {
  if (!CanTrace()) {
    WARN("SKIP: strace is not installed or may not trace, so no fault was put into the program from outside");
    return;
  }
  const TwoModels store;
  store.Must({"activate", "b"});
  store.Must({"activate", "a"});  // rollback leads to b
  const fs::path root = store.Path("store"), golden = store.Path("golden");
  CopyTree(root, golden);
  const std::vector<Operation> operations{{"activate", {"activate", "b"}},
                                          {"rollback", {"rollback"}},
                                          {"import", {"import", "base", store.Path("c.gguf"), "--name", "c"}},
                                          {"gc", {"gc", "--now"}}};
  const std::vector<std::string> faults{"fsync:error=EIO", "/^rename:signal=KILL", "write:error=ENOSPC", "/^linkat:signal=KILL"};
  int refused = 0, killed = 0, done = 0;
  for (const Operation& operation : operations) {
    const bool switches = operation.name == "activate" || operation.name == "rollback";
    for (const std::string& fault : faults) {
      const std::string calls = fault.substr(0, fault.find(':'));
      for (int n = 1; n <= Rounds(); ++n) {
        CopyTree(golden, root);
        std::vector<std::string> argv{kStrace,
                                      "-f",
                                      "-qq",
                                      "-o",
                                      store.Path("trace"),
                                      "-e",
                                      "trace=" + calls,
                                      "-e",
                                      "inject=" + fault + ":when=" + std::to_string(n),
                                      VENEER_PROGRAM};
        argv.insert(argv.end(), operation.arguments.begin(), operation.arguments.end());
        argv.insert(argv.end(), {"--store", root.string()});
        const ProcessResult result = RunProcess(argv);
        CAPTURE(operation.name, fault, n, result.status, result.out, result.err);
        const bool unknown = result.status >= 128 || result.err.find("E604") != std::string::npos;
        (result.status == 0 ? done : result.status >= 128 ? killed : refused) += 1;
        const std::string now = store.MustJson({"status"})["composition"];
        CHECK((now == store.a || (switches && now == store.b)));
        if (!unknown && switches) CHECK(now == (result.status == 0 ? store.b : store.a));
        const ProcessResult repaired = store.Run({"fsck", "--full", "--repair"});
        CAPTURE(repaired.out);
        CHECK((repaired.status == 0 || repaired.status == 1));
        CHECK(store.MustJson({"status"})["composition"] == now);
        CHECK(store.Run({"fsck", "--full"}).out.find("findings=0") != std::string::npos);
        CHECK(store.Run(operation.arguments).status == 0);  // the same again works
      }
    }
  }
  CHECK(done > 0);
  CHECK(killed > 0);
  CHECK(refused > 0);
}
