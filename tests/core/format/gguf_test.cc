#include "core/format/gguf.h"

#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Error ErrorOf(const std::string& bytes) {
  const auto file = GgufFile::Parse(Bytes(bytes));
  REQUIRE_FALSE(file.has_value());
  return file.error();
}
Error ErrorOf(const GgufWriter& writer) { return ErrorOf(writer.Bytes()); }

template <class T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// One F32 tensor "t" of [2, 3] and one key.
GgufWriter Small() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama");
  writer.SetTensor("t", VNR_F32, {2, 3}, std::string(24, 'x'));
  return writer;
}

TEST_CASE("gguf: values and tensors come back as they were written, in file order") {
  GgufWriter writer = Small();
  writer.Set("u32", std::uint32_t{7});
  writer.Set("i32", std::int32_t{-7});
  writer.Set("u64", std::uint64_t{1} << 40);
  writer.Set("f32", 0.5f);
  writer.Set("bool", true);
  writer.Set("strings", std::vector<std::string>{"a", "", "\xE2\x96\x81"});
  writer.Set("floats", std::vector<float>{1.5f, -2});
  writer.Set("ints", std::vector<std::int32_t>{3, -4});
  writer.SetTensor("q", VNR_Q4_0, {5, 64}, std::string(5 * 2 * 18, 'q'));
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(Bytes(bytes));
  if (!file) FAIL(file.error().Text());
  CHECK(file->version() == 3);
  CHECK(file->String("general.architecture").value() == "llama");
  CHECK(file->U64("u32").value() == 7);
  CHECK(file->U64("u64").value() == 1099511627776);
  CHECK(file->U64("i32").error().code == Code::FIELD_TYPE);
  CHECK(file->F64("f32").value() == 0.5);
  CHECK(file->Bool("bool").value());
  CHECK(file->Strings("strings").value() == std::vector<std::string_view>{"a", "", "\xE2\x96\x81"});
  CHECK(file->F32s("floats").value() == std::vector<float>{1.5f, -2});
  CHECK(file->I32s("ints").value() == std::vector<std::int32_t>{3, -4});
  REQUIRE(file->tensors().size() == 2);
  const TensorView& q = *file->FindTensor("q");
  CHECK(&q == &file->tensors()[1]);
  CHECK(q.shape == std::vector<std::uint64_t>{5, 64});
  CHECK(q.elements() == 320);
  CHECK(AsText(q.bytes) == std::string(180, 'q'));
  CHECK(AsText(file->FindTensor("t")->bytes) == std::string(24, 'x'));
  CHECK(file->FindTensor("none") == nullptr);
}

TEST_CASE("gguf: a missing key, another type and a number that is not finite are told apart and named") {
  GgufWriter writer = Small();
  writer.Set("inf", std::numeric_limits<float>::infinity());
  writer.SetRaw("odd", 7, "\x02");
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(Bytes(bytes));
  REQUIRE(file);
  CHECK(file->U64("none").error().code == Code::FIELD_MISSING);
  CHECK(file->U64("none").error().at == "none");
  CHECK(file->U64("general.architecture").error().code == Code::FIELD_TYPE);
  CHECK(file->Strings("general.architecture").error().code == Code::FIELD_TYPE);
  CHECK(file->F64("inf").error().code == Code::NOT_FINITE);
  CHECK(file->Bool("odd").error().code == Code::HEADER_CORRUPT);
}

TEST_CASE("gguf: the record of a value is its key, type and payload as they lie in the file") {
  GgufWriter writer;
  writer.Set("ab", std::uint32_t{258});
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(Bytes(bytes));
  REQUIRE(file);
  CHECK(AsText(file->Find("ab")->record) == Raw(std::uint64_t{2}) + "ab" + Raw(std::uint32_t{4}) + Raw(std::uint32_t{258}));
}

