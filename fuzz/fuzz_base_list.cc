// Any bytes are the list of a directory's files or are refused; an accepted one names plain files, each once, and prints to the bytes it
// was read from.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/manifest/base_list.h"
#include "fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto files = veneer::ParseBaseList(text);
  if (!files) {
    FUZZ_EXPECT(static_cast<int>(files.error().code) < 300);  // input or schema, nothing else
    return 0;
  }
  FUZZ_EXPECT(!files->empty());
  FUZZ_EXPECT(std::ranges::adjacent_find(*files, {}, &veneer::ListedFile::name) == files->end());
  for (const veneer::ListedFile& file : *files)
    FUZZ_EXPECT(!file.name.empty() && file.name.front() != '.' && file.name.find('/') == std::string::npos);
  FUZZ_EXPECT(veneer::PrintBaseList(*files) == text);
  return 0;
}
