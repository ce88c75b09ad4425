// What is derived from the active composition must not replace another one that became active in between.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/e2e/program_store.h"
#include "tests/support/data.h"
#include "tests/support/files.h"

namespace {

namespace fs = std::filesystem;

// Byte 0 of the store's lock file: no writer gets on while this lives.
class HeldLock {
 public:
  explicit HeldLock(const fs::path& store) : fd_(open((store / "veneer/lock").c_str(), O_RDWR | O_CLOEXEC)) {
    struct flock byte{};
    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_len = 1;
    REQUIRE(fcntl(fd_, F_OFD_SETLK, &byte) == 0);
  }
  ~HeldLock() { close(fd_); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

 private:
  int fd_;
};

// Has the process files ready in staging/ and the lock file open? Then it waits for byte 0.
bool Waits(pid_t process) {
  bool staged = false, lock = false;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    staged |= target.find("/veneer/staging/") != std::string::npos;
    lock |= target.ends_with("/veneer/lock");
  }
  return staged && lock;
}

// Runs the verb up to its wait for the writer's lock, makes another composition active, and lets it go on. What it said then.
ProcessResult Overtaken(const ProgramStore& store, const std::vector<std::string>& verb, const std::string& other) {
  const std::string err = store.Path("err");
  pid_t child = 0;
  {
    const HeldLock lock(store.Path("store"));
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const int file = open(err.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) dup2(file, fd);
      std::vector<std::string> arguments{VENEER_PROGRAM};
      arguments.insert(arguments.end(), verb.begin(), verb.end());
      arguments.insert(arguments.end(), {"--store", store.Path("store")});
      std::vector<char*> raw;
      for (std::string& argument : arguments) raw.push_back(argument.data());
      raw.push_back(nullptr);
      execv(raw[0], raw.data());
      _exit(127);
    }
    int samples = 0;
    for (int tries = 0; samples < 10 && tries < 2000; ++tries, usleep(5000)) samples = Waits(child) ? samples + 1 : 0;
    REQUIRE(samples == 10);
    kill(child, SIGSTOP);
  }
  store.Must({"activate", other});
  kill(child, SIGCONT);
  int status = 0;
  waitpid(child, &status, 0);
  ProcessResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.err = ReadAll(err);
  return result;
}

}  // namespace

TEST_CASE("race: deactivate ADAPTER is refused when another composition became active after it had read the old one") {
  const ProgramStore store;
  store.Must({"import", "base", (DemoData() / "fable-q4_0.gguf").string(), "--name", "fable"});
  for (const char* name : {"bard", "lexicon"}) store.Must({"import", "adapter", (DemoData() / "adapters" / name).string(), "--name", name});
  const std::string both = store.Compose("both", "fable", {"bard", "lexicon"});
  const std::string other = store.Compose("other", "fable", {"bard=0.3"});
  store.Must({"activate", both});
  const ProcessResult result = Overtaken(store, {"deactivate", "lexicon"}, other);
  CAPTURE(result.err);
  CHECK(result.status == 4);
  CHECK(result.err.find("ERR DEACTIVATE E613 EXPECTED_CURRENT") != std::string::npos);
  CHECK(store.MustJson({"status"})["composition"] == store.MustJson({"validate", other})["composition"]);
  store.Must({"rollback"});
  CHECK(store.MustJson({"status"})["composition"] == store.MustJson({"validate", both})["composition"]);
  store.Must({"deactivate", "lexicon"});  // with nobody in between
}

TEST_CASE("race: consolidate is refused when another composition became active after it had read the old one") {
  const ProgramStore store;
  store.Must({"import", "base", (DemoData() / "fable-q4_0.gguf").string(), "--name", "fable"});
  store.Must({"import", "adapter", (DemoData() / "adapters/bard").string(), "--name", "bard"});
  const std::string other = store.Compose("other", "fable", {"bard=0.3"});
  store.Must({"activate", store.Compose("one", "fable", {"bard"})});
  const ProcessResult result = Overtaken(store, {"consolidate"}, other);
  CAPTURE(result.err);
  CHECK(result.status == 4);
  CHECK(result.err.find("ERR CONSOLIDATE E613 EXPECTED_CURRENT") != std::string::npos);
  CHECK(store.MustJson({"status"})["composition"] == store.MustJson({"validate", other})["composition"]);
  CHECK(store.Run({"fsck", "--full"}).status == 0);
}