TEST_CASE("gguf: versions 2 and 3 are read; 1, 4 and 0 are refused with their number") {
  GgufWriter writer = Small();
  writer.version = 2;
  CHECK(GgufFile::Parse(Bytes(writer.Bytes())));
  for (const std::uint32_t version : {0u, 1u, 4u}) {
    writer.version = version;
    CHECK(ErrorOf(writer).code == Code::FORMAT_UNSUPPORTED);
    CHECK(ErrorOf(writer).detail.find(std::to_string(version)) != std::string::npos);
  }
}

TEST_CASE("gguf: a big-endian version and a swapped magic are refused as endianness") {
  GgufWriter writer = Small();
  writer.version = 0x03000000;
  CHECK(ErrorOf(writer).code == Code::ENDIANNESS);
  std::string swapped = Small().Bytes();
  swapped.replace(0, 4, "FUGG");
  CHECK(ErrorOf(swapped).code == Code::ENDIANNESS);
}

TEST_CASE("gguf: another magic is refused as another format, an empty file as cut") {
  CHECK(ErrorOf(std::string("ggjt") + std::string(60, '\0')).code == Code::FORMAT_UNSUPPORTED);
  CHECK(ErrorOf(std::string()).code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf(std::string("GG")).code == Code::HEADER_CORRUPT);
}

TEST_CASE("gguf: a header that claims 2^60 tensors or values in a small file is refused at once") {
  const std::string rest(1000, '\0');
  for (const std::uint64_t claim : {std::uint64_t{1} << 60, UINT64_MAX, std::uint64_t{65'537}, std::uint64_t{60'000}}) {
    CHECK(ErrorOf("GGUF" + Raw(3u) + Raw(claim) + Raw(std::uint64_t{0}) + rest).at == "n_tensors");
    CHECK(ErrorOf("GGUF" + Raw(3u) + Raw(std::uint64_t{0}) + Raw(claim) + rest).at == "n_kv");
    CHECK(ErrorOf("GGUF" + Raw(3u) + Raw(claim) + Raw(claim) + rest).code == Code::HEADER_CORRUPT);
  }
}

TEST_CASE("gguf: strings and arrays longer than the file are refused before they are read") {
  GgufWriter writer = Small();
  for (const std::uint64_t size : {std::uint64_t{1} << 40, UINT64_MAX, std::uint64_t{100'000}}) {
    writer.SetRaw("bad", 8, Raw(size) + "abc");
    CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
    writer.SetRaw("bad", 9, Raw(std::uint32_t{8}) + Raw(size) + "abc");
    CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
    writer.SetRaw("bad", 9, Raw(std::uint32_t{10}) + Raw(size) + "abc");
    CHECK(ErrorOf(writer).at == "bad");
  }
}

TEST_CASE("gguf: nested arrays and value types that do not exist are refused") {
  GgufWriter writer = Small();
  writer.SetRaw("bad", 9, Raw(std::uint32_t{9}) + Raw(std::uint64_t{0}));
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  for (const std::uint32_t type : {13u, 255u, UINT32_MAX}) {
    writer.SetRaw("bad", type, "01234567");
    CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
    writer.SetRaw("bad", 9, Raw(type) + Raw(std::uint64_t{1}) + "01234567");
    CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  }
}

TEST_CASE("gguf: repeated, empty and unclean keys and tensor names are refused") {
  const std::string record = Raw(std::uint64_t{1}) + "k" + Raw(std::uint32_t{0}) + "v";
  const std::string head = "GGUF" + Raw(3u) + Raw(std::uint64_t{0});
  const std::string padding(64, '\0');
  CHECK(ErrorOf(head + Raw(std::uint64_t{2}) + record + record + padding).at == "k");
  GgufWriter writer = Small();
  writer.Set("", true);
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  writer.Remove("");
  writer.Set("a\xFF", true);
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string("\xC3"), std::string(64, 'n')}) {
    GgufWriter other = Small();
    other.SetTensor(name, VNR_F32, {1}, "abcd");
    CHECK(ErrorOf(other).code == Code::HEADER_CORRUPT);
  }
  // The same name twice: rename "u" to "t" in the bytes, its table entry is unique.
  GgufWriter twice = Small();
  twice.SetTensor("u", VNR_F32, {1}, "abcd");
  std::string bytes = twice.Bytes();
  const std::string entry = Raw(std::uint64_t{1}) + "u";
  bytes[bytes.find(entry) + 8] = 't';
  CHECK(ErrorOf(bytes).at == "t");
}

