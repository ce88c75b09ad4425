#include "core/format/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/base/file.h"

namespace veneer {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};  // magic and version 1.0
constexpr std::size_t kHeaderAlignment = 64;                // of the data, by the format's rule

std::string Header(std::uint64_t rows, std::uint64_t cols) {
  std::string dictionary = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  const std::size_t unpadded = kMagic.size() + 2 + dictionary.size() + 1;
  dictionary.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  dictionary += '\n';
  const auto size = static_cast<std::uint16_t>(dictionary.size());
  std::string header(kMagic);
  header += static_cast<char>(size & 0xFF);
  header += static_cast<char>(size >> 8);
  return header + dictionary;
}

// Takes `expected` off the front of text.
bool Skip(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

std::optional<std::uint64_t> TakeNumber(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

}  // namespace

Result<NpyWriter> NpyWriter::Create(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t cols) {
  const auto values = CheckedMul(rows, cols);
  if (!values) return Fail(Code::SHAPE_MISMATCH, path.string(), fmt::format("[{}, {}] overflows", rows, cols));
  VENEER_ASSIGN(OutputFile file, OutputFile::Create(path));
  const std::string header = Header(rows, cols);
  VENEER_TRY(file.Write(std::as_bytes(std::span(header))));
  return NpyWriter(std::move(file), *values);
}

Status NpyWriter::Append(std::span<const float> values) {
  if (values.size() > values_left_)
    return Fail(Code::INTERNAL, file_.path().string(), fmt::format("{} values more than the shape holds", values.size() - values_left_));
  values_left_ -= values.size();
  return file_.Write(std::as_bytes(values));
}

Status NpyWriter::Finish() {
  if (values_left_ != 0) return Fail(Code::INTERNAL, file_.path().string(), fmt::format("{} values are missing", values_left_));
  return file_.Finish();
}

Status WriteNpy(const std::filesystem::path& path, std::uint64_t rows, std::uint64_t cols, std::span<const float> values) {
  VENEER_ASSIGN(NpyWriter writer, NpyWriter::Create(path, rows, cols));
  VENEER_TRY(writer.Append(values));
  return writer.Finish();
}

Result<NpyMatrix> ReadNpy(const std::filesystem::path& path, std::uint64_t limit) {
  VENEER_ASSIGN(const std::string bytes, ReadText(path, limit));
  ByteReader reader(std::as_bytes(std::span(bytes)));
  if (reader.TakeText(kMagic.size()) != kMagic) return Fail(Code::FORMAT_UNSUPPORTED, path.string(), "not an NPY file of version 1.0");
  const auto header_size = reader.Read<std::uint16_t>();
  const auto header = header_size ? reader.TakeText(*header_size) : std::nullopt;
  if (!header) return Fail(Code::HEADER_CORRUPT, path.string(), "the file ends inside its header");
  std::string_view text = *header;
  if (!Skip(text, "{'descr': '<f4', 'fortran_order': False, 'shape': ("))
    return Fail(Code::FORMAT_UNSUPPORTED, path.string(), fmt::format("header {}; only f32 little-endian in C order is read", *header));
  NpyMatrix matrix;
  const auto rows = TakeNumber(text);
  const bool comma = Skip(text, ", ");
  const auto cols = TakeNumber(text);
  if (!rows || !comma || !cols || !Skip(text, "), }"))
    return Fail(Code::FORMAT_UNSUPPORTED, path.string(), fmt::format("header {}; only two dimensions are read", *header));
  const auto values = CheckedMul(*rows, *cols);
  const auto size = values ? CheckedMul(*values, sizeof(float)) : std::nullopt;
  if (!size || *size != reader.remaining())
    return Fail(Code::HEADER_CORRUPT, path.string(),
                fmt::format("[{}, {}] does not fit the {} bytes of data", *rows, *cols, reader.remaining()));
  matrix.rows = *rows;
  matrix.cols = *cols;
  matrix.values.resize(*values);
  if (*values != 0) std::memcpy(matrix.values.data(), reader.Take(*size)->data(), *size);
  return matrix;
}

}  // namespace veneer
