#include "core/store/audit.h"

#include <fmt/format.h>

#include "core/store/crc32c.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

// A segment of three records, framed and chained by hand.
struct Segment {
  std::vector<std::string> frames;
  Segment() {
    std::string prev = "none";
    for (const std::string& rest : {std::string(R"("time":"t","type":"segment"})"), std::string(R"("tx":"1","type":"begin"})"),
                                    std::string(R"("tx":"1","type":"commit"})")}) {
      const std::string gen = frames.size() == 1 ? "" : R"("gen":5,)";
      const std::string json = fmt::format(R"({{{}"prev":"{}",{})", gen, prev, rest);
      frames.push_back(fmt::format("{:04x} {:08x} {}\n", json.size(), Crc32c(json), json));
      prev = Sha256::Of(json).Text();
    }
  }
  [[nodiscard]] std::string Bytes() const { return frames[0] + frames[1] + frames[2]; }
};

}  // namespace

TEST_CASE("audit: a segment reads back with its values; the begin is open until its commit") {
  const Segment segment;
  const SegmentScan scan = ScanSegment(segment.Bytes());
  CHECK(!scan.broken_at);
  CHECK(scan.torn_bytes == 0);
  REQUIRE(scan.records.size() == 3);
  CHECK(scan.records[1].Get("tx") == "1");
  CHECK(StateOf(scan.records).open_transactions.empty());
  CHECK(StateOf(scan.records).generation == 5);
  CHECK(StateOf({scan.records[0], scan.records[1]}).open_transactions == std::vector<std::string>{"1"});
}

TEST_CASE("audit: a segment cut at any byte after its first record is torn there, with the records before it whole") {
  const Segment segment;
  const std::string bytes = segment.Bytes();
  const std::size_t first = segment.frames[0].size(), second = first + segment.frames[1].size();
  for (std::size_t size = first; size < bytes.size(); ++size) {
    const SegmentScan scan = ScanSegment(bytes.substr(0, size));
    INFO(size);
    CHECK(!scan.broken_at);
    CHECK(scan.records.size() == (size < second ? 1u : 2u));
    CHECK(scan.good_bytes + scan.torn_bytes == size);
  }
  for (std::size_t size = 0; size < first; ++size) CHECK(ScanSegment(bytes.substr(0, size)).broken_at == 0u);
}

TEST_CASE("audit: any flipped bit before the last record is a break, in the last record a torn end") {
  const Segment segment;
  const std::string bytes = segment.Bytes();
  const std::size_t last = segment.frames[0].size() + segment.frames[1].size();
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const SegmentScan scan = ScanSegment(flipped);
    INFO(bit);
    if (bit / 8 < last) {
      CHECK(scan.broken_at);
    } else {
      CHECK(scan.torn_bytes > 0);
    }
  }
}

TEST_CASE("audit: records out of order, left out or repeated are a break in spite of right frames") {
  const Segment segment;
  const auto& f = segment.frames;
  CHECK(ScanSegment(f[0] + f[2]).broken_at == f[0].size());
  CHECK(ScanSegment(f[0] + f[2] + f[1]).broken_at == f[0].size());
  CHECK(ScanSegment(f[0] + f[1] + f[1]).broken_at == f[0].size() + f[1].size());
  CHECK(ScanSegment(f[1] + f[2]).broken_at == 0u);
}

TEST_CASE("audit: names of segments have one spelling") {
  CHECK(SegmentNumber("seg-1") == 1u);
  CHECK(SegmentNumber("seg-120") == 120u);
  for (const char* name : {"seg-0", "seg-01", "seg-", "seg-1x", "seg", "seg--1", "seg-99999999999999999999"}) CHECK(!SegmentNumber(name));
}

TEST_CASE("audit: a torn end starts a new segment that names the bytes given up; the open transaction is not forgotten") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const auto first = store.root() / "veneer/audit/seg-1";
  const std::string good = ReadAll(first);
  WriteFile(first, good + "00ff 12345678 {\"half");
  Must(store.Activate(store.b));
  CHECK(ReadAll(first) == good + "00ff 12345678 {\"half");  // kept for the investigator
  const auto records = Must(store.Open().ReadLog());
  const auto segment = std::ranges::find_if(records, [](const AuditRecord& r) { return r.Get("lost_bytes") == "20"; });
  REQUIRE(segment != records.end());
  CHECK(segment->type() == "segment");
  CHECK(records.back().type() == "commit");
  CHECK(Text(store.Fsck()) == "");
}

TEST_CASE("audit: a break in the last segment refuses activation with E611; one in an older segment is found by fsck") {
  StoreFixture store;
  Must(store.Activate(store.a));
  const auto first = store.root() / "veneer/audit/seg-1";
  const std::string good = ReadAll(first);
  std::string broken = good;
  broken[good.size() / 2] = static_cast<char>(broken[good.size() / 2] ^ 1);
  WriteFile(first, broken);
  CHECK(store.Activate(store.b).error().code == Code::AUDIT_CHAIN);
  CHECK(Text(store.Fsck()).starts_with("E611 AUDIT_CHAIN at=veneer/audit/seg-1"));
  CHECK(store.Current().composition == store.a);
  WriteFile(first, good + "torn");
  Must(store.Activate(store.b));
  WriteFile(first, broken + "torn");
  CHECK(Text(store.Fsck()).starts_with("E611 AUDIT_CHAIN at=veneer/audit/seg-1"));
  std::filesystem::remove_all(store.root() / "veneer/audit");
  std::filesystem::create_directory(store.root() / "veneer/audit");
  CHECK(store.Activate(store.a).error().code == Code::AUDIT_UNAVAILABLE);
}

TEST_CASE("audit: whole records cut from the end are E611 for a writer, and nothing is written over the gap") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Activate(store.b));
  const auto segment = store.root() / "veneer/audit/seg-1";
  std::string text = ReadAll(segment);
  for (int i = 0; i < 2; ++i) text.resize(text.rfind('\n', text.size() - 2) + 1);  // commit and begin of the last activation
  WriteFile(segment, text);
  CHECK(store.Activate(store.a).error().code == Code::AUDIT_CHAIN);
  CHECK(ReadAll(segment) == text);
  CHECK(store.Current().composition == store.b);
}

TEST_CASE("audit: the log tells the history in order, with one end for each begin") {
  StoreFixture store;
  Must(store.Activate(store.a));
  Must(store.Rollback());
  std::vector<std::string> types;
  for (const AuditRecord& record : Must(store.Open().ReadLog())) types.push_back(std::string(record.type()));
  CHECK(types == std::vector<std::string>{"segment", "begin", "commit", "import", "begin", "commit", "begin", "commit"});
}
