#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

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
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
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

LiveVeneer::LiveVeneer(const std::vector<std::string>& arguments) {
  Pipe in, out, err;
  std::vector<std::string> argv{VENEER_PROGRAM};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::vector<char*> raw;
  for (const std::string& argument : argv) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  child_ = fork();
  if (child_ < 0) throw std::runtime_error("fork failed");
  if (child_ == 0) {
    dup2(in.read_end, STDIN_FILENO);
    dup2(out.write_end, STDOUT_FILENO);
    dup2(err.write_end, STDERR_FILENO);
    execv(raw[0], raw.data());
    _exit(127);
  }
  for (const int end : {in.read_end, out.write_end, err.write_end}) close(end);
  in_ = in.write_end;
  out_.fd = out.read_end;
  err_.fd = err.read_end;
}

LiveVeneer::~LiveVeneer() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  for (const int end : {in_, out_.fd, err_.fd})
    if (end >= 0) close(end);
}

void LiveVeneer::Write(const std::string& text) {
  if (write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) throw std::runtime_error("write failed");
}

std::string LiveVeneer::LineOf(Stream& stream) {
  for (;;) {
    if (const auto end = stream.held.find('\n'); end != std::string::npos) {
      std::string line = stream.held.substr(0, end);
      stream.held.erase(0, end + 1);
      return line;
    }
    pollfd waiting{stream.fd, POLLIN, 0};
    if (poll(&waiting, 1, 60'000) <= 0) throw std::runtime_error("no line came; so far: " + stream.held);
    std::array<char, 4096> buffer{};
    const ssize_t got = read(stream.fd, buffer.data(), buffer.size());
    if (got <= 0) throw std::runtime_error("the program ended; last: " + stream.held);
    stream.held.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::string LiveVeneer::ReadLine() { return LineOf(out_); }
std::string LiveVeneer::ReadErrorLine() { return LineOf(err_); }

std::string LiveVeneer::Read(std::size_t n) {
  std::string text(n, '\0');
  const ssize_t got = read(out_.fd, text.data(), n);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

void LiveVeneer::Signal(int signal) const { kill(child_, signal); }

ProcessResult LiveVeneer::Finish() {
  close(std::exchange(in_, -1));
  ProcessResult result;
  result.out = std::exchange(out_.held, {});
  result.err = std::exchange(err_.held, {});
  Drain(std::exchange(out_.fd, -1), std::exchange(err_.fd, -1), result);
  int status = 0;
  waitpid(std::exchange(child_, -1), &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}
