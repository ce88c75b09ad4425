#include "core/cli/output.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace veneer::cli {
namespace {

std::string Upper(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

// Columns a UTF-8 text takes on a terminal, counting code points.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void PrintLine(std::string_view line) { Print(fmt::format("{}\n", line)); }

void Note(std::string_view line) {
  const std::string text = fmt::format("{}\n", line);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void PrintJson(const OutJson& json) { PrintLine(json.dump(-1, ' ', false, OutJson::error_handler_t::replace)); }

void PrintOk(std::string_view verb, std::string_view facts, bool json) {
  if (!json) PrintLine(fmt::format("OK {}{}{}", Upper(verb), facts.empty() ? "" : " ", facts));
}

void PrintError(std::string_view verb, const Error& error, bool json) {
  Note(fmt::format("ERR {} {}", Upper(verb), Printable(error.Text())));
  if (json)
    PrintJson(
        {{"error", {{"code", static_cast<int>(error.code)}, {"name", CodeName(error.code)}, {"at", error.at}, {"detail", error.detail}}}});
}

int ExitStatus(const Error& error) {
  if (error.code == Code::USAGE) return 2;
  if (error.code == Code::INTERNAL) return 5;
  const int family = static_cast<int>(error.code) / 100;
  return family == 5 || family == 6 ? 4 : 3;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    text += fmt::format("{}\n", line);
  }
  return text;
}

std::string ByteText(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string Printable(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    safe += byte < 0x20 || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return safe;
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (is_drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Update(std::uint64_t done, std::uint64_t total) {
  if (!is_terminal_ || total == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (is_drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  is_drawn_ = true;
  constexpr std::uint64_t kCells = 30;
  const auto filled = static_cast<std::size_t>(std::min(done, total) * kCells / total);
  std::fputs(fmt::format("\r{} [{}{}] {:3}% {}", label_, std::string(filled, '#'), std::string(kCells - filled, '.'),
                         std::min(done, total) * 100 / total, ByteText(total))
                 .c_str(),
             stderr);
}

}  // namespace veneer::cli
