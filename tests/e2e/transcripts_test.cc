// The command line as a specification: each file in tests/e2e/transcripts/ is a session, replayed and compared byte for byte.
//
//   # a remark
//   $ veneer rollback              a line for the shell; the program is in the path, the store in $VENEER_STORE, the demo's files in $DEMO
//   OK ROLLBACK gen=4 …            standard output
//   ! ERR ROLLBACK E606 …          standard error
//   = 4                            the exit status, when it is not 0
//
// Digests, transactions, times and folders differ from run to run and are written <id1>, <tx1>, <time>, <dir>, numbered by first use.
// VENEER_TRANSCRIPTS=write writes the files anew from what is printed; read the diff before you commit it.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

// Gives what differs from run to run a name by its first use.
class Names {
 public:
  explicit Names(std::string directory) : directory_(std::move(directory)) {}

  std::string Normal(std::string text) {
    for (const auto& [path, name] : {std::pair(directory_, "<dir>"), std::pair(DemoData().string(), "<demo>")})
      for (auto at = text.find(path); at != std::string::npos; at = text.find(path, at)) text.replace(at, path.size(), name);
    static const std::regex kVaries("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z|[0-9a-f]{64}|[0-9a-f]{32}");
    std::string normal;
    std::smatch found;
    for (std::string rest = text;; rest = found.suffix()) {
      if (!std::regex_search(rest, found, kVaries)) return normal + rest;
      normal += found.prefix().str() + Name(found.str());
    }
  }

 private:
  std::string Name(const std::string& value) {
    if (value.size() == 20) return "<time>";
    const std::string kind = value.size() == 64 ? "id" : "tx";
    const auto [known, is_new] = names_.try_emplace(value, "");
    if (is_new) known->second = "<" + kind + std::to_string(++count_[kind]) + ">";
    return known->second;
  }

  std::string directory_;
  std::map<std::string, std::string> names_;
  std::map<std::string, int> count_;
};

// The session as it goes now.
std::string Replay(const std::string& session) {
  const TempDir dir;
  Names names(dir.path().string());
  const std::vector<std::string> environment{"VENEER_STORE=" + (dir.path() / "store").string(), "DEMO=" + DemoData().string(),
                                             "PATH=" + fs::path(VENEER_PROGRAM).parent_path().string() + ":" + std::getenv("PATH")};
  const std::string prelude = "cd '" + dir.path().string() + "' && . '" VENEER_SOURCE_DIR "/tests/e2e/transcripts/prelude.sh' && ";
  std::string replayed;
  for (const std::string& line : Lines(session)) {
    const bool is_command = line.starts_with("$ ");
    if (is_command || line.empty() || line.starts_with('#')) replayed += line + "\n";
    if (!is_command) continue;
    const ProcessResult result = RunProcess({"/bin/sh", "-c", prelude + line.substr(2)}, "", environment);
    for (const std::string& out : Lines(names.Normal(result.out))) replayed += out + "\n";
    for (const std::string& err : Lines(names.Normal(result.err))) replayed += "! " + err + "\n";
    if (result.status != 0) replayed += "= " + std::to_string(result.status) + "\n";
  }
  return replayed;
}

std::string Difference(const fs::path& recorded, const std::string& replayed) {
  const TempDir dir;
  std::ofstream(dir.path() / "now") << replayed;
  return RunProcess({"/usr/bin/diff", "-u", "--label", "recorded", "--label", "now", recorded.string(), (dir.path() / "now").string()}).out;
}

}  // namespace

TEST_CASE("transcripts: every recorded session prints the same bytes and ends with the same status") {
  const char* const mode = std::getenv("VENEER_TRANSCRIPTS");
  int sessions = 0;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(VENEER_SOURCE_DIR) / "tests/e2e/transcripts"))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const std::string recorded = ReadAll(file), replayed = Replay(recorded);
    ++sessions;
    if (mode != nullptr && std::string(mode) == "write") std::ofstream(file) << replayed;
    INFO(file.filename().string() << "\n" << (recorded == replayed ? "" : Difference(file, replayed)));
    CHECK((recorded == replayed));
  }
  CHECK(sessions >= 7);
}
