// A stored document that is accepted prints to the bytes it was read from: one identity, one spelling.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/manifest/composition.h"
#include "core/manifest/manifest.h"
#include "fuzz/expect.h"

using namespace veneer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto composition = Composition::Parse(bytes)) FUZZ_EXPECT(composition->Canonical() == bytes);
  if (const auto statement = Statement::Parse(bytes)) FUZZ_EXPECT(statement->Canonical() == bytes);
  return 0;
}
