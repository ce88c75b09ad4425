// Every stored value is exact in f32 or, with a minimum, q d + m rounded once: in f64 that sum is exact (44 bits), so rounding the
// oracle to f32 gives the one right answer.
#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

namespace veneer::kernels_test {
namespace {

std::vector<float> Rounded(const std::vector<double>& values) { return {values.begin(), values.end()}; }

void CheckType(const kernels::Table& table, const StoredType& type, std::uint64_t n, Scales scales) {
  INFO(table.isa << " " << type.name << " n " << n);
  Random random(n + static_cast<std::uint64_t>(type.type));
  const Matrix matrix(type, 1, n, random, scales);
  const auto* row = static_cast<const std::uint8_t*>(matrix.rows[0]);
  std::vector<float> out(n + 1, -7.0f);
  REQUIRE(table.dequantize[type.type] != nullptr);
  table.dequantize[type.type](row, out.data(), n);
  CHECK(out.back() == -7.0f);
  out.pop_back();
  const std::vector<float> expected = Rounded(RowValues(type, row, n));
  // == instead of bits: the oracle's (0 x negative) may carry the other sign of zero.
  std::size_t wrong = 0;
  while (wrong < n && out[wrong] == expected[wrong]) ++wrong;
  CHECK(wrong == n);
  std::vector<float> scalar(n);
  Scalar().dequantize[type.type](row, scalar.data(), n);
  CHECK(FirstDifference(out, scalar) == n);
}

}  // namespace

TEST_CASE("dequantize: every type gives the exact values of its format on every instruction set", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    for (const StoredType& type : StoredTypes()) {
      for (std::uint64_t blocks : {1u, 2u, 3u, 7u, 32u, 33u}) {
        CheckType(*table, type, blocks * type.block, Scales::kUsual);
        CheckType(*table, type, blocks * type.block, Scales::kExtreme);
      }
      if (type.block == 1) CheckType(*table, type, 1000, Scales::kExtreme);
    }
  }
}

TEST_CASE("half conversions: all 65536 halves widen to their exact value and narrow back to the same bits", "[kernels]") {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  int wrong = 0;
  for (std::uint16_t half : halves) {
    const float wide = kernels::HalfToFloat(half);
    const bool special = (half & 0x7c00) == 0x7c00, nan = special && (half & 0x3ff) != 0;
    if (nan) {
      wrong += !std::isnan(wide) || kernels::FloatToHalf(wide) != (half | 0x200);  // quiet, payload kept
    } else {
      const double expected = special ? (half >> 15 ? -INFINITY : INFINITY) : HalfValue(half);
      wrong += wide != expected || std::signbit(wide) != (half >> 15 != 0) || kernels::FloatToHalf(wide) != half;
    }
  }
  CHECK(wrong == 0);
  for (const kernels::Table* table : Tables()) {
    INFO(table->isa);
    std::vector<float> wide(halves.size());
    table->dequantize[1](halves.data(), wide.data(), wide.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < wide.size(); ++i) different += !SameBits(wide[i], kernels::HalfToFloat(halves[i]));
    CHECK(different == 0);
  }
}

TEST_CASE("half conversions: between two halves the nearer wins and a tie goes to the even one", "[kernels]") {
  std::vector<float> values;
  std::vector<std::uint16_t> expected;
  for (std::uint32_t half = 0; half < 0x7c00; ++half) {
    const double low = HalfValue(static_cast<std::uint16_t>(half));
    const double high = half == 0x7bff ? 65536 : HalfValue(static_cast<std::uint16_t>(half + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: one bit more than a half
    for (float sign : {1.0f, -1.0f}) {
      const auto bit = static_cast<std::uint32_t>(sign < 0 ? 0x8000 : 0);
      const std::uint32_t choices[] = {half, half + half % 2, half + 1};
      const float inputs[] = {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e30f)};
      for (int i = 0; i < 3; ++i) {
        values.push_back(sign * inputs[i]);
        expected.push_back(static_cast<std::uint16_t>(bit | choices[i]));
      }
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (kernels::FloatToHalf(values[i]) != expected[i]) FAIL("FloatToHalf(" << values[i] << ")");
  }
  for (const kernels::Table* table : Tables()) {
    INFO(table->isa);
    std::vector<std::uint16_t> out(values.size());
    table->to_f16(values.data(), out.data(), values.size());
    CHECK(out == expected);
  }
}

}  // namespace veneer::kernels_test
