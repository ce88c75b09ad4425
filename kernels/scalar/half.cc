#include "kernels/scalar/half.h"

#include "kernels/kernels.h"

namespace veneer::kernels {

float HalfToFloat(std::uint16_t half) { return scalar::WidenHalf(half); }
std::uint16_t FloatToHalf(float value) { return scalar::NarrowToHalf(value); }

}  // namespace veneer::kernels
