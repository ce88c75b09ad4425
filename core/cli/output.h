// What the program prints: result lines, tables, JSON and progress. The library below the command line never prints.
#ifndef VENEER_CORE_CLI_OUTPUT_H_
#define VENEER_CORE_CLI_OUTPUT_H_

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace veneer::cli {

using OutJson = nlohmann::ordered_json;  // written, never read: input goes through core/format/json.h

// Text to standard output; `Note` to standard error.
void Print(std::string_view text);
void PrintLine(std::string_view line);
void Note(std::string_view line);
void PrintJson(const OutJson& json);

// The one closing line of a state-changing command: "OK ACTIVATE gen=12 composition=sha256:…". In JSON mode the object has said it.
void PrintOk(std::string_view verb, std::string_view facts, bool json);
// "ERR ACTIVATE E303 HASH_MISMATCH at=… …" on standard error; in JSON mode also {"error": {…}} on standard output.
void PrintError(std::string_view verb, const Error& error, bool json);

// 0 done, 2 usage, 3 refused (E1-E4, E7, E8), 4 resources or store (E5, E6), 5 internal.
int ExitStatus(const Error& error);

// Columns padded to their widest cell, two blanks apart; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// Byte counts with a unit: "2.2 MiB".
std::string ByteText(std::uint64_t bytes);

// "…" for control characters, so that file contents cannot drive the terminal.
std::string Printable(std::string_view text);

// A bar on standard error when that is a terminal, nothing elsewhere. At most ten updates a second; cleared when done.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Update(std::uint64_t done, std::uint64_t total);

 private:
  std::string label_;
  bool is_terminal_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_OUTPUT_H_
