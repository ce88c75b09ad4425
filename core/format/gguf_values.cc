// Typed access to the key-values of a GGUF. The parser has checked that every payload is whole.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/base/bytes.h"
#include "core/format/gguf.h"

namespace veneer {
namespace {

std::unexpected<Error> WrongType(const GgufValue& value, std::string_view wanted) {
  const std::string found =
      value.type == GgufType::kArray ? fmt::format("an array of {}", NameOf(value.element_type)) : std::string(NameOf(value.type));
  return Fail(Code::FIELD_TYPE, value.key, fmt::format("found {}, must be {}", found, wanted));
}

template <class T>
T Load(std::span<const std::byte> bytes, std::uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Calls use(integer) with element `index` of the payload in its own type; false when `type` is no integer type.
template <class Use>
bool VisitInteger(GgufType type, std::span<const std::byte> payload, std::uint64_t index, Use use) {
  switch (type) {
    case GgufType::kU8:
      use(Load<std::uint8_t>(payload, index));
      return true;
    case GgufType::kI8:
      use(Load<std::int8_t>(payload, index));
      return true;
    case GgufType::kU16:
      use(Load<std::uint16_t>(payload, index));
      return true;
    case GgufType::kI16:
      use(Load<std::int16_t>(payload, index));
      return true;
    case GgufType::kU32:
      use(Load<std::uint32_t>(payload, index));
      return true;
    case GgufType::kI32:
      use(Load<std::int32_t>(payload, index));
      return true;
    case GgufType::kU64:
      use(Load<std::uint64_t>(payload, index));
      return true;
    case GgufType::kI64:
      use(Load<std::int64_t>(payload, index));
      return true;
    default:
      return false;
  }
}

Result<const GgufValue*> Required(const GgufFile& file, std::string_view key) {
  const GgufValue* const value = file.Find(key);
  if (value == nullptr) return Fail(Code::FIELD_MISSING, std::string(key), "the key is missing from the file's metadata");
  return value;
}

}  // namespace

std::string_view NameOf(GgufType type) {
  switch (type) {
    case GgufType::kU8:
      return "u8";
    case GgufType::kI8:
      return "i8";
    case GgufType::kU16:
      return "u16";
    case GgufType::kI16:
      return "i16";
    case GgufType::kU32:
      return "u32";
    case GgufType::kI32:
      return "i32";
    case GgufType::kF32:
      return "f32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kU64:
      return "u64";
    case GgufType::kI64:
      return "i64";
    case GgufType::kF64:
      return "f64";
  }
  return "unknown";
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = value_index_.find(key);
  return found == value_index_.end() ? nullptr : &values_[found->second];
}

const TensorView* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<std::uint64_t> GgufFile::U64(std::string_view key) const {
  VENEER_ASSIGN(const GgufValue* const value, Required(*this, key));
  std::optional<std::uint64_t> number;
  const bool is_integer = VisitInteger(value->type, value->payload, 0, [&](auto integer) {
    if (std::in_range<std::uint64_t>(integer)) number = static_cast<std::uint64_t>(integer);
  });
  if (!is_integer) return WrongType(*value, "an integer");
  if (!number) return Fail(Code::FIELD_TYPE, value->key, "found a negative number, must be 0 or more");
  return *number;
}

Result<double> GgufFile::F64(std::string_view key) const {
  VENEER_ASSIGN(const GgufValue* const value, Required(*this, key));
  if (value->type != GgufType::kF32 && value->type != GgufType::kF64) return WrongType(*value, "f32 or f64");
  const double number = value->type == GgufType::kF32 ? double{Load<float>(value->payload, 0)} : Load<double>(value->payload, 0);
  if (!std::isfinite(number)) return Fail(Code::NOT_FINITE, value->key, fmt::format("found {}, must be finite", number));
  return number;
}

Result<bool> GgufFile::Bool(std::string_view key) const {
  VENEER_ASSIGN(const GgufValue* const value, Required(*this, key));
  if (value->type != GgufType::kBool) return WrongType(*value, "bool");
  const auto byte = Load<std::uint8_t>(value->payload, 0);
  if (byte > 1) return Fail(Code::HEADER_CORRUPT, value->key, fmt::format("found {}, a bool is 0 or 1", byte));
  return byte == 1;
}

Result<std::string> GgufFile::String(std::string_view key) const {
  VENEER_ASSIGN(const GgufValue* const value, Required(*this, key));
  if (value->type != GgufType::kString) return WrongType(*value, "a string");
  return std::string(AsText(value->payload.subspan(sizeof(std::uint64_t))));
}

Result<std::vector<std::string_view>> GgufFile::Strings(std::string_view key) const {
  VENEER_ASSIGN(const GgufValue* const value, Required(*this, key));
  if (value->type != GgufType::kArray || value->element_type != GgufType::kString) return WrongType(*value, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  ByteReader reader(value->payload);
  for (std::uint64_t i = 0; i < value->count; ++i) strings.push_back(*reader.TakeText(*reader.Read<std::uint64_t>()));
  return strings;
}

Result<std::vector<float>> GgufFile::F32s(std::string_view key) const {
  VENEER_ASSIGN(const GgufValue* const value, Required(*this, key));
  if (value->type != GgufType::kArray || value->element_type != GgufType::kF32) return WrongType(*value, "an array of f32");
  std::vector<float> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->payload.data(), value->payload.size());
  return numbers;
}

Result<std::vector<std::int32_t>> GgufFile::I32s(std::string_view key) const {
  VENEER_ASSIGN(const GgufValue* const value, Required(*this, key));
  if (value->type != GgufType::kArray) return WrongType(*value, "an array of integers");
  std::vector<std::int32_t> numbers;
  numbers.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const bool is_integer = VisitInteger(value->element_type, value->payload, i, [&](auto integer) {
      if (std::in_range<std::int32_t>(integer)) numbers.push_back(static_cast<std::int32_t>(integer));
    });
    if (!is_integer) return WrongType(*value, "an array of integers");
    if (numbers.size() != i + 1) return Fail(Code::FIELD_TYPE, value->key, fmt::format("element {} does not fit 32 bits", i));
  }
  return numbers;
}

}  // namespace veneer
