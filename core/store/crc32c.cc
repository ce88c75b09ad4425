#include "core/store/crc32c.h"

#include <fmt/format.h>

#include <array>

namespace veneer {
namespace {

constexpr std::array<std::uint32_t, 256> MakeTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? (value >> 1) ^ 0x82f63b78u : value >> 1;
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = MakeTable();
constexpr std::size_t kCrcLineSize = 13;  // "crc " + 8 hex + "\n"

}  // namespace

std::uint32_t Crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string WithCrcLine(std::string_view body) { return fmt::format("{}crc {:08x}\n", body, Crc32c(body)); }

std::optional<std::string_view> CheckCrcLine(std::string_view text) {
  if (text.size() < kCrcLineSize) return std::nullopt;
  const std::string_view body = text.substr(0, text.size() - kCrcLineSize);
  if (!body.ends_with('\n') || text != WithCrcLine(body)) return std::nullopt;
  return body;
}

}  // namespace veneer
