// A small matrix as bitsandbytes saves it, changed one part at a time.
#include "core/model/bitsandbytes.h"

#include <cmath>
#include <limits>
#include <string>

#include "core/format/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

constexpr std::uint64_t kOut = 6, kIn = 96, kBlocks = kOut * kIn / 64;
const std::string kModule = "model.layers.0.mlp.up_proj", kWeight = kModule + ".weight";

std::string Counting(std::size_t n) {
  std::string bytes;
  for (std::size_t i = 0; i < n; ++i) bytes += static_cast<char>(i * 37);
  return bytes;
}

std::string State(const std::string& more = "", const std::string& shape = "[6, 96]") {
  return R"({"quant_type": "nf4", "blocksize": 64, "dtype": "float16", "shape": )" + shape + more + "}";
}
void SetState(SafetensorsWriter& file, const std::string& json) {
  file.Set(kWeight + ".quant_state.bitsandbytes__nf4", "U8", {json.size()}, json);
}

SafetensorsWriter Nf4() {
  SafetensorsWriter file;
  file.Set(kWeight, "U8", {kOut * kIn / 2, 1}, Counting(kOut * kIn / 2));
  file.SetF32(kWeight + ".absmax", {kBlocks}, Uniform(kBlocks, 0.1F, 1));
  file.SetF32(kWeight + ".quant_map", {16}, Uniform(16, 1, 2));
  SetState(file, State());
  return file;
}
SafetensorsWriter Nested() {
  SafetensorsWriter file = Nf4();
  file.Set(kWeight + ".absmax", "U8", {kBlocks}, Counting(kBlocks));
  file.SetF32(kWeight + ".nested_absmax", {1}, Uniform(1, 0.1F, 3));
  file.SetF32(kWeight + ".nested_quant_map", {256}, Uniform(256, 1, 4));
  SetState(file, State(R"(, "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.25)"));
  return file;
}
SafetensorsWriter Int8() {
  SafetensorsWriter file;
  file.Set(kWeight, "I8", {kOut, kIn}, Counting(kOut * kIn));
  file.SetF32(kModule + ".SCB", {kOut}, Uniform(kOut, 2, 5));
  file.Set(kModule + ".weight_format", "U8", {1}, std::string(1, '\0'));
  return file;
}

Result<std::vector<BaseTensor>> Join(const std::string& bytes, HfQuantization quantization) {
  const auto file = SafetensorsFile::Parse(std::as_bytes(std::span(bytes)));
  if (!file) FAIL(file.error().Text());
  return JoinQuantized(file->tensors, quantization);
}
// The one weight that the file amounts to, as f32.
std::vector<float> Values(const SafetensorsWriter& writer, HfQuantization quantization) {
  const std::string bytes = writer.Bytes();
  const auto joined = Join(bytes, quantization);
  if (!joined) FAIL(joined.error().Text());
  REQUIRE(joined->size() == 1);
  const BaseTensor& weight = joined->front();
  CHECK(weight.view.shape == std::vector{kOut, kIn});
  std::vector<float> values(kOut * kIn);
  ReadStoredRows({weight.view.bytes.data(), weight.view.dtype, RowOrder::Identity(), weight.scales.get()}, kIn, 0, kOut, values.data(),
                 kIn);
  return values;
}
Error Refused(const SafetensorsWriter& writer, HfQuantization quantization = HfQuantization::kNf4) {
  const std::string bytes = writer.Bytes();
  const auto joined = Join(bytes, quantization);
  REQUIRE_FALSE(joined.has_value());
  return joined.error();
}

TEST_CASE("bitsandbytes: a packed weight and its state are one matrix of the shape the state says") {
  const std::vector<float> values = Values(Nf4(), HfQuantization::kNf4);
  const std::vector<float> absmax = Uniform(kBlocks, 0.1F, 1), map = Uniform(16, 1, 2);
  const std::string packed = Counting(kOut * kIn / 2);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const auto byte = static_cast<unsigned char>(packed[k / 2]);
    REQUIRE(values[k] == map[k % 2 == 0 ? byte >> 4 : byte & 15] * absmax[k / 64]);
  }
}

TEST_CASE("bitsandbytes: nested absmax is code x absmax + offset, and rows of int8 are q x SCB / 127") {
  const std::vector<float> nested = Values(Nested(), HfQuantization::kNf4);
  const std::vector<float> map = Uniform(16, 1, 2), codes = Uniform(256, 1, 4), outer = Uniform(1, 0.1F, 3);
  const std::string packed = Counting(kOut * kIn / 2);
  for (std::size_t k = 0; k < nested.size(); ++k) {
    const auto byte = static_cast<unsigned char>(packed[k / 2]);
    volatile const float product = codes[static_cast<unsigned char>(Counting(kBlocks)[k / 64])] * outer[0];  // rounded before the sum
    REQUIRE(nested[k] == map[k % 2 == 0 ? byte >> 4 : byte & 15] * (product + 0.25F));
  }
  const std::vector<float> rows = Values(Int8(), HfQuantization::kInt8), scb = Uniform(kOut, 2, 5);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const double exact = static_cast<signed char>(Counting(kOut * kIn)[k]) * static_cast<double>(scb[k / kIn]) / 127;
    REQUIRE(std::abs(rows[k] - exact) <= std::abs(exact) * 0x1p-22);
  }
}

