// Any bytes parse or are refused; the tensors of a file that parses cover its data exactly, in some order, without overlap.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/format/safetensors.h"
#include "fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = veneer::SafetensorsFile::Parse(std::as_bytes(std::span(data, size)));
  if (!file) return 0;
  std::size_t covered = 0;
  unsigned sum = 0;
  for (const veneer::TensorView& tensor : file->tensors) {
    covered += tensor.bytes.size();
    FUZZ_EXPECT(tensor.bytes.size() == tensor.elements() * veneer::InfoOf(tensor.dtype).block_bytes);
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
  }
  std::uint64_t header = 0;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | data[i];
  FUZZ_EXPECT(8 + header + covered == size);
  unsigned expected = 0;
  for (std::size_t i = 8 + header; i < size; ++i) expected += data[i];
  FUZZ_EXPECT(sum == expected);
  return 0;
}
