// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78): finds torn and flipped small files. Not a defence against people.
#ifndef VENEER_CORE_STORE_CRC32C_H_
#define VENEER_CORE_STORE_CRC32C_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace veneer {

std::uint32_t Crc32c(std::string_view bytes);

// `body` and a last line "crc <8 hex>\n" over all bytes before it. The body ends with a newline.
std::string WithCrcLine(std::string_view body);
// The body, or nothing when the last line is no right CRC of the bytes before it.
std::optional<std::string_view> CheckCrcLine(std::string_view text);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_CRC32C_H_
