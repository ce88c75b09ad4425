// Damaged copies of real files. Whatever the bytes say, the answer is a file or an error: under a sanitizer this is the proof that
// no reader leaves its buffer.
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "core/format/gguf.h"
#include "core/format/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/tiny_gguf.h"

namespace veneer {
namespace {

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  REQUIRE_FALSE(bytes.empty());
  return bytes;
}

// A heap block of exactly the given size: one byte further is an error that AddressSanitizer sees.
class Exact {
 public:
  explicit Exact(std::string_view bytes) : size_(bytes.size()), data_(std::make_unique<std::byte[]>(bytes.size())) {
    if (size_ != 0) std::memcpy(data_.get(), bytes.data(), size_);
  }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::byte[]> data_;
};

// Touches what a caller may touch after a successful parse.
std::uint64_t Use(const GgufFile& file) {
  std::uint64_t sum = 0;
  for (const GgufValue& value : file.values()) {
    sum += file.U64(value.key).value_or(0);
    sum += static_cast<std::uint64_t>(file.F64(value.key).has_value()) + static_cast<std::uint64_t>(file.Bool(value.key).has_value());
    if (const auto text = file.String(value.key)) sum += text->size();
    if (const auto texts = file.Strings(value.key))
      for (const auto text : *texts) sum += text.size();
    if (const auto numbers = file.F32s(value.key)) sum += numbers->size();
    if (const auto numbers = file.I32s(value.key)) sum += numbers->size();
  }
  for (const TensorView& tensor : file.tensors())
    if (!tensor.bytes.empty()) sum += static_cast<std::uint64_t>(tensor.bytes.front()) + static_cast<std::uint64_t>(tensor.bytes.back());
  return sum;
}

GgufWriter Sample() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama");
  writer.Set("general.alignment", std::uint32_t{32});
  writer.Set("strings", std::vector<std::string>{"a", "bc", ""});
  writer.Set("numbers", std::vector<std::int32_t>{1, 2, 3});
  writer.SetTensor("w", VNR_Q8_0, {2, 64}, std::string(2 * 2 * 34, 'w'));
  writer.SetTensor("v", VNR_F32, {3}, std::string(12, 'v'));
  return writer;
}

TEST_CASE("malformed: a GGUF cut at any length is refused") {
  const std::string whole = Sample().Bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Exact cut(std::string_view(whole).substr(0, size));
    const auto file = GgufFile::Parse(cut.bytes());
    if (file.has_value()) FAIL("length " << size << " of " << whole.size());
  }
}

TEST_CASE("malformed: a GGUF with any single byte replaced is read or refused, never read out of bounds") {
  const std::string whole = Sample().Bytes();
  std::uint64_t sum = 0, refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      const Exact bytes(changed);
      if (const auto file = GgufFile::Parse(bytes.bytes()))
        sum += Use(*file);
      else
        ++refused;
    }
  CHECK(sum > 0);
  CHECK(refused > 500);
}

TEST_CASE("malformed: a real model cut at boundaries and in strides is refused") {
  const std::string whole = Contents(RepoData() / "stories260k/stories260k-q8_0.gguf");
  const auto cut_is_refused = [&whole](std::size_t size) {
    const Exact cut(std::string_view(whole).substr(0, size));
    return !GgufFile::Parse(cut.bytes()).has_value();
  };
  for (std::size_t size = 0; size < 2000; ++size)
    if (!cut_is_refused(size)) FAIL("length " << size);
  for (std::size_t size = 2000; size + 64 < whole.size(); size += 997)
    if (!cut_is_refused(size)) FAIL("length " << size);
  CHECK(cut_is_refused(whole.size() - 64));
  CHECK_FALSE(cut_is_refused(whole.size()));
}

TEST_CASE("malformed: a safetensors file cut at any length or with any byte replaced is never read out of bounds") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  const std::uint64_t size = header.size();
  const std::string whole = std::string(reinterpret_cast<const char*>(&size), 8) + header + "AAAABBBBccc";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Exact cut(std::string_view(whole).substr(0, length));
    if (SafetensorsFile::Parse(cut.bytes()).has_value()) FAIL("length " << length);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (int value = 0; value < 256; value += 3) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      const Exact bytes(changed);
      if (const auto file = SafetensorsFile::Parse(bytes.bytes()))
        for (const TensorView& tensor : file->tensors)
          for (const std::byte byte : tensor.bytes) sum += static_cast<std::uint64_t>(byte);
    }
  CHECK(sum > 0);
}

}  // namespace
}  // namespace veneer
