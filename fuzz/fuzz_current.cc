// Any bytes are a pointer, a generation record, a stamp or a name's record exactly when printing what was read gives the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/store/records.h"
#include "core/store/refs.h"
#include "core/store/stamps.h"
#include "fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto current = veneer::ParseCurrent(text)) {
    FUZZ_EXPECT(veneer::PrintCurrent(*current) == text);
    FUZZ_EXPECT(current->generation > 0);
  } else {
    FUZZ_EXPECT(current.error().code == veneer::Code::STATE_CORRUPT);
  }
  for (const std::uint64_t generation : {std::uint64_t{1}, std::uint64_t{12}}) {
    if (const auto record = veneer::ParseGeneration(text, generation)) {
      FUZZ_EXPECT(veneer::PrintGeneration(*record) == text);
      FUZZ_EXPECT(record->generation == generation && record->ancestor < generation);
    } else {
      FUZZ_EXPECT(record.error().code == veneer::Code::STATE_CORRUPT);
    }
  }
  if (const auto record = veneer::ParseRef(text)) FUZZ_EXPECT(veneer::PrintRef(*record) == text);
  if (const auto stamp = veneer::ParseStamp(text)) FUZZ_EXPECT(veneer::ParseStamp(veneer::PrintStamp(*stamp)).has_value());
  if (veneer::CheckRef({veneer::RefKind::kAdapter, "name", std::string(text)})) {
    FUZZ_EXPECT(veneer::ParseRef(veneer::PrintRef(text)) == text);
    (void)veneer::DigestsIn(text);
    (void)veneer::CompositionOf(text);
  }
  return 0;
}
