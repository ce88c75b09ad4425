#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>

namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
    read_end = ends[0];
    write_end = ends[1];
  }
};

std::uint64_t PeakBytes(const rusage& usage) { return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024; }

void Drain(int out, int err, ProcessResult& result) {
  std::array<pollfd, 2> ends{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<char, 4096> buffer{};
  for (int open = 2; open > 0;) {
    if (poll(ends.data(), ends.size(), -1) < 0) throw std::runtime_error("poll failed");
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t got = read(ends[i].fd, buffer.data(), buffer.size());
      if (got <= 0) {
        close(ends[i].fd);
        ends[i].fd = -1;
        --open;
        continue;
      }
      (i == 0 ? result.out : result.err).append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
}

}  // namespace

std::uint64_t OwnPeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return PeakBytes(usage);
}

ProcessResult RunProcess(const std::vector<std::string>& argv, const std::string& input, const std::vector<std::string>& environment) {
  const Pipe in, out, err;
  std::vector<char*> raw;
  for (const std::string& argument : argv) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    dup2(in.read_end, STDIN_FILENO);
    dup2(out.write_end, STDOUT_FILENO);
    dup2(err.write_end, STDERR_FILENO);
    for (const std::string& pair : environment) putenv(const_cast<char*>(pair.c_str()));
    execv(raw[0], raw.data());
    _exit(127);
  }
  close(in.read_end);
  close(out.write_end);
  close(err.write_end);
  if (!input.empty() && write(in.write_end, input.data(), input.size()) < 0) throw std::runtime_error("write failed");
  close(in.write_end);
  ProcessResult result;
  Drain(out.read_end, err.read_end, result);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  result.peak_bytes = PeakBytes(usage);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

ProcessResult Veneer(const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> argv{VENEER_PROGRAM};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProcess(argv, input);
}
