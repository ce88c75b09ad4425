// An f64 oracle for the kernels, written from the published block formats and shared with no product code, and the data to feed it.
#ifndef VENEER_TESTS_KERNELS_ORACLE_H_
#define VENEER_TESTS_KERNELS_ORACLE_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace veneer::kernels_test {

// Unit roundoff of f32 and Higham's gamma (Accuracy and Stability, 2nd ed., 3.1): n roundings in a row are within a factor 1 +- Gamma(n).
inline constexpr double kU = 0x1p-24;
inline double Gamma(double n) { return n * kU / (1 - n * kU); }
inline constexpr double kSmallest = 0x1p-149;  // one subnormal step, for results that underflow

struct StoredType {
  int type;
  const char* name;
  std::uint64_t block, block_bytes;
  bool minimum;                            // y = q d + m
  bool quantized;                          // fast mode multiplies it with quantized activations
  std::vector<std::uint64_t> halves;       // where a block holds its half scales; empty for float types
  std::uint64_t scales = 0, n_scales = 0;  // bytes of a superblock's integer scales

  std::uint64_t RowBytes(std::uint64_t cols) const { return cols / block * block_bytes; }
};
std::span<const StoredType> StoredTypes();

class Random {  // splitmix64
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53 * 2 - 1; }  // [-1, 1)
  std::uint64_t Below(std::uint64_t n) { return Bits() % n; }

 private:
  std::uint64_t state_;
};

double HalfValue(std::uint16_t half);  // finite halves

// kUsual: scales around 0.01. kExtreme: zero, subnormal, negative and the largest finite scales.
enum class Scales { kUsual, kExtreme };
std::vector<std::uint8_t> RandomRow(const StoredType& type, std::uint64_t cols, Random& random, Scales scales = Scales::kUsual);

// Values of a stored row, exact.
std::vector<double> RowValues(const StoredType& type, const std::uint8_t* row, std::uint64_t cols);

// The part m of every value, exact; zeros in types without a minimum.
std::vector<double> RowMinimums(const StoredType& type, const std::uint8_t* row, std::uint64_t cols);

std::vector<float> RandomFloats(std::uint64_t n, Random& random, double scale = 1);

// A weight matrix whose rows start at odd addresses.
struct Matrix {
  std::vector<std::vector<std::uint8_t>> storage;
  std::vector<const void*> rows;

  Matrix(const StoredType& type, std::uint32_t n_rows, std::uint64_t cols, Random& random, Scales scales = Scales::kUsual);
};

// Weights at the ends of their range, where 16-bit sums would overflow first: every byte but the half scales; rows take turns in keeping a
// superblock's own scales.
void Saturate(const StoredType& type, Matrix& matrix, std::uint8_t byte);

inline bool SameBits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

// Index of the first element whose bits differ, or the size. NaNs of any payload are equal.
std::size_t FirstDifference(std::span<const float> a, std::span<const float> b);

const kernels::Table& Scalar();
std::span<const kernels::Table* const> Tables();  // runnable here, scalar last

}  // namespace veneer::kernels_test

#endif  // VENEER_TESTS_KERNELS_ORACLE_H_
