// Arithmetic on numbers that came from a file: an overflow is a value, not a surprise.
#ifndef VENEER_CORE_BASE_CHECKED_H_
#define VENEER_CORE_BASE_CHECKED_H_

#include <cstdint>
#include <optional>
#include <span>

namespace veneer {

[[nodiscard]] inline std::optional<std::uint64_t> CheckedAdd(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

[[nodiscard]] inline std::optional<std::uint64_t> CheckedMul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Product of all dims. A zero dimension does not hide an overflow among the others: they are multiplied first.
[[nodiscard]] inline std::optional<std::uint64_t> CheckedProduct(std::span<const std::uint64_t> dims) {
  std::uint64_t product = 1;
  bool has_zero = false;
  for (const std::uint64_t dim : dims) {
    if (dim == 0) {
      has_zero = true;
      continue;
    }
    if (__builtin_mul_overflow(product, dim, &product)) return std::nullopt;
  }
  return has_zero ? 0 : product;
}

// Smallest multiple of `alignment` (a power of two) that is not below `value`.
[[nodiscard]] inline std::optional<std::uint64_t> CheckedAlignUp(std::uint64_t value, std::uint64_t alignment) {
  const auto sum = CheckedAdd(value, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum & ~(alignment - 1);
}

}  // namespace veneer

#endif  // VENEER_CORE_BASE_CHECKED_H_
