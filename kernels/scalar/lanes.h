// The summation order of every f32 sum in this library: element i goes to lane i mod 32 by one fused multiply-add, elements past the
// end up to a multiple of 32 count as zeros, then a fixed tree adds the lanes.
#ifndef VENEER_KERNELS_SCALAR_LANES_H_
#define VENEER_KERNELS_SCALAR_LANES_H_

#include <cstdint>

namespace veneer::kernels::scalar {

inline constexpr std::uint64_t kLanes = 32;

struct Lanes {
  float lane[kLanes] = {};

  void MultiplyAdd(const float* a, const float* b) {  // one block of 32
    for (std::uint64_t j = 0; j < kLanes; ++j) lane[j] = __builtin_fmaf(a[j], b[j], lane[j]);
  }

  // Lanes 8 apart first, (0 + 8) + (16 + 24), then halves of 4, 2, 1.
  float Sum() const {
    float s[8];
    for (int j = 0; j < 8; ++j) s[j] = (lane[j] + lane[j + 8]) + (lane[j + 16] + lane[j + 24]);
    for (int j = 0; j < 4; ++j) s[j] += s[j + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
  }
};

// The last n % 32 elements, padded with zeros.
struct Tail {
  float values[kLanes] = {};

  Tail(const float* source, std::uint64_t count) {
    for (std::uint64_t j = 0; j < count; ++j) values[j] = source[j];
  }
};

}  // namespace veneer::kernels::scalar

#endif  // VENEER_KERNELS_SCALAR_LANES_H_
