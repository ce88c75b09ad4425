// FORMAT.md is executable: every example in it is read, and every refusal has the code and the place it is printed with.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/manifest/composition.h"
#include "core/manifest/manifest.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

struct Example {
  std::string syntax, document;  // "toml" | "json"; "manifest" | "composition" | "statement"
  std::string outcome, at;       // "valid" or "E205"
  std::vector<std::string> lines;
  std::string text() const { return fmt::format("{}", fmt::join(lines, "\n")); }
};

std::vector<Example> ReadExamples() {
  std::ifstream file(VENEER_SOURCE_DIR "/core/manifest/FORMAT.md");
  std::vector<Example> examples;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("```")) {
      if (inside) examples.back().lines.push_back(line);
      continue;
    }
    inside = !inside;
    if (!inside) continue;
    std::istringstream words(line.substr(3));
    Example& example = examples.emplace_back();
    example.document = "manifest";
    words >> example.syntax >> example.outcome;
    if (example.outcome == "composition" || example.outcome == "statement") {
      example.document = example.outcome;
      words >> example.outcome;
    }
    words >> example.at;
  }
  std::erase_if(examples, [](const Example& example) { return example.syntax.empty(); });  // the grammar
  return examples;
}

std::string KeyOf(const std::string& line) {
  std::string key = line.substr(0, line.find('='));
  std::erase_if(key, [](char c) { return c == ' ' || c == '#'; });
  return key == "\"r\\u0061nk\"" ? "rank" : key;
}

// The valid manifest with the lines of an example in place of the last ones with the same keys.
std::string Changed(std::vector<std::string> lines, const Example& example) {
  std::vector<std::string> replaced;
  for (const std::string& line : example.lines) {
    const std::string key = KeyOf(line);
    const auto last = std::find_if(lines.rbegin(), lines.rend(), [&](const std::string& each) { return KeyOf(each) == key; });
    if (last == lines.rend()) {
      lines.push_back(line);
    } else if (std::ranges::find(replaced, key) != replaced.end()) {
      lines.insert(last.base(), line);
    } else {
      *last = line;
      replaced.push_back(key);
    }
  }
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

template <class T>
std::string Outcome(const Result<T>& result) {
  return result ? "valid" : fmt::format("E{}", static_cast<int>(result.error().code));
}

}  // namespace

TEST_CASE("FORMAT.md: every example has the outcome that is printed with it", "[manifest]") {
  const std::vector<Example> examples = ReadExamples();
  REQUIRE(examples.size() >= 23);
  REQUIRE(examples[0].outcome == "valid");
  std::vector<std::string> codes;
  for (const Example& example : examples) {
    CAPTURE(example.text());
    codes.push_back(example.outcome);
    if (example.document == "composition") {
      const auto parsed = Composition::Parse(example.text());
      CHECK(Outcome(parsed) == example.outcome);
    } else if (example.document == "statement") {
      const auto parsed = Statement::Parse(example.text());
      CHECK(Outcome(parsed) == example.outcome);
    } else {
      const std::string text = example.outcome == "valid" ? example.text() : Changed(examples[0].lines, example);
      const auto parsed = ParseManifest(text, ManifestSyntax::kToml);
      CHECK(Outcome(parsed) == example.outcome);
      if (!parsed) CHECK(parsed.error().at == example.at);
    }
  }
  for (int code : {102, 103, 104, 105, 107, 201, 202, 203, 204, 205, 206, 207, 208, 209, 210, 211, 212, 213, 215}) {
    CAPTURE(code);
    CHECK(std::ranges::find(codes, fmt::format("E{}", code)) != codes.end());
  }
}
