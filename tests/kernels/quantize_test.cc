// Through the table of the built library: g++ 12 without -fno-ivopts is known to drop calls of such a function.
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

struct Quantized {
  std::vector<std::int8_t> q;
  std::vector<float> d;
  std::vector<std::int32_t> sum;

  bool operator==(const Quantized&) const = default;
};

// Outputs start as values that no block can have, and one element more than the kernel may write.
Quantized Run(const kernels::Table& table, const std::vector<float>& x) {
  const std::uint64_t blocks = (x.size() + 31) / 32;
  Quantized out{std::vector<std::int8_t>(32 * blocks + 1, -128), std::vector<float>(blocks + 1, -7.0f),
                std::vector<std::int32_t>(blocks + 1, 99999)};
  table.quantize_activations(x.data(), x.size(), out.q.data(), out.d.data(), out.sum.data());
  CHECK(out.q.back() == -128);
  CHECK(out.d.back() == -7.0f);
  CHECK(out.sum.back() == 99999);
  return out;
}

// d = max|x| / 127 in f32, q = x / d in f32 rounded to nearest even (nearbyint in the default mode), written out again.
Quantized Expected(const std::vector<float>& x) {
  const std::uint64_t blocks = (x.size() + 31) / 32;
  Quantized out{std::vector<std::int8_t>(32 * blocks + 1, 0), std::vector<float>(blocks + 1, -7.0f),
                std::vector<std::int32_t>(blocks + 1, 0)};
  out.q.back() = -128;
  out.sum.back() = 99999;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    const std::uint64_t end = std::min<std::uint64_t>(32 * b + 32, x.size());
    float largest = 0;
    for (std::uint64_t i = 32 * b; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    out.d[b] = largest / 127;
    if (out.d[b] < std::numeric_limits<float>::min()) out.d[b] = 0;
    for (std::uint64_t i = 32 * b; i < end && out.d[b] > 0; ++i) {
      out.q[i] = static_cast<std::int8_t>(std::nearbyint(x[i] / out.d[b]));
      out.sum[b] += out.q[i];
    }
  }
  return out;
}

}  // namespace

TEST_CASE("quantize_activations: scale, integers and sums are those of the definition, for any length", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    for (std::uint64_t n : {1u, 31u, 32u, 33u, 64u, 100u, 2048u, 5632u}) {
      for (double scale : {1.0, 1e-3, 1e30, 1e-30, 1e-36, 1e-38, 1e-44, 3e38}) {
        INFO(table->isa << " n " << n << " scale " << scale);
        Random random(n);
        const std::vector<float> x = RandomFloats(n, random, scale);
        CHECK(Run(*table, x) == Expected(x));
      }
    }
  }
}

TEST_CASE("quantize_activations: ties go to the even integer and the largest element becomes 127", "[kernels]") {
  std::vector<float> x(32);
  for (int j = 0; j < 31; ++j) x[static_cast<std::size_t>(j)] = (static_cast<float>(j) - 15.0f) + 0.5f;
  x[31] = -127.0f;  // d = 1: every other element is a tie
  for (const kernels::Table* table : Tables()) {
    INFO(table->isa);
    const Quantized out = Run(*table, x);
    CHECK(out.d[0] == 1.0f);
    CHECK(out.q[31] == -127);
    CHECK(out.q[14] == 0);   // -0.5
    CHECK(out.q[15] == 0);   // 0.5
    CHECK(out.q[16] == 2);   // 1.5
    CHECK(out.q[17] == 2);   // 2.5
    CHECK(out.q[13] == -2);  // -1.5
  }
}

// Multiplying with the rounded 1 / d instead would move some of these exact ties, for example with d = 49.
TEST_CASE("quantize_activations: x is divided by d, so that exact ties stay ties for every d", "[kernels]") {
  std::vector<float> x, d_of_block;
  std::vector<std::int8_t> expected;
  for (int d = 1; d <= 200; ++d) {
    for (int first = 0; first < 124; first += 31) {
      for (int k = first; k < first + 31; ++k) {
        x.push_back((static_cast<float>(k) + 0.5f) * static_cast<float>(d));
        expected.push_back(static_cast<std::int8_t>(k + k % 2));
      }
      x.push_back(static_cast<float>(127 * d));
      expected.push_back(127);
      d_of_block.push_back(static_cast<float>(d));
    }
  }
  for (const kernels::Table* table : Tables()) {
    INFO(table->isa);
    Quantized out = Run(*table, x);
    out.q.pop_back();
    out.d.pop_back();
    CHECK(out.d == d_of_block);
    CHECK(out.q == expected);
  }
}