TEST_CASE("bitsandbytes: the shape and the type that packed bytes are stored in do not matter") {
  const std::vector<float> expected = Values(Nf4(), HfQuantization::kNf4);
  SafetensorsWriter flat = Nf4(), wide = Nf4();
  flat.Set(kWeight, "U8", {kOut, kIn / 2}, Counting(kOut * kIn / 2));
  wide.Set(kWeight, "BF16", {kOut * kIn / 4, 1}, Counting(kOut * kIn / 2));
  CHECK(Values(flat, HfQuantization::kNf4) == expected);
  CHECK(Values(wide, HfQuantization::kNf4) == expected);
}

TEST_CASE("bitsandbytes: every part of a state that is missing is named") {
  for (const char* const part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".quant_state.bitsandbytes__nf4"}) {
    SafetensorsWriter file = Nested();
    file.Remove(kWeight + part);
    CHECK(Refused(file).code == Code::HEADER_CORRUPT);
    CHECK(Refused(file).at == kWeight + part);
  }
  SafetensorsWriter bare, rows = Int8();
  bare.Set(kWeight, "U8", {kOut * kIn / 2, 1}, Counting(kOut * kIn / 2));
  CHECK(Refused(bare).at == kWeight + ".quant_state.bitsandbytes__nf4");
  rows.Remove(kModule + ".SCB");
  CHECK(Refused(rows, HfQuantization::kInt8).at == kModule + ".SCB");
}

TEST_CASE("bitsandbytes: a state that does not fit its weight, or that is another's, is refused") {
  const auto refused = [](const SafetensorsWriter& file, Code code, const std::string& at) {
    const Error error = Refused(file);
    CAPTURE(error.Text());
    CHECK(error.code == code);
    CHECK(error.at.starts_with(at));
  };
  const std::string state = kWeight + ".quant_state.bitsandbytes__nf4";
  const auto with = [](const std::string& json) {
    SafetensorsWriter file = Nf4();
    SetState(file, json);
    return file;
  };
  refused(with(State("", "[6, 64]")), Code::HEADER_CORRUPT, state);  // of another weight
  refused(with(State("", "[576]")), Code::HEADER_CORRUPT, state);
  refused(with(State("", "[9007199254740991, 9007199254740991]")), Code::HEADER_CORRUPT, state);
  refused(with(State("", "[12, 48]")), Code::FORMAT_UNSUPPORTED, state);  // rows that end inside 32 elements
  refused(with(State(R"(, "axis": 0)")), Code::FORMAT_UNSUPPORTED, state);
  refused(with(R"({"quant_type": "fp4", "blocksize": 64, "dtype": "float16", "shape": [6, 96]})"), Code::FORMAT_UNSUPPORTED, state);
  refused(with(R"({"quant_type": "nf4", "blocksize": 48, "dtype": "float16", "shape": [6, 96]})"), Code::HEADER_CORRUPT, state);
  refused(with(R"({"quant_type": "nf4", "blocksize": 32, "dtype": "float16", "shape": [6, 96]})"), Code::HEADER_CORRUPT,
          kWeight + ".absmax");
  refused(with("no json"), Code::SYNTAX, state);
  SafetensorsWriter file = Nf4();
  file.SetF32(kWeight + ".quant_map", {8}, Uniform(8, 1, 2));
  refused(file, Code::HEADER_CORRUPT, kWeight + ".quant_map");
  file = Nf4();
  file.Set(kWeight + ".absmax", "F16", {kBlocks}, Counting(2 * kBlocks));
  refused(file, Code::HEADER_CORRUPT, kWeight + ".absmax");
  file = Nf4();
  file.Fill(kWeight + ".absmax", {kBlocks}, std::numeric_limits<float>::infinity());
  refused(file, Code::NOT_FINITE, kWeight + ".absmax");
  file = Nf4();
  file.Rename(state, kWeight + ".quant_state.bitsandbytes__fp4");
  refused(file, Code::FORMAT_UNSUPPORTED, kWeight + ".quant_state.bitsandbytes__fp4");
}

TEST_CASE("bitsandbytes: rows of int8 in a tiled order, of another type or with another number of scales are refused") {
  SafetensorsWriter file = Int8();
  file.Set(kModule + ".weight_format", "U8", {1}, std::string(1, '\2'));
  CHECK(Refused(file, HfQuantization::kInt8).code == Code::FORMAT_UNSUPPORTED);
  CHECK(Refused(file, HfQuantization::kInt8).at == kModule + ".weight_format");
  file = Int8();
  file.SetF32(kModule + ".SCB", {kOut - 1}, Uniform(kOut - 1, 2, 5));
  CHECK(Refused(file, HfQuantization::kInt8).at == kModule + ".SCB");
  file = Int8();
  file.Set(kWeight, "U8", {kOut, kIn}, Counting(kOut * kIn));
  CHECK(Refused(file, HfQuantization::kInt8).at == kWeight);
  file = Int8();
  file.Remove(kModule + ".weight_format");  // newer files leave it out
  CHECK(Values(file, HfQuantization::kInt8) == Values(Int8(), HfQuantization::kInt8));
}

TEST_CASE("bitsandbytes: tensors that are not quantized stay as they are") {
  SafetensorsWriter file = Nf4();
  file.Fill("model.norm.weight", {96}, 1);
  const std::string bytes = file.Bytes();
  const auto joined = Join(bytes, HfQuantization::kNf4);
  REQUIRE(joined.has_value());
  REQUIRE(joined->size() == 2);
  CHECK((*joined)[1].view.name == "model.norm.weight");
  CHECK((*joined)[1].scales == nullptr);
}

}  // namespace
}  // namespace veneer
