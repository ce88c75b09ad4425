// Any bytes are a segment with a whole, chained beginning, and after it a torn end or a break; what was read frames to the same bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/store/audit.h"
#include "fuzz/expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const veneer::SegmentScan scan = veneer::ScanSegment(bytes);
  std::string framed, prev;
  for (const veneer::AuditRecord& record : scan.records) {
    FUZZ_EXPECT(framed.empty() || record.Get("prev") == prev);
    framed += veneer::FrameRecord(record.text);
    prev = veneer::Sha256::Of(record.text).Text();
  }
  FUZZ_EXPECT(framed == bytes.substr(0, scan.good_bytes));
  if (scan.broken_at) {
    FUZZ_EXPECT(*scan.broken_at == scan.good_bytes && scan.torn_bytes == 0);
  } else {
    FUZZ_EXPECT(!scan.records.empty() && scan.good_bytes + scan.torn_bytes == size);
  }
  (void)veneer::StateOf(scan.records);
  return 0;
}
