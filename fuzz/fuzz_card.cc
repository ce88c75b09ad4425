// Any bytes are a card or are refused; a card obeys the ABI's rules for declarations and reads back the same from what is written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/plugin/catalog.h"
#include "fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto card = veneer::CardFromJson(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!card) return 0;
  FUZZ_EXPECT(card->library_file.find('/') == std::string::npos);
  for (const veneer::KindDecl& kind : card->kinds) FUZZ_EXPECT(veneer::CheckKind(kind, "").has_value());
  const std::string text = veneer::CardToJson(*card);
  const auto again = veneer::CardFromJson(text);
  if (!again) {  // control characters grow when they are printed: only the size limit may strike
    FUZZ_EXPECT(again.error().code == veneer::Code::INPUT_TOO_LARGE);
    return 0;
  }
  FUZZ_EXPECT(again->kinds == card->kinds);
  FUZZ_EXPECT(again->library_sha256 == card->library_sha256);
  FUZZ_EXPECT(veneer::CardToJson(*again) == text);
  return 0;
}
