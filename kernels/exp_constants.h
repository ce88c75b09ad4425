// The exponential that every instruction set evaluates with the same operations in the same order:
//   x is clamped to [kExpLow, kExpHigh] (a NaN stays), n = x log2(e) rounded to an integer by adding and subtracting kExpRound,
//   r = x - n ln 2 in two fused steps (|r| <= 0.3468), p = 1 + r + r^2 (C2 + r (C3 + r (C4 + r (C5 + r C6)))) by Horner, fused,
//   exp(x) = (p 2^(n >> 1)) 2^(n - (n >> 1)): both factors are normal numbers, so overflow gives +inf and underflow rounds once.
// Error against the exact value: at most 1.03 ulp, an ulp being 2^-149 where the result is subnormal. All f32 from 2^-31 up were tried
// once: the worst is 1.0242 ulp at -5.849; tests/kernels/exp_test.cc repeats every 97th. Coefficients: Remez exchange on [-ln2 / 2, ln2 /
// 2] for the relative error with 1 and r fixed, rounded to f32 one after the other with the rest refitted; the polynomial alone is within
// 0.08 x 2^-24.
#ifndef VENEER_KERNELS_EXP_CONSTANTS_H_
#define VENEER_KERNELS_EXP_CONSTANTS_H_

namespace veneer::kernels {

inline constexpr float kExpLow = -104.0f;        // exp(-104) < 2^-150 rounds to 0
inline constexpr float kExpHigh = 89.0f;         // exp(89) is above the largest f32
inline constexpr float kExpRound = 12582912.0f;  // 1.5 x 2^23: the last bit of a sum with it is worth 1
inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e4p-1f;  // 15 bits, |n| < 2^8: n kLn2High is exact
inline constexpr float kLn2Low = 0x1.7f7d1cp-20f;
inline constexpr float kExpC2 = 0.5f;
inline constexpr float kExpC3 = 0x1.555466p-3f;
inline constexpr float kExpC4 = 0x1.5552fep-5f;
inline constexpr float kExpC5 = 0x1.1257f4p-7f;
inline constexpr float kExpC6 = 0x1.6feed0p-10f;

}  // namespace veneer::kernels

#endif  // VENEER_KERNELS_EXP_CONSTANTS_H_
