#include "core/store/records.h"

#include "core/store/crc32c.h"
#include "core/store/stamps.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

Current Example() { return {12, Sha256::Of("composition"), Sha256::Of("record"), "0123456789abcdef0123456789abcdef"}; }

GenerationRecord ExampleRecord() {
  GenerationRecord record;
  record.generation = 12;
  record.op = GenerationOp::kRollback;
  record.composition = Sha256::Of("composition");
  record.ancestor = 3;
  record.prev_record = Sha256::Of("previous");
  record.tx = "0123456789abcdef0123456789abcdef";
  record.build = "test";
  record.time = "2026-01-02T03:04:05Z";
  return record;
}

}  // namespace

TEST_CASE("records: CRC-32C of the published check string is e3069283") { CHECK(Crc32c("123456789") == 0xe3069283u); }

TEST_CASE("records: the pointer has the bytes of the layout document") {
  const std::string text = PrintCurrent(Example());
  CHECK(text == "veneer-current 1\ngen 12\ncomposition " + Sha256::Of("composition").Text() + "\nrecord " + Sha256::Of("record").Text() +
                    "\ntx 0123456789abcdef0123456789abcdef\ncrc " + text.substr(text.size() - 9));
  CHECK(text.size() <= kMaxCurrentBytes);
  CHECK(ParseCurrent(text).value() == Example());
  Current none = Example();
  none.composition.reset();
  CHECK(ParseCurrent(PrintCurrent(none)).value() == none);
}

TEST_CASE("records: a pointer with any one bit flipped, cut anywhere or with bytes added is E602, never another pointer") {
  const std::string text = PrintCurrent(Example());
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto current = ParseCurrent(flipped);
    refused += !current && current.error().code == Code::STATE_CORRUPT;
  }
  CHECK(refused == text.size() * 8);
  for (std::size_t size = 0; size < text.size(); ++size) CHECK(ParseCurrent(text.substr(0, size)).error().code == Code::STATE_CORRUPT);
  CHECK(!ParseCurrent(text + "\n"));
  CHECK(!ParseCurrent(text + text));  // the line twice, as LevelDB has seen it
  CHECK(!ParseCurrent(std::string(text.size(), '\0')));
}

TEST_CASE("records: a second spelling of a pointer is refused in spite of a right checksum") {
  const std::string body = PrintCurrent(Example()).substr(0, PrintCurrent(Example()).size() - 13);
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string changed = body;
    changed.replace(changed.find(from), from.size(), to);
    return ParseCurrent(WithCrcLine(changed));
  };
  CHECK(replaced("gen 12", "gen 12"));
  CHECK(!replaced("gen 12", "gen 012"));
  CHECK(!replaced("gen 12", "gen 0"));
  CHECK(!replaced("gen 12", "gen +12"));
  CHECK(!replaced("gen 12", "gen 99999999999999999999"));
  CHECK(!replaced("veneer-current 1", "veneer-current 2"));
  CHECK(!replaced("tx 0", "tx A"));
  CHECK(!replaced("composition sha256:", "composition sha512:"));
  CHECK(!ParseCurrent(WithCrcLine(body + "more 1\n")));
}

TEST_CASE("records: a generation record is canonical JSON and reads back; other bytes are E602") {
  const GenerationRecord record = ExampleRecord();
  const std::string text = PrintGeneration(record);
  CHECK(text == R"({"ancestor":3,"build":"test","composition":")" + record.composition->Text() +
                    R"(","gen":12,"op":"rollback","prev_record":")" + record.prev_record->Text() +
                    R"(","statement":"none","time":"2026-01-02T03:04:05Z","tx":"0123456789abcdef0123456789abcdef",)" +
                    R"("verify":"stamp"})");
  CHECK(ParseGeneration(text, 12).value() == record);
  CHECK(ParseGeneration(text, 13).error().code == Code::STATE_CORRUPT);
  CHECK(ParseGeneration(text + " ", 12).error().code == Code::STATE_CORRUPT);
  CHECK(ParseGeneration(R"({"gen":12})", 12).error().code == Code::STATE_CORRUPT);
  std::string unknown = text;
  unknown.insert(1, R"("a":1,)");
  CHECK(ParseGeneration(unknown, 12).error().code == Code::STATE_CORRUPT);
  GenerationRecord future = record;
  future.ancestor = 12;
  CHECK(ParseGeneration(PrintGeneration(future), 12).error().code == Code::STATE_CORRUPT);
}

TEST_CASE("records: a stamp reads back, is void for any change of the file, and is not trusted within two seconds of the last change") {
  Stamp stamp;
  stamp.info.device = 1;
  stamp.info.inode = UINT64_MAX;
  stamp.info.size = 3;
  stamp.info.mtime_ns = 1'000;
  stamp.info.ctime_ns = 5'000'000'000;
  stamp.when_ns = 7'000'000'000;
  stamp.build = "test";
  const std::string text = PrintStamp(stamp);
  const auto read = ParseStamp(text);
  REQUIRE(read);
  CHECK(IsTrusted(*read, stamp.info));
  const auto trusted_after = [&](auto change) {
    FileInfo now = stamp.info;
    change(now);
    return IsTrusted(*read, now);
  };
  CHECK(!trusted_after([](FileInfo& now) { ++now.device; }));
  CHECK(!trusted_after([](FileInfo& now) { --now.inode; }));
  CHECK(!trusted_after([](FileInfo& now) { ++now.size; }));
  CHECK(!trusted_after([](FileInfo& now) { ++now.mtime_ns; }));
  CHECK(!trusted_after([](FileInfo& now) { --now.ctime_ns; }));
  stamp.when_ns -= 1;
  CHECK(!IsTrusted(stamp, stamp.info));
  for (std::size_t size = 0; size < text.size(); ++size) CHECK(!ParseStamp(text.substr(0, size)));
}
