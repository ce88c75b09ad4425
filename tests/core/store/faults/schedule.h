// Several processes on one simulated disk, one thread each, of which one runs at a time: before each system call the one that has the
// baton may hand it to another, as a seeded choice says. The same seed gives the same interleaving, always.
#ifndef VENEER_TESTS_CORE_STORE_FAULTS_SCHEDULE_H_
#define VENEER_TESTS_CORE_STORE_FAULTS_SCHEDULE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <semaphore>
#include <string>
#include <vector>

#include "tests/support/sim_disk.h"
#include "tests/support/sim_sys.h"

class Schedule {
 public:
  Schedule(SimDisk& disk, std::uint64_t seed) : disk_(disk), random_(seed) {}

  // What a process does. It holds the baton except inside system calls, so it may touch what it shares with the test.
  void Add(std::function<void(veneer::Sys& sys)> body);
  void Run();  // all of them, to their ends

  // Looks at every call before it is made.
  std::function<void(int process, const std::string& line)> at_call;
  // Nothing that the process does from here on has an effect, and its locks are free. For at_call and bodies.
  void Kill(int process);
  void CutPower();  // the same for all; disk().image() is what a cut starts from
  [[nodiscard]] bool IsDead(int process) const { return processes_[static_cast<std::size_t>(process)]->dead; }
  std::mt19937_64& random() { return random_; }
  [[nodiscard]] const std::vector<std::string>& trace() const { return trace_; }  // "1 fsync veneer/gen"

 private:
  struct Process {
    explicit Process(SimDisk& disk) : sys(disk) {}
    SimSys sys;
    std::function<void(veneer::Sys&)> body;
    std::binary_semaphore turn{0};
    bool dead = false, finished = false;
  };
  void Begin(int process);  // of a thread
  void Pass(int process);
  int Next(int process);

  SimDisk& disk_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::binary_semaphore all_done_{0};
  std::vector<std::string> trace_;
};

#endif  // VENEER_TESTS_CORE_STORE_FAULTS_SCHEDULE_H_
