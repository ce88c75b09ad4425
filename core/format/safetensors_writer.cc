#include "core/format/safetensors_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "core/base/bytes.h"
#include "core/format/json.h"
#include "core/format/safetensors.h"

namespace veneer {
Result<std::string> WriteSafetensors(std::span<const TensorView> tensors) {
  std::string header = "{";
  std::uint64_t begin = 0;
  for (const TensorView& tensor : tensors) {
    const std::string_view type = SafetensorsName(tensor.dtype);
    if (type.empty())
      return Fail(Code::FORMAT_UNSUPPORTED, tensor.name, fmt::format("safetensors has no type {}", InfoOf(tensor.dtype).name));
    const std::uint64_t end = begin + tensor.bytes.size();
    header += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header.size() == 1 ? "" : ",",
                          JsonQuote(tensor.name), type, fmt::join(tensor.shape, ","), begin, end);
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