TEST_CASE("gguf: a file cut by one byte is refused and the last tensor named, be it in the data or in the padding") {
  const std::string bytes = Small().Bytes();  // 24 bytes of data, padded to 32
  REQUIRE(GgufFile::Parse(Bytes(bytes)));
  for (const std::size_t cut : {1U, 8U, 9U}) {
    CAPTURE(cut);
    const Error error = ErrorOf(bytes.substr(0, bytes.size() - cut));
    CHECK(error.code == Code::TENSOR_BOUNDS);
    CHECK(error.at == "t");
  }
}

TEST_CASE("gguf: tensors that overlap, leave a hole or wrap around are refused") {
  GgufWriter writer = Small();
  writer.SetTensor("u", VNR_F32, {8}, std::string(32, 'u'));
  CHECK(GgufFile::Parse(Bytes(writer.Bytes())));
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{24}, std::uint64_t{64}, UINT64_MAX - 31, UINT64_MAX}) {
    writer.SetOffset("u", offset == UINT64_MAX ? offset - 1 : offset);
    CHECK(ErrorOf(writer).code == Code::TENSOR_BOUNDS);
    CHECK(ErrorOf(writer).at == "u");
  }
}

TEST_CASE("gguf: a product of dimensions that wraps is refused, also beside a zero") {
  const std::vector<std::vector<std::uint64_t>> shapes = {
      {std::uint64_t{1} << 52, 4096},    {std::uint64_t{1} << 62, 4}, {std::uint64_t{1} << 40, std::uint64_t{1} << 40, 0},
      {0, std::uint64_t{1} << 52, 4096}, {std::uint64_t{INT64_MAX}},  {0, std::uint64_t{1} << 62},
      {std::uint64_t{1} << 62}};
  for (const auto& shape : shapes) {
    GgufWriter writer = Small();
    writer.SetTensor("w", VNR_F32, shape, "");
    CHECK(ErrorOf(writer).code == Code::TENSOR_BOUNDS);
    CHECK(ErrorOf(writer).at == "w");
  }
  GgufWriter zero = Small();
  zero.SetTensor("w", VNR_Q4_0, {7, 0}, "");
  const std::string bytes = zero.Bytes();
  const auto file = GgufFile::Parse(Bytes(bytes));
  REQUIRE(file);
  CHECK(file->FindTensor("w")->bytes.empty());
}

TEST_CASE("gguf: sizes whose sum wraps are refused") {
  GgufWriter writer;
  std::uint64_t offset = 0;
  for (const char* const name : {"a", "b", "c", "d", "e"}) {
    writer.SetTensor(name, VNR_I8, {std::uint64_t{1} << 61}, "");
    writer.SetOffset(name, offset);
    offset += std::uint64_t{1} << 61;
  }
  CHECK(ErrorOf(writer).code == Code::TENSOR_BOUNDS);
}

TEST_CASE("gguf: rows that are no multiple of the block, negative and too many dimensions are refused") {
  GgufWriter writer = Small();
  writer.SetTensor("w", VNR_Q4_0, {2, 48}, std::string(54, 'w'));
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  CHECK(ErrorOf(writer).detail.find("48") != std::string::npos);
  writer.SetTensor("w", VNR_F32, {UINT64_MAX}, "");
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  writer.SetTensor("w", VNR_F32, {1, 1, 1, 1, 1}, "abcd");
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
}

