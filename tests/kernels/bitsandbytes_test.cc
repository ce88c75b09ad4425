// NF4 and LLM.int8 against the formulas of bitsandbytes' documentation of its formats (adapter-formats f), written here once more over
// plain arrays. Values are asked for bit by bit: the roundings are part of the format.
#include <cstring>
#include <string>

#include "kernels/scaled_rows.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"
#include "veneer/abi.h"

namespace veneer::kernels_test {
namespace {

constexpr float kNf4Map[16] = {-1.0f,
                               -0.6961928009986877f,
                               -0.5250730514526367f,
                               -0.39491748809814453f,
                               -0.28444138169288635f,
                               -0.18477343022823334f,
                               -0.09105003625154495f,
                               0.0f,
                               0.07958029955625534f,
                               0.16093020141124725f,
                               0.24611230194568634f,
                               0.33791524171829224f,
                               0.44070982933044434f,
                               0.5626170039176941f,
                               0.7229568362236023f,
                               1.0f};

// A matrix whose tensors all start at odd addresses.
struct Scaled {
  int type;
  std::uint64_t out, in;
  std::vector<std::uint8_t> data = {}, absmax = {}, nested_absmax = {}, row_scales = {};  // the first byte is a pad
  kernels::WeightScales scales = {};
  std::vector<kernels::ScaledRow> rows = {};
  std::vector<const void*> pointers = {};
  std::vector<float> values = {};  // [out, in], as the format defines them

  void Point(std::uint64_t row_bytes) {
    for (std::uint64_t r = 0; r < out; ++r) rows.push_back({data.data() + 1 + r * row_bytes, r, r * in, &scales});
    for (const kernels::ScaledRow& row : rows) pointers.push_back(&row);
  }
};

std::vector<std::uint8_t> Stored(const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(1 + values.size() * sizeof(float));
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(float));
  return bytes;
}

Scaled MakeNf4(std::uint64_t out, std::uint64_t in, unsigned block, bool is_nested, Random& random) {
  Scaled made{.type = VNR_NF4, .out = out, .in = in};
  const std::uint64_t elements = out * in, blocks = (elements + block - 1) / block, nested_block = 64;
  made.data.resize(1 + elements / 2);
  for (std::uint8_t& byte : made.data) byte = static_cast<std::uint8_t>(random.Bits());
  std::memcpy(made.scales.map, kNf4Map, sizeof kNf4Map);
  made.scales.block_shift = static_cast<unsigned>(std::countr_zero(block));
  std::vector<float> absmax = RandomFloats(blocks, random, 0.1);
  std::vector<float> of_block = absmax;
  made.absmax = Stored(absmax);
  if (is_nested) {
    const std::vector<float> map = RandomFloats(256, random), outer = RandomFloats((blocks + nested_block - 1) / nested_block, random, 0.1);
    made.absmax.assign(1 + blocks, 0);
    for (std::uint8_t& byte : made.absmax) byte = static_cast<std::uint8_t>(random.Bits());
    made.nested_absmax = Stored(outer);
    std::memcpy(made.scales.nested_map, map.data(), sizeof made.scales.nested_map);
    made.scales.is_nested = true;
    made.scales.nested_shift = 6;
    made.scales.nested_absmax = made.nested_absmax.data() + 1;
    made.scales.nested_offset = 0.09646087884902954f;
    for (std::uint64_t b = 0; b < blocks; ++b) {
      volatile float product = map[made.absmax[1 + b]] * outer[b / nested_block];  // volatile: rounded before the sum
      of_block[b] = product + made.scales.nested_offset;
    }
  }
  made.scales.absmax = made.absmax.data() + 1;
  for (std::uint64_t k = 0; k < elements; ++k) {
    const std::uint8_t byte = made.data[1 + k / 2];
    made.values.push_back(kNf4Map[k % 2 == 0 ? byte >> 4 : byte & 15] * of_block[k / block]);
  }
  made.Point(in / 2);
  return made;
}

Scaled MakeInt8(std::uint64_t out, std::uint64_t in, Random& random) {
  Scaled made{.type = VNR_INT8_ROW, .out = out, .in = in};
  made.data.resize(1 + out * in);
  for (std::uint8_t& byte : made.data) byte = static_cast<std::uint8_t>(random.Bits());
  const std::vector<float> scb = RandomFloats(out, random, 3);
  made.row_scales = Stored(scb);
  made.scales.row_scales = made.row_scales.data() + 1;
  for (std::uint64_t k = 0; k < out * in; ++k) {
    volatile float product = static_cast<float>(static_cast<std::int8_t>(made.data[1 + k])) * scb[k / in];
    made.values.push_back(product * 7.874015718698502e-3f);
  }
  made.Point(in);
  return made;
}

template <class Check>
void ForEachMatrix(Check check) {
  Random random(7);
  for (const std::uint64_t in : {32u, 96u, 256u, 800u}) {  // 96 and 800: blocks of 64 and more cross the ends of rows
    for (const unsigned block : {32u, 64u, 256u, 4096u}) {
      for (const bool is_nested : {false, true}) {
        INFO("nf4 in " << in << " block " << block << " nested " << is_nested);
        check(MakeNf4(17, in, block, is_nested, random));
      }
    }
    INFO("int8 in " << in);
    check(MakeInt8(17, in, random));
  }
}

}  // namespace

