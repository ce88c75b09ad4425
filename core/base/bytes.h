// A bounds-checked little-endian cursor over bytes; every binary reader stands on it.
#ifndef VENEER_CORE_BASE_BYTES_H_
#define VENEER_CORE_BASE_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace veneer {

static_assert(std::endian::native == std::endian::little, "the readers below load little-endian numbers as they are");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t remaining() const { return bytes_.size() - position_; }

  // Next number, or nothing when fewer than sizeof(T) bytes remain.
  template <class T>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] std::optional<T> Read() {
    if (remaining() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // Next `size` bytes, or nothing when fewer remain.
  [[nodiscard]] std::optional<std::span<const std::byte>> Take(std::uint64_t size) {
    if (remaining() < size) return std::nullopt;
    const auto part = bytes_.subspan(position_, size);
    position_ += size;
    return part;
  }

  [[nodiscard]] std::optional<std::string_view> TakeText(std::uint64_t size) {
    const auto part = Take(size);
    if (!part) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(part->data()), part->size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t position_ = 0;
};

inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace veneer

#endif  // VENEER_CORE_BASE_BYTES_H_
