#include "core/format/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/format/json.h"

namespace veneer {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 16ull << 20;
constexpr std::uint64_t kMaxTensors = 65'536;
constexpr std::size_t kMaxDims = 8;
// Header, entry, its two arrays: depth 3. Items: per tensor an entry, its three members, two offsets and some dimensions.
constexpr JsonLimits kHeaderLimits = {.bytes = kMaxHeaderBytes, .depth = 3, .items = kMaxTensors * 9};

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr std::array kTypes = {
    NamedType{"F32", VNR_F32}, NamedType{"F16", VNR_F16}, NamedType{"BF16", VNR_BF16}, NamedType{"F64", VNR_F64}, NamedType{"I8", VNR_I8},
    NamedType{"I16", VNR_I16}, NamedType{"I32", VNR_I32}, NamedType{"I64", VNR_I64},   NamedType{"U8", VNR_U8},   NamedType{"U16", VNR_U16},
    NamedType{"U32", VNR_U32}, NamedType{"U64", VNR_U64}, NamedType{"BOOL", VNR_BOOL},
};

// What a file whose first eight bytes cannot be a header length is instead, if it is something people mistake for one.
Status RefuseForeignFormat(std::span<const std::byte> bytes) {
  const std::string_view start = AsText(bytes.first(std::min<std::size_t>(bytes.size(), 8)));
  if (start.starts_with("PK\x03\x04"))
    return Fail(Code::FORMAT_UNSUPPORTED, "magic",
                "a zip archive, as torch.save writes it with a pickle inside; pickle files run code when read and are refused, "
                "save the adapter as safetensors");
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return Fail(Code::FORMAT_UNSUPPORTED, "magic",
                "a pickle; pickle files run code when read and are refused, save the adapter as safetensors");
  if (start.starts_with("GGUF")) return Fail(Code::FORMAT_UNSUPPORTED, "magic", "a GGUF file where safetensors is expected");
  return {};
}

std::unexpected<Error> BadHeader(std::string_view at, std::string detail) {
  return Fail(Code::HEADER_CORRUPT, fmt::format("header{}", at), std::move(detail));
}

Result<Json> ReadHeader(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto size = reader.Read<std::uint64_t>();
  if (!size || *size > kMaxHeaderBytes || *size > reader.remaining()) {
    VENEER_TRY(RefuseForeignFormat(bytes));
    if (!size) return BadHeader("", fmt::format("{} bytes are too few for a safetensors file", bytes.size()));
    return BadHeader("", fmt::format("its length is given as {}, at most {} and what the file holds ({}) is read", *size, kMaxHeaderBytes,
                                     reader.remaining()));
  }
  const std::string_view text = *reader.TakeText(*size);
  if (!text.starts_with('{')) return BadHeader("", "does not begin with '{'");
  if (text[text.find_last_not_of(' ')] != '}') return BadHeader("", "does not end with '}' and blanks");
  auto header = ParseJson(text, kHeaderLimits);
  if (header || header.error().code == Code::DUPLICATE_KEY) return header;
  return BadHeader(header.error().at, fmt::format("{} ({})", header.error().detail, CodeName(header.error().code)));
}

Status ReadMetadata(const Json& json, SafetensorsFile& file) {
  if (!json.is_object()) return BadHeader(json.at, "must be an object of strings");
  for (const auto& [key, value] : json.members) {
    if (!value.is_string()) return BadHeader(value.at, "must be a string");
    file.metadata.emplace_back(key, value.text);
  }
  return {};
}

Result<DType> ReadType(const Json& json, const std::string& name) {
  if (!json.is_string()) return BadHeader(json.at, "must be a string");
  const auto* const type = std::ranges::find(kTypes, json.text, &NamedType::name);
  if (type == kTypes.end())
    return Fail(Code::FORMAT_UNSUPPORTED, name,
                fmt::format("dtype {} is not read; convert the tensor to F32, F16 or BF16", JsonQuote(json.text)));
  return type->dtype;
}

Result<std::vector<std::uint64_t>> ReadNumbers(const Json& json, std::size_t max_count) {
  if (!json.is_array()) return BadHeader(json.at, "must be an array of whole numbers");
  if (json.elements.size() > max_count)
    return BadHeader(json.at, fmt::format("{} numbers, at most {} are allowed", json.elements.size(), max_count));
  std::vector<std::uint64_t> numbers;
  for (const Json& element : json.elements) {
    const auto number = element.U64();
    if (!number) return BadHeader(element.at, number.error().detail);
    numbers.push_back(*number);
  }
  return numbers;
}

struct Entry {
  TensorView tensor;
  std::uint64_t begin = 0, end = 0;  // of its bytes, relative to the data
};

Result<Entry> ReadEntry(const std::string& name, const Json& json) {
  if (name.empty()) return BadHeader(json.at, "a tensor has no name");
  if (!json.is_object() || json.members.size() != 3) return BadHeader(json.at, "must be an object of dtype, shape and data_offsets");
  for (const char* const key : {"dtype", "shape", "data_offsets"})
    if (json.Find(key) == nullptr) return BadHeader(json.at, fmt::format("the member \"{}\" is missing", key));
  Entry entry;
  entry.tensor.name = name;
  VENEER_ASSIGN(entry.tensor.dtype, ReadType(*json.Find("dtype"), name));
  VENEER_ASSIGN(entry.tensor.shape, ReadNumbers(*json.Find("shape"), kMaxDims));
  VENEER_ASSIGN(const auto offsets, ReadNumbers(*json.Find("data_offsets"), 2));
  if (offsets.size() != 2) return BadHeader(json.Find("data_offsets")->at, "must be [begin, end]");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const auto elements = CheckedProduct(entry.tensor.shape);  // sees an overflow also beside a zero
  const auto size = elements ? CheckedMul(*elements, InfoOf(entry.tensor.dtype).block_bytes) : std::nullopt;
  if (!size) return Fail(Code::TENSOR_BOUNDS, name, fmt::format("the shape {} overflows", ShapeText(entry.tensor.shape)));
  if (entry.end < entry.begin || entry.end - entry.begin != *size)
    return Fail(Code::TENSOR_BOUNDS, name,
                fmt::format("data_offsets [{}, {}] do not hold the {} bytes of {} {}", entry.begin, entry.end, *size,
                            InfoOf(entry.tensor.dtype).name, ShapeText(entry.tensor.shape)));
  return entry;
}

// Gives each tensor its bytes. Ordered by offset the tensors must cover the data without hole, overlap or rest.
Status Place(std::vector<Entry>& entries, std::span<const std::byte> data) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  std::uint64_t covered = 0;
  for (Entry& entry : entries) {
    if (entry.begin != covered)
      return Fail(Code::TENSOR_BOUNDS, entry.tensor.name,
                  fmt::format("its data begins at {}, the tensors before it end at {}: {}", entry.begin, covered,
                              entry.begin < covered ? "they overlap" : "a hole"));
    if (entry.end > data.size())
      return Fail(Code::TENSOR_BOUNDS, entry.tensor.name,
                  fmt::format("its data ends at {}, the file has {} bytes of data; it is cut off, fetch it again", entry.end, data.size()));
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    covered = entry.end;
  }
  if (covered != data.size())
    return Fail(Code::TENSOR_BOUNDS, "data", fmt::format("{} bytes follow the last tensor, none may", data.size() - covered));
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Parse(std::span<const std::byte> bytes) {
  VENEER_ASSIGN(const Json header, ReadHeader(bytes));
  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.members) {
    if (name == "__metadata__") {
      VENEER_TRY(ReadMetadata(value, file));
      continue;
    }
    if (entries.size() == kMaxTensors) return BadHeader("", fmt::format("more than {} tensors", kMaxTensors));
    VENEER_ASSIGN(Entry entry, ReadEntry(name, value));
    entries.push_back(std::move(entry));
  }
  std::uint64_t header_bytes = 0;
  std::ranges::copy(bytes.first(sizeof header_bytes), std::as_writable_bytes(std::span(&header_bytes, 1)).begin());
  VENEER_TRY(Place(entries, bytes.subspan(sizeof header_bytes + header_bytes)));
  for (Entry& entry : entries) file.tensors.push_back(std::move(entry.tensor));
  std::ranges::sort(file.tensors, {}, &TensorView::name);
  return file;
}

std::string_view SafetensorsName(DType dtype) {
  const auto found = std::ranges::find(kTypes, dtype, &NamedType::dtype);
  return found == kTypes.end() ? std::string_view() : found->name;
}

}  // namespace veneer
