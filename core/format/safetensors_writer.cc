#include "core/format/safetensors_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>

#include "core/base/bytes.h"
#include "core/format/json.h"

namespace veneer {
namespace {

// By VNR_* value.
constexpr std::array<std::string_view, 13> kNames = {"F32", "F16", "BF16", "F64", "I8",  "I16", "I32",
                                                     "I64", "U8",  "U16",  "U32", "U64", "BOOL"};

}  // namespace

Result<std::string> WriteSafetensors(std::span<const TensorView> tensors) {
  std::string header = "{";
  std::uint64_t begin = 0;
  for (const TensorView& tensor : tensors) {
    if (tensor.dtype >= kNames.size())
      return Fail(Code::FORMAT_UNSUPPORTED, tensor.name, fmt::format("safetensors has no type {}", InfoOf(tensor.dtype).name));
    const std::uint64_t end = begin + tensor.bytes.size();
    header += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header.size() == 1 ? "" : ",",
                          JsonQuote(tensor.name), kNames[tensor.dtype], fmt::join(tensor.shape, ","), begin, end);
    begin = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = header.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);  // little-endian, as every machine this runs on
  file.reserve(file.size() + header.size() + begin);
  file += header;
  for (const TensorView& tensor : tensors) file += AsText(tensor.bytes);
  return file;
}

}  // namespace veneer
