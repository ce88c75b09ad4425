#include <cstdint>

#include "kernels/quant_blocks.h"
#include "kernels/scalar/half.h"
#include "kernels/scalar/scalar.h"

namespace veneer::kernels::scalar {
namespace {

// x / d is within 127 (1 + 2^-24); adding and subtracting 1.5 x 2^23 rounds it to the nearest integer, ties to even.
int RoundToEven(float value) {
  constexpr float kRound = 12582912.0f;
  return static_cast<int>((value + kRound) - kRound);
}

// Bits of the largest |x|: integers order magnitudes, and NaN above infinity.
std::uint32_t LargestBits(const float* x, std::uint64_t n) {
  std::uint32_t largest = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint32_t magnitude = FloatToBits(x[i]) & 0x7fffffffu;
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}

// The smallest half that is not below a value >= 0.
std::uint16_t NarrowUp(float value) {
  const std::uint16_t half = NarrowToHalf(value);
  return static_cast<std::uint16_t>(half + (WidenHalf(half) < value ? 1 : 0));
}

}  // namespace

// A block whose scale would be zero or subnormal (largest |x| below about 1.5e-36) counts as zeros. A block with an infinity or a NaN
// gets d = NaN, q = 0: whatever it is multiplied with becomes NaN, which callers can see.
void QuantizeActivations(const float* x, std::uint64_t n, std::int8_t* q, float* d, std::int32_t* sum) {
  for (std::uint64_t b = 0; 32 * b < n; ++b) {
    const std::uint64_t count = n - 32 * b < 32 ? n - 32 * b : 32;
    const std::uint32_t largest = LargestBits(x + 32 * b, count);
    const bool finite = largest < 0x7f800000u;
    const float scale = BitsToFloat(largest) / 127.0f;
    const bool usable = finite && scale >= 0x1p-126f;
    d[b] = usable ? scale : finite ? 0.0f : BitsToFloat(0x7fc00000u);
    std::int32_t total = 0;
    for (std::uint64_t j = 0; j < 32; ++j) {
      const int value = usable && j < count ? RoundToEven(x[32 * b + j] / scale) : 0;
      q[32 * b + j] = static_cast<std::int8_t>(value);
      total += value;
    }
    sum[b] = total;
  }
}

// Rounding the scale up keeps |x| / d within 127, also where it is subnormal and steps are coarse.
void ToQ8_0(const float* x, void* out, std::uint64_t n) {
  auto* block = static_cast<BlockQ8_0*>(out);
  for (std::uint64_t i = 0; i < n; i += 32, ++block) {
    const std::uint32_t largest = LargestBits(x + i, 32);
    std::uint16_t half = NarrowUp(largest < 0x7f800000u ? BitsToFloat(largest) / 127.0f : BitsToFloat(0x7f800000u));
    if (half == 0x7c00u) half = 0x7e00u;
    const float d = WidenHalf(half);
    block->d = {{static_cast<std::uint8_t>(half & 255), static_cast<std::uint8_t>(half >> 8)}};
    for (std::uint64_t j = 0; j < 32; ++j) block->qs[j] = static_cast<std::int8_t>(d > 0 ? RoundToEven(x[i + j] / d) : 0);
  }
}

}  // namespace veneer::kernels::scalar
