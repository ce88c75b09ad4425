// Faults put into the shipped program from outside: strace fails or kills it at the n-th call of a kind, so calls that bypass the seam
// would be hit too. By default the n-th calls around the commit; VENEER_INJECTIONS=N takes every n up to N.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "tests/e2e/two_models.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kStrace = "/usr/bin/strace";

bool CanTrace() { return fs::exists(kStrace) && RunProcess({kStrace, "-qq", "-o", "/dev/null", "/bin/true"}).status == 0; }

struct Fault {
  std::string calls, effect;
  std::vector<int> nth;
};

std::vector<Fault> Faults() {
  // The sync of state/ is the seventh of a rollback and the eighth of an activation.
  std::vector<Fault> faults{{"fsync", "error=EIO", {3, 7, 8}},
                            {"/^rename", "signal=KILL", {1}},
                            {"write", "error=ENOSPC", {2, 4}},
                            {"/^linkat", "signal=KILL", {1}}};
  const char* const rounds = std::getenv("VENEER_INJECTIONS");
  for (Fault& fault : faults) {
    if (rounds == nullptr) break;
    fault.nth.resize(static_cast<std::size_t>(std::max(1, std::atoi(rounds))));
    std::iota(fault.nth.begin(), fault.nth.end(), 1);
  }
  return faults;
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
  store.Must({"import", "base", store.Path("c.gguf"), "--name", "other"});
  store.Must({"import", "base", store.Path("a.gguf"), "--name", "other"});  // c has no name now: gc has work
  store.Must({"activate", "b"});
  store.Must({"activate", "a"});  // rollback leads to b
  const fs::path root = store.Path("store"), golden = store.Path("golden");
  CopyTree(root, golden);
  const std::vector<Operation> operations{{"activate", {"activate", "b"}},
                                          {"rollback", {"rollback"}},
                                          {"import", {"import", "base", store.Path("c.gguf"), "--name", "c"}},
                                          {"gc", {"gc", "--now"}}};
  int refused = 0, killed = 0, done = 0, not_known = 0;
  for (const Operation& operation : operations) {
    const bool switches = operation.name == "activate" || operation.name == "rollback";
    for (const Fault& fault : Faults()) {
      for (const int n : fault.nth) {
        CopyTree(golden, root);
        std::vector<std::string> argv{kStrace,
                                      "-f",
                                      "-qq",
                                      "-o",
                                      store.Path("trace"),
                                      "-e",
                                      "trace=" + fault.calls,
                                      "-e",
                                      "inject=" + fault.calls + ":" + fault.effect + ":when=" + std::to_string(n),
                                      VENEER_PROGRAM};
        argv.insert(argv.end(), operation.arguments.begin(), operation.arguments.end());
        argv.insert(argv.end(), {"--store", root.string()});
        const ProcessResult result = RunProcess(argv);
        CAPTURE(operation.name, fault.calls, n, result.status, result.out, result.err);
        const bool told = result.err.find("E604") != std::string::npos, unknown = result.status >= 128 || told;
        not_known += told ? 1 : 0;
        (result.status == 0 ? done : result.status >= 128 ? killed : refused) += 1;
        const std::string now = store.MustJson({"status"})["composition"];
        CHECK((now == store.a || (switches && now == store.b)));
        if (!unknown && switches) CHECK(now == (result.status == 0 ? store.b : store.a));
        const ProcessResult repaired = store.Run({"fsck", "--full", "--repair"});
        CAPTURE(repaired.out);
        CHECK((repaired.status == 0 || repaired.status == 1));
        CHECK(store.Run({"fsck", "--full"}).out.find("findings=0") != std::string::npos);
        CHECK(store.Run(operation.arguments).status == 0);  // the same again works
      }
    }
  }
  CHECK(not_known >= 2);
  CHECK(done > 0);
  CHECK(killed > 0);
  CHECK(refused > 0);
}