TEST_CASE("bitsandbytes: the published NF4 example decodes, high nibble first", "[kernels]") {
  std::vector<std::uint8_t> packed = {110, 90, 88, 44, 228, 163, 9, 25};
  packed.resize(16);
  const float absmax = 0.03125f;
  kernels::WeightScales scales;
  std::memcpy(scales.map, kNf4Map, sizeof kNf4Map);
  scales.block_shift = 6;
  scales.absmax = &absmax;
  const kernels::ScaledRow row{packed.data(), 0, 0, &scales};
  for (const kernels::Table* table : Tables()) {
    float out[32];
    table->dequantize[VNR_NF4](&row, out, 32);
    const double expected[] = {-0.002838, 0.022583, -0.005768, 0.00769};  // rounded to bf16
    for (int i = 0; i < 4; ++i) CHECK(std::fabs(static_cast<double>(out[i]) - expected[i]) < std::fabs(expected[i]) / 256);
  }
}

TEST_CASE("bitsandbytes: every value is that of the format bit for bit, with plain and nested absmax and with row scales", "[kernels]") {
  ForEachMatrix([](const Scaled& matrix) {
    for (const kernels::Table* table : Tables()) {
      std::vector<float> row(matrix.in + 1, -7.0f);
      for (std::uint64_t r = 0; r < matrix.out; ++r) {
        table->dequantize[matrix.type](matrix.pointers[r], row.data(), matrix.in);
        const std::span<const float> expected(matrix.values.data() + r * matrix.in, matrix.in);
        if (const std::size_t at = FirstDifference(std::span(row).first(matrix.in), expected); at != matrix.in)
          FAIL(table->isa << " row " << r << " element " << at << " is " << row[at] << ", must be " << expected[at]);
        REQUIRE(row.back() == -7.0f);
      }
    }
  });
}

// The order of dot_rows is the same for every type: f32 rows of the same values are the oracle.
TEST_CASE("bitsandbytes: products are those of f32 rows of the same values, for any number of rows and tokens", "[kernels]") {
  ForEachMatrix([](const Scaled& matrix) {
    Random random(matrix.in);
    const std::uint32_t most_tokens = 25;
    const std::vector<float> x = RandomFloats(most_tokens * matrix.in, random);
    std::vector<const void*> plain;
    for (std::uint64_t r = 0; r < matrix.out; ++r) plain.push_back(matrix.values.data() + r * matrix.in);
    for (const kernels::Table* table : Tables()) {
      for (const std::uint32_t n_rows : {1u, 2u, 8u, 9u, 17u}) {
        for (const std::uint32_t tokens : {1u, 2u, 3u, 8u, 25u}) {
          std::vector<float> expected(n_rows * tokens), y(n_rows * tokens);
          Scalar().dot_rows[VNR_F32](plain.data(), n_rows, matrix.in, x.data(), matrix.in, tokens, expected.data(), n_rows);
          table->dot_rows[matrix.type](matrix.pointers.data(), n_rows, matrix.in, x.data(), matrix.in, tokens, y.data(), n_rows);
          if (FirstDifference(y, expected) != y.size())
            FAIL(table->isa << " type " << matrix.type << ", " << n_rows << " rows, " << tokens << " tokens");
        }
      }
    }
  });
}

}  // namespace veneer::kernels_test
