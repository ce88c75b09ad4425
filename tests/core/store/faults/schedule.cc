#include "tests/core/store/faults/schedule.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

namespace {

constexpr std::uint64_t kStay = 3;  // of four times the process that has the baton keeps it

}  // namespace

void Schedule::Add(std::function<void(veneer::Sys&)> body) {
  const int id = static_cast<int>(processes_.size());
  processes_.push_back(std::make_unique<Process>(disk_));
  Process& process = *processes_.back();
  process.body = std::move(body);
  process.sys.before_call = [this, id](const std::string& line) {
    Pass(id);
    Process& own = *processes_[static_cast<std::size_t>(id)];
    if (!own.dead) {
      trace_.push_back(fmt::format("{} {}", id, line));
      if (at_call) at_call(id, line);
    }
    if (own.dead) own.sys.StopAt(own.sys.calls());
  };
}

// A process that is not finished; the same one most of the time.
int Schedule::Next(int process) {
  std::vector<int> running;
  for (int i = 0; i < static_cast<int>(processes_.size()); ++i)
    if (!processes_[static_cast<std::size_t>(i)]->finished) running.push_back(i);
  if (running.empty()) return -1;
  if (process >= 0 && !processes_[static_cast<std::size_t>(process)]->finished && random_() % (kStay + 1) < kStay) return process;
  return running[random_() % running.size()];
}

void Schedule::Pass(int process) {
  const int next = Next(process);
  if (next == process) return;
  disk_.process = next;
  if (next < 0) {
    all_done_.release();
    return;
  }
  processes_[static_cast<std::size_t>(next)]->turn.release();
  if (process < 0 || processes_[static_cast<std::size_t>(process)]->finished) return;
  processes_[static_cast<std::size_t>(process)]->turn.acquire();
}

void Schedule::Begin(int process) {
  Process& own = *processes_[static_cast<std::size_t>(process)];
  own.turn.acquire();
  own.body(own.sys);
  own.finished = true;
  Pass(process);
}

void Schedule::Run() {
  std::vector<std::jthread> threads;
  for (int i = 0; i < static_cast<int>(processes_.size()); ++i) threads.emplace_back([this, i] { Begin(i); });
  Pass(-1);
  all_done_.acquire();
}

void Schedule::Kill(int process) {
  processes_[static_cast<std::size_t>(process)]->dead = true;
  disk_.Kill(process);
}

void Schedule::CutPower() {
  for (int i = 0; i < static_cast<int>(processes_.size()); ++i) Kill(i);
}
