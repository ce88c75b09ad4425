#include "core/format/safetensors.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "tests/support/catch.h"

namespace veneer {
namespace {

std::string File(const std::string& header, const std::string& data, std::int64_t length_error = 0) {
  const std::uint64_t size = header.size() + static_cast<std::uint64_t>(length_error);
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}
auto Parse(const std::string& bytes) { return SafetensorsFile::Parse(std::as_bytes(std::span(bytes))); }
Error ErrorOf(const std::string& bytes) {
  const auto file = Parse(bytes);
  REQUIRE_FALSE(file.has_value());
  return file.error();
}
std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

TEST_CASE("safetensors: tensors come back sorted by name with their bytes, metadata in order") {
  const std::string header = R"({"__metadata__":{"format":"pt","a":"b"},"z":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)" +
                             Entry("b", "BF16", "3", "8,14") + "," + Entry("empty", "F16", "0,5", "14,14") + "," +
                             Entry("scalar", "U8", "", "14,15") + "}   ";
  const std::string bytes = File(header, "AAAABBBBccddeeS");
  const auto file = Parse(bytes);
  if (!file) FAIL(file.error().Text());
  REQUIRE(file->tensors.size() == 4);
  CHECK(file->tensors[0].name == "b");
  CHECK(file->tensors[0].dtype == VNR_BF16);
  CHECK(AsText(file->tensors[0].bytes) == "ccddee");
  CHECK(file->tensors[1].bytes.empty());
  CHECK(file->tensors[2].shape.empty());
  CHECK(file->tensors[2].elements() == 1);
  CHECK(AsText(file->tensors[3].bytes) == "AAAABBBB");
  CHECK(file->tensors[3].shape == std::vector<std::uint64_t>{1, 2});
  CHECK(file->metadata == std::vector<std::pair<std::string, std::string>>{{"format", "pt"}, {"a", "b"}});
}

TEST_CASE("safetensors: a header length of 2^63, above the file or above 16 MiB is refused before anything is read") {
  const std::string good = "{" + Entry("a", "U8", "1", "0,1") + "}";
  CHECK(Parse(File(good, "x")));
  CHECK(ErrorOf(File(good, "x", INT64_MIN)).code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf(File(good, "x", 2)).code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf(File(good, std::string(17 << 20, 'x'), (16 << 20) + 1)).code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf("1234567").code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf("").code == Code::HEADER_CORRUPT);
}

TEST_CASE("safetensors: a header that is no clean JSON object is refused") {
  const std::string entry = Entry("a", "U8", "1", "0,1");
  for (const std::string& header : std::vector<std::string>{
           "", std::string("[]"), " {" + entry + "}", "{" + entry + "}\n", "{" + entry, "{" + entry + "}}", "{\"a\":1}", "{\"a\":[]}",
           "{\"\":" + entry.substr(4) + "}", std::string(1000, '{'), "{\"a\":{\"dtype\":\"U8\",\"shape\":[[1]],\"data_offsets\":[0,1]}}"})
    CHECK(ErrorOf(File(header, "x")).code == Code::HEADER_CORRUPT);
}

TEST_CASE("safetensors: an entry with missing, extra or mistyped members is refused") {
  for (const char* const entry :
       {R"({"dtype":"U8","shape":[1]})", R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]})",
        R"({"dtype":"U8","shape":[1],"offsets":[0,1]})", R"({"dtype":1,"shape":[1],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})", R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})",
        R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", R"({"dtype":"U8","shape":[1],"data_offsets":[0]})",
        R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})", R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})"})
    CHECK(ErrorOf(File(std::string("{\"a\":") + entry + "}", "x")).code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf(File(R"({"__metadata__":{"rank":8}})", "")).code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf(File(R"({"__metadata__":[]})", "")).code == Code::HEADER_CORRUPT);
}

