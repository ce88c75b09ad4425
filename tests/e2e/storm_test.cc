// The program at work in several processes that are killed at any moment: nothing is lost, and what is active decodes.
// VENEER_STORM_SEED (default 1) and VENEER_STORM_SECONDS (default 3).
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/e2e/two_models.h"

namespace {

using Clock = std::chrono::steady_clock;

unsigned Setting(const char* name, unsigned value) {
  const char* const text = std::getenv(name);
  return text == nullptr ? value : static_cast<unsigned>(std::atoi(text));
}

// A running program; its output goes nowhere.
pid_t Start(const std::vector<std::string>& arguments) {
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child != 0) return child;
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, fd);
  execv(raw[0], raw.data());
  _exit(127);
}

struct Slot {
  pid_t child = 0;
  Clock::time_point kill_at;
  bool killed = false;
};

}  // namespace

TEST_CASE(
    "storm: processes that switch, import, collect and repair, killed at random moments, leave a store without a fault that decodes") {
  const unsigned seed = Setting("VENEER_STORM_SEED", 1);
  INFO("VENEER_STORM_SEED=" << seed);
  const TwoModels store;
  const std::vector<std::vector<std::string>> operations{
      {"activate", "a"}, {"activate", "b"},   {"rollback"}, {"deactivate"}, {"import", "base", store.Path("c.gguf"), "--name", "c"},
      {"gc", "--now"},   {"fsck", "--repair"}};
  std::mt19937 random(seed);
  const auto draw = [&random](std::size_t n) { return random() % n; };
  std::array<Slot, 3> slots;
  int kills = 0, ends = 0, successes = 0;
  const auto stop = Clock::now() + std::chrono::seconds(Setting("VENEER_STORM_SECONDS", 3));
  bool running = true;
  while (running) {
    running = false;
    for (Slot& slot : slots) {
      int status = 0;
      if (slot.child != 0 && Clock::now() >= slot.kill_at && !slot.killed) {
        slot.killed = kill(slot.child, SIGKILL) == 0;
      }
      if (slot.child != 0 && waitpid(slot.child, &status, WNOHANG) == slot.child) {
        slot.child = 0;
        (WIFSIGNALED(status) ? kills : ends) += 1;
        successes += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
        CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) <= 4));  // 5 and above: our own bugs
      }
      if (slot.child == 0 && Clock::now() < stop) {
        std::vector<std::string> arguments{VENEER_PROGRAM};
        const auto& operation = operations[draw(operations.size())];
        arguments.insert(arguments.end(), operation.begin(), operation.end());
        arguments.insert(arguments.end(), {"--store", store.Path("store")});
        slot = {Start(arguments), Clock::now() + std::chrono::milliseconds(draw(2) == 0 ? 60'000 : draw(120)), false};
      }
      running |= slot.child != 0;
    }
    usleep(1000);
  }
  CAPTURE(kills, ends, successes);
  CHECK(kills > 3);
  CHECK(successes > 3);
  const ProcessResult repaired = store.Run({"fsck", "--full", "--repair"});
  CAPTURE(repaired.out);
  CHECK((repaired.status == 0 || repaired.status == 1));
  CHECK(store.Run({"fsck", "--full"}).status == 0);
  const nlohmann::json active = store.MustJson({"status"})["composition"];
  CHECK((active.is_null() || active == store.a || active == store.b));
  const ProcessResult decoded = store.Run({"generate", "--tokens", "1", "-n", "2"});
  CHECK(decoded.status == (active.is_null() ? 4 : 0));
  for (const char* name : {"a", "b"}) {
    CHECK(store.Run({"activate", name}).status == 0);
    CHECK(store.Run({"generate", "--tokens", "1", "-n", "2"}).status == 0);
  }
}
