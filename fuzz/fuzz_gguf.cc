// Any bytes parse or are refused; what parses is understood as a base or refused; of a base every row can be read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/format/gguf.h"
#include "core/model/config.h"
#include "core/model/gguf_sites.h"
#include "core/model/quantization.h"
#include "core/model/tokenizer_blob.h"
#include "fuzz/expect.h"

namespace {

void ReadEveryValue(const veneer::GgufFile& file) {
  for (const veneer::GgufValue& value : file.values()) {
    FUZZ_EXPECT(file.Find(value.key) == &value);
    (void)file.U64(value.key);
    (void)file.F64(value.key);
    (void)file.Bool(value.key);
    (void)file.String(value.key);
    (void)file.Strings(value.key);
    (void)file.F32s(value.key);
    (void)file.I32s(value.key);
  }
}

// The range a tensor claims is inside the file, and its size is what its shape and type say.
void CheckEveryTensor(const veneer::GgufFile& file, std::span<const std::byte> bytes) {
  for (const veneer::TensorView& tensor : file.tensors()) {
    FUZZ_EXPECT(file.FindTensor(tensor.name) == &tensor);
    const veneer::DTypeInfo& info = veneer::InfoOf(tensor.dtype);
    FUZZ_EXPECT(tensor.bytes.size() == tensor.elements() / info.block_elements * info.block_bytes);
    if (tensor.bytes.empty()) continue;
    FUZZ_EXPECT(tensor.bytes.data() >= bytes.data());
    FUZZ_EXPECT(tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = veneer::GgufFile::Parse(bytes);
  if (!file) return 0;
  ReadEveryValue(*file);
  CheckEveryTensor(*file, bytes);
  const std::vector<veneer::BaseTensor> tensors = veneer::TensorsOf(*file);
  (void)veneer::QuantizationOf(tensors);
  (void)veneer::ReadTokenizerBlob(*file);
  const auto config = veneer::ReadConfig(*file);
  if (!config) return 0;
  const auto sites = veneer::BuildGgufSites(tensors, *config);
  if (!sites) return 0;
  for (const veneer::Site& site : *sites) {
    const bool is_vector = site.shape_class == veneer::SiteClass::kVector;
    std::vector<float> row(is_vector ? site.out : site.in);
    for (const std::uint64_t lane : {std::uint64_t{0}, site.out - 1})
      veneer::ReadRows(site, is_vector ? 0 : lane, 1, row.data(), row.size());
  }
  return 0;
}
