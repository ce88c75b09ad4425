// Any bytes are a shard index (model.safetensors.index.json) or are refused; an accepted one names plain .safetensors files, each once, and
// is taken for two given shards only if it places every tensor of them where it lies and names no other.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/hf_tensors.h"
#include "fuzz/expect.h"
#include "tests/support/tiny_gguf.h"

namespace {

// A safetensors file with one tensor of a byte.
std::string Shard(const std::string& tensor) {
  const std::string header = R"({")" + tensor + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "x";
}

std::vector<veneer::BaseFile> Files() {
  std::vector<veneer::BaseFile> files;
  files.push_back({"1.safetensors", InMemory(Shard("a"), "1.safetensors"), {}});
  files.push_back({"2.safetensors", InMemory(Shard("b"), "2.safetensors"), {}});
  files.push_back({std::string(veneer::kHfIndexName), InMemory("{}", "index"), {}});
  return files;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::vector<veneer::BaseFile> files = Files();
  if (size == 0) return 0;  // no file is empty: opening refuses it
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto shards = veneer::ShardsOfIndex(text);
  if (shards) {
    FUZZ_EXPECT(std::ranges::is_sorted(*shards) && std::ranges::adjacent_find(*shards) == shards->end());
    for (const std::string& shard : *shards) {
      FUZZ_EXPECT(shard.ends_with(".safetensors") && shard.front() != '.');
      FUZZ_EXPECT(shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos);
    }
  }
  files.back().bytes = InMemory(text, "index");
  const auto tensors = veneer::ReadHfTensors(files);
  if (!tensors) {
    FUZZ_EXPECT(!shards || tensors.error().code == veneer::Code::HEADER_CORRUPT);
    return 0;
  }
  FUZZ_EXPECT(shards == std::vector<std::string>({"1.safetensors", "2.safetensors"}));
  FUZZ_EXPECT(tensors->size() == 2 && (*tensors)[0].name == "a" && (*tensors)[1].name == "b");
  return 0;
}