TEST_CASE("quantize_activations: a block of zeros has scale 0, a block with a NaN or an infinity has scale NaN", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    INFO(table->isa);
    std::vector<float> x(128, 1.0f);
    for (std::size_t i = 0; i < 32; ++i) x[i] = i % 2 ? 0.0f : -0.0f;
    x[40] = std::numeric_limits<float>::infinity();
    x[70] = -std::numeric_limits<float>::quiet_NaN();
    const Quantized out = Run(*table, x);
    CHECK(out.d[0] == 0.0f);
    CHECK(std::isnan(out.d[1]));
    CHECK(std::isnan(out.d[2]));
    CHECK(out.d[3] == 1.0f / 127.0f);
    for (std::size_t i = 0; i < 96; ++i) REQUIRE(out.q[i] == 0);
    CHECK(out.sum[0] == 0);
    CHECK(out.sum[1] == 0);
    CHECK(out.sum[3] == 32 * 127);
  }
}

TEST_CASE("quantize_activations: the reconstruction is within half a step", "[kernels]") {
  Random random(5);
  const std::vector<float> x = RandomFloats(4096, random, 3);
  for (const kernels::Table* table : Tables()) {
    const Quantized out = Run(*table, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto d = static_cast<double>(out.d[i / 32]);
      // x / d is rounded once before it is rounded to an integer: 127 u of a step.
      REQUIRE(std::fabs(d * out.q[i] - static_cast<double>(x[i])) <= d * (0.5 + 128 * kU));
    }
  }
}

// All finite halves >= 0 in ascending order: the bits count up.
std::uint16_t SmallestHalfNotBelow(float value) {
  std::uint16_t low = 0, high = 0x7c00;
  while (low < high) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    if (HalfValue(middle) < static_cast<double>(value))
      low = static_cast<std::uint16_t>(middle + 1);
    else
      high = middle;
  }
  return low;
}

// One block as bytes, the half first.
std::vector<std::uint8_t> ExpectedQ8_0(std::span<const float> x) {
  std::vector<std::uint8_t> block(34, 0);
  float largest = 0;
  bool is_finite = true;
  for (const float value : x) {
    is_finite = is_finite && std::isfinite(value);
    largest = std::max(largest, std::fabs(value));
  }
  std::uint16_t half = is_finite ? SmallestHalfNotBelow(largest / 127) : 0x7c00;
  if (half == 0x7c00) half = 0x7e00;
  block[0] = static_cast<std::uint8_t>(half & 255);
  block[1] = static_cast<std::uint8_t>(half >> 8);
  if (half == 0 || half == 0x7e00) return block;
  const auto d = static_cast<float>(HalfValue(half));
  for (std::size_t j = 0; j < 32; ++j) {
    const auto q = static_cast<int>(std::nearbyint(x[j] / d));
    REQUIRE(std::abs(q) <= 127);
    block[2 + j] = static_cast<std::uint8_t>(q);
  }
  return block;
}

TEST_CASE("to_q8_0: scales and integers are those of the definition, down to subnormal scales and up to the largest", "[kernels]") {
  for (const double scale : {1.0, 1e-2, 1e-3, 5e-4, 1e-4, 1e-5, 7e-6, 1e-30, 1e-44, 1e6, 8.3e6, 8.4e6, 3e38}) {
    Random random(17);
    std::vector<float> x = RandomFloats(96, random, scale);
    x.resize(128, 0.0F);  // and a block of zeros
    for (const kernels::Table* table : Tables()) {
      INFO(table->isa << " scale " << scale);
      std::vector<std::uint8_t> out(1 + 4 * 34 + 1, 0x55);
      table->to_q8_0(x.data(), out.data() + 1, x.size());
      CHECK(out.front() == 0x55);
      CHECK(out.back() == 0x55);
      for (std::size_t b = 0; b < 4; ++b) {
        const auto at = out.begin() + 1 + static_cast<std::ptrdiff_t>(34 * b);
        CHECK(std::vector<std::uint8_t>(at, at + 34) == ExpectedQ8_0(std::span(x).subspan(32 * b, 32)));
      }
    }
  }
}

TEST_CASE("to_q8_0: what is read back is within half a step, and a block with a NaN or an infinity reads back as NaN", "[kernels]") {
  Random random(5);
  for (const kernels::Table* table : Tables()) {
    for (const double scale : {3.0, 1e-3, 1e-5}) {
      INFO(table->isa << " scale " << scale);
      const std::vector<float> x = RandomFloats(4096, random, scale);
      std::vector<std::uint8_t> stored(x.size() / 32 * 34);
      std::vector<float> back(x.size());
      table->to_q8_0(x.data(), stored.data(), x.size());
      table->dequantize[VNR_Q8_0](stored.data(), back.data(), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        std::uint16_t half;
        std::memcpy(&half, &stored[i / 32 * 34], sizeof half);
        REQUIRE(std::fabs(static_cast<double>(back[i]) - static_cast<double>(x[i])) <= HalfValue(half) * (0.5 + 128 * kU));
      }
    }
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(32, 1.0F), back(32);
      x[9] = bad;
      std::vector<std::uint8_t> stored(34);
      table->to_q8_0(x.data(), stored.data(), 32);
      CHECK(stored == ExpectedQ8_0(x));
      table->dequantize[VNR_Q8_0](stored.data(), back.data(), 32);
      for (const float value : back) CHECK(std::isnan(value));
    }
  }
}

}  // namespace veneer::kernels_test