TEST_CASE("safetensors: a tensor named twice is refused, also by an escaped name or without bytes") {
  CHECK(ErrorOf(File("{" + Entry("a", "U8", "1", "0,1") + "," + Entry("a", "U8", "1", "0,1") + "}", "x")).code == Code::DUPLICATE_KEY);
  CHECK(ErrorOf(File("{" + Entry("a", "U8", "1", "0,1") + "," + Entry("\\u0061", "U8", "0", "1,1") + "}", "x")).code ==
        Code::DUPLICATE_KEY);
}

TEST_CASE("safetensors: overlap, holes, trailing bytes and tensors beyond the file are refused") {
  const auto two = [](const char* first, const char* second) {
    return "{" + Entry("a", "U8", "2", first) + "," + Entry("b", "U8", "2", second) + "}";
  };
  CHECK(Parse(File(two("2,4", "0,2"), "abcd")));
  CHECK(ErrorOf(File(two("0,2", "0,2"), "ab")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File(two("0,2", "1,3"), "abc")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File(two("0,2", "3,5"), "abcde")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File(two("1,3", "3,5"), "abcde")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File(two("0,2", "2,4"), "abcde")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File(two("0,2", "2,4"), "abc")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File(two("0,2", "2,4"), "abc")).at == "b");
  CHECK(ErrorOf(File("{}", "x")).code == Code::TENSOR_BOUNDS);
}

TEST_CASE("safetensors: offsets must hold exactly shape times element size, and a wrapping shape is refused beside a zero") {
  CHECK(ErrorOf(File("{" + Entry("a", "F32", "1", "0,3") + "}", "abc")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File("{" + Entry("a", "F32", "1", "4,0") + "}", "abcd")).code == Code::TENSOR_BOUNDS);
  const std::string big = "4503599627370496,8192";  // 2^52 * 2^13
  CHECK(ErrorOf(File("{" + Entry("a", "F32", big, "0,0") + "}", "")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File("{" + Entry("a", "F32", "0," + big, "0,0") + "}", "")).code == Code::TENSOR_BOUNDS);
  CHECK(ErrorOf(File("{" + Entry("a", "F64", "4503599627370496,512", "0,0") + "}", "")).code == Code::TENSOR_BOUNDS);
}

TEST_CASE("safetensors: dtypes that are not read are refused by name") {
  for (const std::string dtype : {"F8_E4M3", "F4", "C64", "f32", "Q4"}) {
    const Error error = ErrorOf(File("{" + Entry("a", dtype, "1", "0,1") + "}", "x"));
    CHECK(error.code == Code::FORMAT_UNSUPPORTED);
    CHECK(error.detail.find(dtype) != std::string::npos);
  }
}

TEST_CASE("safetensors: pickle, zip and GGUF files are refused by name; a header of 640 bytes is no pickle") {
  CHECK(ErrorOf("\x80\x02}q\x01X\x05\x00\x00\x00layer").code == Code::FORMAT_UNSUPPORTED);
  CHECK(ErrorOf(std::string("\x80\x04\x95") + std::string(20, 'a')).detail.find("pickle") != std::string::npos);
  CHECK(ErrorOf(std::string("PK\x03\x04") + std::string(20, 'a')).detail.find("pickle") != std::string::npos);
  CHECK(ErrorOf(std::string("GGUF\x03\x00\x00\x00", 8) + std::string(20, 'a')).detail.find("GGUF") != std::string::npos);
  std::string header = "{" + Entry("a", "U8", "1", "0,1") + "}";
  header.resize(0x280, ' ');
  CHECK(Parse(File(header, "x")));
}

TEST_CASE("safetensors: 70,000 tensors or as many numbers as the header can hold are refused, not stored") {
  std::string header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[0";
  for (int i = 0; i < 2'000'000; ++i) header += ",0";
  CHECK(ErrorOf(File(header + "],\"data_offsets\":[0,0]}}", "")).code == Code::HEADER_CORRUPT);
  std::string many = "{\"x\":{}";
  for (int i = 0; i < 70'000; ++i) many += "," + Entry("t" + std::to_string(i), "U8", "0", "0,0");
  CHECK(ErrorOf(File(many + "}", "")).code == Code::HEADER_CORRUPT);
}

}  // namespace
}  // namespace veneer