TEST_CASE("gguf: types that are not read are refused by name, unknown ones by number") {
  const std::pair<std::uint32_t, const char*> types[] = {{9, "q8_1"},   {15, "q8_k"},  {16, "iq2_xxs"}, {29, "iq1_m"},
                                                         {34, "tq1_0"}, {39, "mxfp4"}, {4, "4"},        {1000, "1000"}};
  for (const auto& [type, name] : types) {
    GgufWriter writer = Small();
    writer.SetTensorRaw("w", type, {256}, std::string(512, 'w'));
    CHECK(ErrorOf(writer).code == Code::FORMAT_UNSUPPORTED);
    CHECK(ErrorOf(writer).at == "w");
    CHECK(ErrorOf(writer).detail.find(name) != std::string::npos);
  }
}

TEST_CASE("gguf: every readable type has ggml's block size") {
  // Elements and bytes of a block as ggml-common.h defines them.
  const std::tuple<std::uint32_t, std::uint64_t, std::size_t> types[] = {
      {VNR_F32, 1, 4},      {VNR_F16, 1, 2},      {VNR_BF16, 1, 2},     {VNR_F64, 1, 8},     {VNR_I8, 1, 1},
      {VNR_I16, 1, 2},      {VNR_I32, 1, 4},      {VNR_I64, 1, 8},      {VNR_Q4_0, 32, 18},  {VNR_Q4_1, 32, 20},
      {VNR_Q5_0, 32, 22},   {VNR_Q5_1, 32, 24},   {VNR_Q8_0, 32, 34},   {VNR_Q2_K, 256, 84}, {VNR_Q3_K, 256, 110},
      {VNR_Q4_K, 256, 144}, {VNR_Q5_K, 256, 176}, {VNR_Q6_K, 256, 210}, {VNR_IQ4_NL, 32, 18}};
  for (const auto& [type, elements, size] : types) {
    GgufWriter writer;
    writer.SetTensor("w", type, {3, elements * 2}, std::string(3 * 2 * size, 'w'));
    const std::string bytes = writer.Bytes();
    const auto file = GgufFile::Parse(Bytes(bytes));
    if (!file) FAIL(file.error().Text());
    CHECK(file->tensors()[0].dtype == type);
    CHECK(file->tensors()[0].bytes.size() == 6 * size);
  }
}

TEST_CASE("gguf: general.alignment moves the data; one that is no power of two of at least 8 is refused") {
  GgufWriter writer = Small();
  writer.alignment = 128;
  writer.Set("general.alignment", std::uint32_t{128});
  writer.SetTensor("u", VNR_F32, {1}, "abcd");
  const std::string bytes = writer.Bytes();
  const auto file = GgufFile::Parse(Bytes(bytes));
  REQUIRE(file);
  CHECK(AsText(file->FindTensor("u")->bytes) == "abcd");
  for (const std::uint32_t bad : {0u, 1u, 4u, 12u, 48u}) {
    writer.Set("general.alignment", bad);
    CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
  }
  writer.Set("general.alignment", std::uint64_t{32});
  CHECK(ErrorOf(writer).code == Code::HEADER_CORRUPT);
}

TEST_CASE("gguf: names with the longest allowed length and 60,000 tensors are read in linear time") {
  GgufWriter writer;
  writer.SetTensor(std::string(63, 'n'), VNR_F32, {1}, "abcd");
  CHECK(GgufFile::Parse(Bytes(writer.Bytes())));
  std::string head = "GGUF" + Raw(3u) + Raw(std::uint64_t{60'000}) + Raw(std::uint64_t{0});
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    const std::string name = std::string("t").append(std::to_string(i));
    head += Raw(std::uint64_t{name.size()}) + name + Raw(1u) + Raw(std::uint64_t{1}) + Raw(0u) + Raw(i * 32);
  }
  head.append(32 - head.size() % 32 + 60'000 * 32, '\0');
  CHECK(GgufFile::Parse(Bytes(head)).value().tensors().size() == 60'000);
}

}  // namespace
}  // namespace veneer
