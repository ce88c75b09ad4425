#include <cstdint>

#include "kernels/scalar/half.h"
#include "kernels/scalar/scalar.h"

namespace veneer::kernels::scalar {
namespace {

// x / d is within 127 (1 + 2^-24); adding and subtracting 1.5 x 2^23 rounds it to the nearest integer, ties to even.
int RoundToEven(float value) {
  constexpr float kRound = 12582912.0f;
  return static_cast<int>((value + kRound) - kRound);
}

}  // namespace

// A block whose scale would be zero or subnormal (largest |x| below about 1.5e-36) counts as zeros. A block with an infinity or a NaN
// gets d = NaN, q = 0: whatever it is multiplied with becomes NaN, which callers can see.
void QuantizeActivations(const float* x, std::uint64_t n, std::int8_t* q, float* d, std::int32_t* sum) {
  for (std::uint64_t b = 0; 32 * b < n; ++b) {
    const std::uint64_t count = n - 32 * b < 32 ? n - 32 * b : 32;
    std::uint32_t largest = 0;  // bits of the largest |x|: integers order magnitudes, and NaN above infinity
    for (std::uint64_t j = 0; j < count; ++j) {
      const std::uint32_t magnitude = FloatToBits(x[32 * b + j]) & 0x7fffffffu;
      if (magnitude > largest) largest = magnitude;
    }
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

}  // namespace veneer::kernels::scalar
