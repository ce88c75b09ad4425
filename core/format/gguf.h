// GGUF v2 and v3: header, key-values and tensor table over bytes that the caller keeps alive (normally a mapping).
#ifndef VENEER_CORE_FORMAT_GGUF_H_
#define VENEER_CORE_FORMAT_GGUF_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/format/tensor_file.h"

namespace veneer {

enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

std::string_view NameOf(GgufType type);  // "u32"

// The number ggml gives a type in files, for types a GGUF can hold (not NF4 and the like).
std::optional<std::uint32_t> GgmlTypeId(DType dtype);

struct GgufValue {
  std::string key;
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // of an array
  std::uint64_t count = 1;                // elements of an array
  std::span<const std::byte> payload;     // the value's bytes: a number, a string with its length, or the array's elements
  std::span<const std::byte> record;      // the whole key-value record, key included
};

class GgufFile {
 public:
  // Keeps views into `bytes`. E402 header, E403 tensor bounds, E410 big-endian, E401 type or version that is not read.
  // Every number is checked before it is used: what Parse returns needs no further bounds check.
  static Result<GgufFile> Parse(std::span<const std::byte> bytes);

  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] const std::vector<GgufValue>& values() const { return values_; }
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] const GgufValue* Find(std::string_view key) const;
  [[nodiscard]] const TensorView* FindTensor(std::string_view name) const;

  // Typed access. Missing key: E203; another type: E204; both name the key.
  [[nodiscard]] Result<std::uint64_t> U64(std::string_view key) const;  // any unsigned or non-negative integer type
  [[nodiscard]] Result<double> F64(std::string_view key) const;         // F32 or F64, finite
  [[nodiscard]] Result<bool> Bool(std::string_view key) const;
  [[nodiscard]] Result<std::string> String(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::string_view>> Strings(std::string_view key) const;  // views into the file
  [[nodiscard]] Result<std::vector<float>> F32s(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::int32_t>> I32s(std::string_view key) const;  // any integer type, values that fit

 private:
  friend class GgufParser;
  std::uint32_t version_ = 0;
  std::vector<GgufValue> values_;                                    // file order
  std::vector<TensorView> tensors_;                                  // file order
  std::unordered_map<std::string_view, std::uint32_t> value_index_;  // keys are views into the file
  std::unordered_map<std::string_view, std::uint32_t> tensor_index_;
};

}  // namespace veneer

#endif  // VENEER_CORE_FORMAT_GGUF_H_
