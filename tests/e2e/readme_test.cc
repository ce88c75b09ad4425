// README.md as a specification: its shell blocks run as pasted, what it shows is printed, what it points to is there.
//
// A shell block is fenced as ```sh. In it a line "#> TEXT" is output of the command above: quoted lines must come in this order, others
// may lie between; "…" stands for anything within a line (the rest of a digest, a size, a time).
#include <algorithm>
#include <array>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;

// What a build is made with, by whoever runs this test; tests/install covers the last.
constexpr std::array<std::string_view, 3> kNotRun{
    "bash core/demo/run.sh", "bash tests/run.sh",
    "cmake -S . -B build -G Ninja && cmake --build build && cmake --install build --prefix /usr/local"};

struct Command {
  std::size_t line;  // in README.md, from 1
  std::string text;
  std::vector<std::string> quoted;
};

struct Readme {
  std::vector<std::string> lines;
  std::vector<Command> commands;          // of the ```sh blocks
  std::vector<std::string> other_blocks;  // lines of blocks in no language
};

std::string WithoutComment(std::string line) {
  if (const auto comment = line.find("  #"); comment != std::string::npos) line.resize(comment);
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

Readme ReadReadme() {
  Readme readme;
  std::ifstream file(fs::path(VENEER_SOURCE_DIR) / "README.md");
  std::string block;  // language of the block the line is in, "text" when it says none
  for (std::string line; std::getline(file, line);) {
    readme.lines.push_back(line);
    if (line.starts_with("```")) {
      block = !block.empty() ? "" : line.size() > 3 ? line.substr(3) : "text";
    } else if (block == "sh" && line.starts_with("#> ")) {
      REQUIRE(!readme.commands.empty());
      readme.commands.back().quoted.push_back(line.substr(3));
    } else if (block == "sh" && !line.empty() && line[0] != '#') {
      readme.commands.push_back({readme.lines.size(), WithoutComment(line), {}});
    } else if (!block.empty() && block != "sh") {
      readme.other_blocks.push_back(line);
    }
  }
  REQUIRE(block.empty());
  return readme;
}

bool IsRun(const Command& command) { return std::ranges::find(kNotRun, command.text) == kNotRun.end(); }

// Does `line` read as `quoted` does, "…" standing for anything?
bool ReadsAs(std::string_view line, std::string_view quoted) {
  constexpr std::string_view kAnything = "…";
  const auto gap = quoted.find(kAnything);
  if (gap == std::string_view::npos) return line == quoted;
  if (!line.starts_with(quoted.substr(0, gap))) return false;
  const std::string_view rest = quoted.substr(gap + kAnything.size());
  for (std::size_t from = gap; from <= line.size(); ++from)
    if (ReadsAs(line.substr(from), rest)) return true;
  return false;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

// The quoted lines that were not printed, in order.
std::vector<std::string> Missing(const Command& command, const std::string& printed) {
  std::vector<std::string> missing;
  const std::vector<std::string> lines = Lines(printed);
  auto next = lines.begin();
  for (const std::string& quoted : command.quoted) {
    const auto found = std::find_if(next, lines.end(), [&](const std::string& line) { return ReadsAs(line, quoted); });
    if (found == lines.end()) {
      missing.push_back(quoted);
    } else {
      next = std::next(found);
    }
  }
  return missing;
}

// One shell runs all commands, as if they were pasted; after each it prints a mark with the status.
constexpr char kMark = '\x1e';
std::string Script(const std::vector<Command>& commands, const fs::path& directory) {
  std::string script = "cd '" + directory.string() + "' && exec 2>&1\n";
  for (const Command& command : commands)
    if (IsRun(command)) script += command.text + "\nprintf '\\036%s\\036' $?\n";
  return script;
}

}  // namespace

TEST_CASE("readme: every command works as pasted, in order, and prints what the file shows") {
  const Readme readme = ReadReadme();
  const TempDir dir;
  fs::create_directory_symlink(VENEER_BINARY_DIR, dir.path() / "build");
  const ProcessResult shell = RunProcess({"/bin/bash", "-c", Script(readme.commands, dir.path())}, "", {"TMPDIR=" + dir.path().string()});
  CAPTURE(shell.out, shell.err);

  std::string_view rest = shell.out;
  int veneer_commands = 0, quoted_lines = 0;
  for (const Command& command : readme.commands) {
    if (!IsRun(command)) continue;
    CAPTURE(command.line, command.text);
    const auto mark = rest.find(kMark);
    REQUIRE(mark != std::string_view::npos);
    const auto end = rest.find(kMark, mark + 1);
    REQUIRE(end != std::string_view::npos);
    const std::string printed(rest.substr(0, mark));
    CHECK(rest.substr(mark + 1, end - mark - 1) == "0");
    CHECK(Missing(command, printed) == std::vector<std::string>());
    rest.remove_prefix(end + 1);
    veneer_commands += command.text.starts_with("veneer ") ? 1 : 0;
    quoted_lines += static_cast<int>(command.quoted.size());
  }
  CHECK(veneer_commands >= 10);
  CHECK(quoted_lines >= 8);
}

TEST_CASE("readme: no command hides in a block that is not run, and each one on the list of exceptions is there") {
  const Readme readme = ReadReadme();
  for (const std::string& line : readme.other_blocks) {
    CAPTURE(line);
    const std::string word = line.substr(0, line.find(' '));
    CHECK((word != "veneer" && word != "bash" && word != "cmake" && word != "ctest" && word != "$"));
  }
  for (const std::string_view exception : kNotRun) {
    CAPTURE(exception);
    CHECK(std::ranges::count(readme.commands, exception, &Command::text) == 1);
  }
}

TEST_CASE("readme: the table of fuzz/README.md has one row for each target, and none for another") {
  std::vector<std::string> targets, rows;
  for (const auto& entry : fs::directory_iterator(fs::path(VENEER_SOURCE_DIR) / "fuzz"))
    if (const std::string stem = entry.path().stem().string(); entry.path().extension() == ".cc" && stem.starts_with("fuzz_"))
      targets.push_back(stem.substr(5));
  std::ifstream file(fs::path(VENEER_SOURCE_DIR) / "fuzz/README.md");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| ") && !line.starts_with("| target ")) rows.push_back(line.substr(2, line.find(' ', 2) - 2));
  std::ranges::sort(targets);
  std::ranges::sort(rows);
  CHECK(!targets.empty());
  CHECK(rows == targets);
}

TEST_CASE("readme: every link and every path of the tree it names exists, every build option too") {
  const fs::path root = VENEER_SOURCE_DIR;
  const std::regex link(R"(\]\(([^)#:]+)\))"), path(R"(`((?:core|plugins|sdk|kernels|tests|fuzz|\.ci)/[^` *]*)`)"),
      name(R"(`(VENEER_[A-Z_]+)`)");
  std::ifstream cmake_file(root / "CMakeLists.txt");
  const std::string cmake{std::istreambuf_iterator<char>(cmake_file), std::istreambuf_iterator<char>()};
  int paths = 0, options = 0;
  for (const std::string& line : ReadReadme().lines) {
    CAPTURE(line);
    for (const std::regex* pattern : {&link, &path})
      for (std::sregex_iterator found(line.begin(), line.end(), *pattern), end; found != end; ++found, ++paths) {
        const std::string named = (*found)[1];
        CAPTURE(named);
        CHECK(fs::exists(root / named));
      }
    if (!line.starts_with("| `VENEER_")) continue;
    for (std::sregex_iterator found(line.begin(), line.end(), name), end; found != end; ++found, ++options) {
      const std::string named = (*found)[1];
      CAPTURE(named);
      CHECK((cmake.find("option(" + named + " ") != std::string::npos || cmake.find("set(" + named + " \"\" CACHE") != std::string::npos));
    }
  }
  CHECK(paths > 30);
  CHECK(options >= 7);
}
