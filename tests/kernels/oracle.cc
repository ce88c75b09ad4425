#include "tests/kernels/oracle.h"

#include "tests/support/catch.h"
#include "veneer/abi.h"

namespace veneer::kernels_test {
namespace {

constexpr StoredType kTypes[] = {
    {VNR_F32, "F32", 1, 4, false, false},    {VNR_F16, "F16", 1, 2, false, false},    {VNR_BF16, "BF16", 1, 2, false, false},
    {VNR_Q4_0, "Q4_0", 32, 18, false, true}, {VNR_Q4_1, "Q4_1", 32, 20, true, true},  {VNR_Q5_0, "Q5_0", 32, 22, false, true},
    {VNR_Q5_1, "Q5_1", 32, 24, true, true},  {VNR_Q8_0, "Q8_0", 32, 34, false, true}, {VNR_Q6_K, "Q6_K", 256, 210, false, true},
};

std::uint16_t Word(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] + 256 * p[1]); }

void PutHalf(std::uint8_t* p, std::uint16_t half) {
  p[0] = static_cast<std::uint8_t>(half);
  p[1] = static_cast<std::uint8_t>(half >> 8);
}

std::uint16_t RandomScale(Random& random, Scales scales) {
  const auto sign = static_cast<std::uint16_t>(random.Below(2) << 15);
  if (scales == Scales::kUsual) return static_cast<std::uint16_t>(sign | (0x2000 + random.Below(0x400)));  // 2^-7 .. 2^-6
  constexpr std::uint16_t kEdges[] = {0, 1, 0x3ff, 0x400, 0x7bff, 0x3c00};
  return static_cast<std::uint16_t>(sign | kEdges[random.Below(6)]);
}

double StoredFloat(const StoredType& type, const std::uint8_t* p) {
  if (type.type == VNR_F32) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
  if (type.type == VNR_F16) return HalfValue(Word(p));
  const std::uint32_t bits = static_cast<std::uint32_t>(Word(p)) << 16;
  return std::bit_cast<float>(bits);
}

void Block32(const StoredType& type, const std::uint8_t* p, double* y) {
  const double d = HalfValue(Word(p));
  p += 2;
  const double m = type.minimum ? HalfValue(Word(p)) : 0;
  if (type.minimum) p += 2;
  if (type.type == VNR_Q8_0) {
    for (int j = 0; j < 32; ++j) y[j] = (p[j] < 128 ? p[j] : p[j] - 256) * d;
    return;
  }
  std::uint32_t high = 0;
  const bool five = type.type == VNR_Q5_0 || type.type == VNR_Q5_1;
  if (five) {
    high = static_cast<std::uint32_t>(Word(p)) + 65536u * Word(p + 2);
    p += 4;
  }
  const int zero = type.minimum ? 0 : five ? 16 : 8;
  for (int j = 0; j < 16; ++j) {
    const int low_q = p[j] % 16 + (high >> j & 1 ? 16 : 0);
    const int high_q = p[j] / 16 + (high >> (j + 16) & 1 ? 16 : 0);
    y[j] = (low_q - zero) * d + m;
    y[j + 16] = (high_q - zero) * d + m;
  }
}

void BlockQ6K(const std::uint8_t* block, double* y) {
  const std::uint8_t *ql = block, *qh = block + 128, *sc = block + 192;
  const double d = HalfValue(Word(block + 208));
  for (int half = 0; half < 2; ++half, ql += 64, qh += 32, sc += 8, y += 128) {
    for (int l = 0; l < 32; ++l) {
      const int is = l / 16;
      const auto scale = [&](int k) { return sc[k] < 128 ? sc[k] : sc[k] - 256; };
      y[l] = d * scale(is) * (((ql[l] & 15) | (qh[l] & 3) << 4) - 32);
      y[l + 32] = d * scale(is + 2) * (((ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4) - 32);
      y[l + 64] = d * scale(is + 4) * ((ql[l] >> 4 | (qh[l] >> 4 & 3) << 4) - 32);
      y[l + 96] = d * scale(is + 6) * ((ql[l + 32] >> 4 | (qh[l] >> 6 & 3) << 4) - 32);
    }
  }
}

}  // namespace

std::span<const StoredType> StoredTypes() { return kTypes; }

double HalfValue(std::uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half >> 15 ? -magnitude : magnitude;
}

std::vector<std::uint8_t> RandomRow(const StoredType& type, std::uint64_t cols, Random& random, Scales scales) {
  std::vector<std::uint8_t> row(type.RowBytes(cols));
  for (std::uint8_t& byte : row) byte = static_cast<std::uint8_t>(random.Bits());
  for (std::uint64_t b = 0; b < cols / type.block; ++b) {
    std::uint8_t* p = row.data() + b * type.block_bytes;
    if (type.type == VNR_F32) {
      const auto value = static_cast<float>(random.Uniform() * (scales == Scales::kUsual ? 0.02 : std::ldexp(1, 40 - int(b % 160))));
      std::memcpy(p, &value, 4);
    } else if (type.type == VNR_F16) {
      PutHalf(p, scales == Scales::kUsual ? RandomScale(random, scales) : static_cast<std::uint16_t>(random.Bits() & 0xfbff));
    } else if (type.type == VNR_BF16) {
      PutHalf(p, static_cast<std::uint16_t>(random.Below(2) << 15 |
                                            (scales == Scales::kUsual ? 0x3c00 + random.Below(256) : random.Below(0x4f00))));
    } else if (type.type == VNR_Q6_K) {
      PutHalf(p + 208, RandomScale(random, scales));
    } else {
      PutHalf(p, RandomScale(random, scales));
      if (type.minimum) PutHalf(p + 2, RandomScale(random, scales));
    }
  }
  return row;
}

std::vector<double> RowValues(const StoredType& type, const std::uint8_t* row, std::uint64_t cols) {
  std::vector<double> y(cols);
  for (std::uint64_t b = 0; b < cols / type.block; ++b) {
    const std::uint8_t* p = row + b * type.block_bytes;
    double* out = y.data() + b * type.block;
    if (type.block == 1) {
      *out = StoredFloat(type, p);
    } else if (type.block == 32) {
      Block32(type, p, out);
    } else {
      BlockQ6K(p, out);
    }
  }
  return y;
}

std::vector<float> RandomFloats(std::uint64_t n, Random& random, double scale) {
  std::vector<float> x(n);
  for (float& value : x) value = static_cast<float>(random.Uniform() * scale);
  return x;
}

Matrix::Matrix(const StoredType& type, std::uint32_t n_rows, std::uint64_t cols, Random& random, Scales scales) {
  for (std::uint32_t r = 0; r < n_rows; ++r) {
    std::vector<std::uint8_t> row = RandomRow(type, cols, random, scales);
    row.insert(row.begin(), 1 + r % 2 * 2, 0);  // heap addresses are even: 1 or 3 makes them odd
    storage.push_back(std::move(row));
    rows.push_back(storage.back().data() + 1 + r % 2 * 2);
  }
}

std::size_t FirstDifference(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!SameBits(a[i], b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) return i;
  }
  return a.size();
}

const kernels::Table& Scalar() { return *Tables().back(); }

std::span<const kernels::Table* const> Tables() {
  const kernels::TableList list = kernels::Runnable();
  return {list.tables, list.count};
}

}  // namespace veneer::kernels_test
