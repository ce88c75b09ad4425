#include "tests/kernels/oracle.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "veneer/abi.h"

namespace veneer::kernels_test {
namespace {

const StoredType kTypes[] = {
    {VNR_F32, "F32", 1, 4, false, false, {}},
    {VNR_F16, "F16", 1, 2, false, false, {}},
    {VNR_BF16, "BF16", 1, 2, false, false, {}},
    {VNR_Q4_0, "Q4_0", 32, 18, false, true, {0}},
    {VNR_Q4_1, "Q4_1", 32, 20, true, true, {0, 2}},
    {VNR_Q5_0, "Q5_0", 32, 22, false, true, {0}},
    {VNR_Q5_1, "Q5_1", 32, 24, true, true, {0, 2}},
    {VNR_Q8_0, "Q8_0", 32, 34, false, true, {0}},
    {VNR_Q2_K, "Q2_K", 256, 84, true, true, {80, 82}, 0, 16},
    {VNR_Q3_K, "Q3_K", 256, 110, false, true, {108}, 96, 12},
    {VNR_Q4_K, "Q4_K", 256, 144, true, true, {0, 2}, 4, 12},
    {VNR_Q5_K, "Q5_K", 256, 176, true, true, {0, 2}, 4, 12},
    {VNR_Q6_K, "Q6_K", 256, 210, false, true, {208}, 192, 16},
    {VNR_IQ4_NL, "IQ4_NL", 32, 18, false, true, {0}},
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

// Each decoder fills the values y and their minimum parts m of one block.
void Block32(const StoredType& type, const std::uint8_t* p, double* y, double* m) {
  const double d = HalfValue(Word(p));
  p += 2;
  const double minimum = type.minimum ? HalfValue(Word(p)) : 0;
  if (type.minimum) p += 2;
  std::fill(m, m + 32, minimum);
  if (type.type == VNR_Q8_0) {
    for (int j = 0; j < 32; ++j) y[j] = (p[j] < 128 ? p[j] : p[j] - 256) * d;
    return;
  }
  if (type.type == VNR_IQ4_NL) {
    constexpr int kCodes[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};  // ggml's table
    for (int j = 0; j < 16; ++j) {
      y[j] = kCodes[p[j] % 16] * d;
      y[j + 16] = kCodes[p[j] / 16] * d;
    }
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
    y[j] = (low_q - zero) * d + minimum;
    y[j + 16] = (high_q - zero) * d + minimum;
  }
}

// Two halves of 128; in each, for every shift, 16 values of q[0..15] and 16 of q[16..31], one scale byte for each 16.
void BlockQ2K(const std::uint8_t* block, double* y, double* m) {
  const double d = HalfValue(Word(block + 80)), dmin = HalfValue(Word(block + 82));
  const std::uint8_t* scale = block;
  for (const std::uint8_t* q = block + 16; q < block + 80; q += 32) {
    for (int shift = 0; shift < 8; shift += 2) {
      for (int half = 0; half < 32; half += 16, ++scale) {
        for (int l = 0; l < 16; ++l) {
          *m = -dmin * (*scale / 16);
          *y++ = d * (*scale % 16) * (q[half + l] >> shift & 3) + *m++;
        }
      }
    }
  }
}

// Six-bit scales by ggml's word form: four words of four bytes, put together from three.
void BlockQ3K(const std::uint8_t* block, double* y) {
  const double d = HalfValue(Word(block + 108));
  std::uint32_t words[4];
  std::memcpy(words, block + 96, 12);
  const std::uint32_t high = words[2];
  words[2] = (words[0] >> 4 & 0x0f0f0f0f) | (high >> 4 & 0x03030303) << 4;
  words[3] = (words[1] >> 4 & 0x0f0f0f0f) | (high >> 6 & 0x03030303) << 4;
  words[0] = (words[0] & 0x0f0f0f0f) | (high & 0x03030303) << 4;
  words[1] = (words[1] & 0x0f0f0f0f) | (high >> 2 & 0x03030303) << 4;
  std::uint8_t scales[16];
  std::memcpy(scales, words, 16);
  const std::uint8_t* scale = scales;
  int mask = 1;
  for (const std::uint8_t* q = block + 32; q < block + 96; q += 32) {
    for (int shift = 0; shift < 8; shift += 2, mask *= 2) {
      for (int half = 0; half < 32; half += 16, ++scale) {
        for (int l = half; l < half + 16; ++l) *y++ = d * (*scale - 32) * ((q[l] >> shift & 3) - (block[l] & mask ? 0 : 4));
      }
    }
  }
}

// Four groups of 64: 32 low nibbles with pair 2 g, then 32 high ones with pair 2 g + 1. Q5_K adds bit 2 g or 2 g + 1 of qh.
void BlockQ4K(const StoredType& type, const std::uint8_t* block, double* y, double* m) {
  const double d = HalfValue(Word(block)), dmin = HalfValue(Word(block + 2));
  const std::uint8_t *s = block + 4, *qh = type.type == VNR_Q5_K ? block + 16 : nullptr, *qs = block + (qh ? 48 : 16);
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] % 64 : s[j + 4] % 16 + s[j - 4] / 64 * 16;
    const int minimum = j < 4 ? s[j + 4] % 64 : s[j + 4] / 16 + s[j] / 64 * 16;
    for (int l = 0; l < 32; ++l) {
      const int byte = qs[j / 2 * 32 + l];
      const int q = (j % 2 ? byte / 16 : byte % 16) + (qh && (qh[l] & 1 << j) ? 16 : 0);
      *m = -dmin * minimum;
      *y++ = d * scale * q + *m++;
    }
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

void Block(const StoredType& type, const std::uint8_t* block, double* y, double* m) {
  switch (type.type) {
    case VNR_Q2_K:
      return BlockQ2K(block, y, m);
    case VNR_Q3_K:
      return BlockQ3K(block, y);
    case VNR_Q4_K:
    case VNR_Q5_K:
      return BlockQ4K(type, block, y, m);
    case VNR_Q6_K:
      return BlockQ6K(block, y);
    default:
      return type.block == 32 ? Block32(type, block, y, m) : void(*y = StoredFloat(type, block));
  }
}

struct Row {
  std::vector<double> values, minimums;

  Row(const StoredType& type, const std::uint8_t* row, std::uint64_t cols) : values(cols), minimums(cols) {
    for (std::uint64_t b = 0; b < cols / type.block; ++b)
      Block(type, row + b * type.block_bytes, &values[b * type.block], &minimums[b * type.block]);
  }
};

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
    } else {
      for (const std::uint64_t offset : type.halves) PutHalf(p + offset, RandomScale(random, scales));
    }
  }
  return row;
}

std::vector<double> RowValues(const StoredType& type, const std::uint8_t* row, std::uint64_t cols) { return Row(type, row, cols).values; }

std::vector<double> RowMinimums(const StoredType& type, const std::uint8_t* row, std::uint64_t cols) {
  return Row(type, row, cols).minimums;
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

void Saturate(const StoredType& type, Matrix& matrix, std::uint8_t byte) {
  bool keeps_scales = false;
  for (std::vector<std::uint8_t>& row : matrix.storage) {
    const std::size_t start = row.size() % type.block_bytes;
    for (std::size_t i = start; i < row.size(); ++i) {
      const std::size_t offset = (i - start) % type.block_bytes;
      const bool half = std::ranges::any_of(type.halves, [&](std::uint64_t at) { return offset == at || offset == at + 1; });
      const bool scale = offset >= type.scales && offset < type.scales + type.n_scales;
      if (!half && !(scale && keeps_scales)) row[i] = byte;
    }
    keeps_scales = !keeps_scales;
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
