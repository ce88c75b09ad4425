#include "core/bench/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/format/json.h"

namespace veneer {
namespace {

constexpr std::size_t kMaxOutput = 1 << 20;

// Runs the program without a shell, its standard error left alone; its standard output and exit status.
Result<std::pair<std::string, int>> RunProgram(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return Fail(IoError(errno, arguments[0], "make a pipe for"));
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));  // exec changes nothing
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  in = UniqueFd();
  if (error != 0) return Fail(IoError(error, arguments[0], "run"));
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = read(out.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (text.size() < kMaxOutput) text.append(buffer.data(), static_cast<std::size_t>(got));  // the rest is drained and refused below
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return std::pair(std::move(text), WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

Result<double> ParsePeerOutput(const std::string& text, const std::string& program) {
  const auto refuse = [&program](const std::string& why) {
    return Fail(Code::USAGE, program, fmt::format("{}; give a program with llama-bench's options and JSON", why));
  };
  const std::size_t start = text.find('[');
  if (start == std::string::npos) return refuse("printed no JSON list");
  const auto json = ParseJson(std::string_view(text).substr(start));
  if (!json) return refuse(fmt::format("printed JSON that does not parse ({})", json.error().Text()));
  if (!json->is_array() || json->elements.empty()) return refuse("printed no list of results");
  const Json* speed = json->elements.front().Find("avg_ts");
  if (speed == nullptr) return refuse("printed no avg_ts");
  const auto value = speed->Number();
  if (!value || !(*value > 0)) return refuse(fmt::format("printed an avg_ts that is no speed ({})", speed->Dump()));
  return *value;
}

Result<double> PeerTokensPerS(const PeerRun& run) {
  const std::string tokens = std::to_string(run.series.tokens);
  const bool decode = run.series.phase == Phase::kDecode;
  std::vector<std::string> arguments{run.program.string(),
                                     "-m",
                                     run.model.string(),
                                     "-t",
                                     std::to_string(run.threads),
                                     "-p",
                                     decode ? "0" : tokens,
                                     "-n",
                                     decode ? tokens : "0",
                                     "-r",
                                     "1",
                                     "-o",
                                     "json"};
  if (run.series.depth > 0) arguments.insert(arguments.end(), {"-d", std::to_string(run.series.depth)});
  VENEER_ASSIGN(const auto done, RunProgram(arguments));
  if (done.second != 0)
    return Fail(Code::USAGE, run.program.string(), fmt::format("ended with status {}; run it by hand to see why", done.second));
  return ParsePeerOutput(done.first, run.program.string());
}

Result<PairedReport> BenchAgainst(const PeerRun& run, const std::function<Result<double>()>& ours, std::uint64_t runs) {
  std::vector<double> mine, theirs, ratios;
  for (std::uint64_t i = 0; i < runs; ++i) {
    VENEER_ASSIGN(mine.emplace_back(), ours());
    VENEER_ASSIGN(theirs.emplace_back(), PeerTokensPerS(run));
    ratios.push_back(mine.back() / theirs.back());
  }
  return PairedReport{IntervalOf(std::move(mine)), IntervalOf(std::move(theirs)), IntervalOf(std::move(ratios))};
}

}  // namespace veneer
