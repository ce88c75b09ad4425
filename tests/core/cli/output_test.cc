#include "core/cli/output.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/core/cli/captured.h"
#include "tests/support/catch.h"

namespace veneer::cli {
namespace {

Captured Printed(const std::function<void()>& body) {
  return Capture([&body] {
    body();
    return 0;
  });
}

TEST_CASE("output: success is one line OK VERB facts on standard output, nothing in JSON mode") {
  const Captured text = Printed([] { PrintOk("activate", "gen=12 composition=sha256:00", false); });
  CHECK(text.out == "OK ACTIVATE gen=12 composition=sha256:00\n");
  CHECK(text.err.empty());
  CHECK(Printed([] { PrintOk("init", "", false); }).out == "OK INIT\n");
  CHECK(Printed([] { PrintOk("activate", "gen=12", true); }).out.empty());
}

TEST_CASE("output: an error is one line ERR VERB code name at= detail on standard error; in JSON mode also an object on standard output") {
  const Error error{Code::HASH_MISMATCH, "/adapters/1/file_hash", "file is another"};
  const Captured text = Printed([&] { PrintError("activate", error, false); });
  CHECK(text.err == "ERR ACTIVATE E303 HASH_MISMATCH at=/adapters/1/file_hash file is another\n");
  CHECK(text.out.empty());
  const Captured json = Printed([&] { PrintError("activate", error, true); });
  CHECK(json.err == text.err);
  CHECK(json.out == R"({"error":{"code":303,"name":"HASH_MISMATCH","at":"/adapters/1/file_hash","detail":"file is another"}})"
                    "\n");
  CHECK(Printed([] { PrintError("x", Error{Code::NO_ACTIVE, "", "none"}, false); }).err == "ERR X E605 NO_ACTIVE at=- none\n");
}

TEST_CASE("output: what files contain cannot break the line, drive the terminal or the JSON") {
  const Error error{Code::TENSOR_UNMATCHED, "evil\x1b[2J\nOK ACTIVATE", "tab\there \"quoted\" \\ back \x7f"};
  const Captured text = Printed([&] { PrintError("validate", error, true); });
  CHECK(text.err == "ERR VALIDATE E419 TENSOR_UNMATCHED at=evil\\x1b[2J\\x0aOK ACTIVATE tab\\x09here \"quoted\" \\ back \\x7f\n");
  CHECK(std::count(text.out.begin(), text.out.end(), '\n') == 1);
  CHECK(text.out.find('\x1b') == std::string::npos);
  const auto json = nlohmann::json::parse(text.out);
  CHECK(json["error"]["at"] == error.at);
  CHECK(json["error"]["detail"] == error.detail);
}

TEST_CASE("output: JSON is one line, keeps the order of its keys, and replaces bytes that are not UTF-8") {
  const Captured json = Printed([] { PrintJson({{"z", 1}, {"a", std::string("\xff caf\xc3\xa9")}}); });
  CHECK(json.out == "{\"z\":1,\"a\":\"\xEF\xBF\xBD caf\xc3\xa9\"}\n");
}

TEST_CASE("output: the exit status tells usage, refusal, resources or store, and our own bugs apart") {
  const auto status = [](Code code) { return ExitStatus({code, "", ""}); };
  CHECK(status(Code::USAGE) == 2);
  for (const Code code :
       {Code::SYNTAX, Code::NAME_DUPLICATE, Code::HASH_MISMATCH, Code::SHAPE_MISMATCH, Code::SIGNATURE_INVALID, Code::TRUST_STORE})
    CHECK(status(code) == 3);
  for (const Code code : {Code::MEMORY_BUDGET, Code::CONTEXT_FULL, Code::LOCKED, Code::COMPOSITION_CHANGED}) CHECK(status(code) == 4);
  CHECK(status(Code::INTERNAL) == 5);
}

TEST_CASE("output: columns are as wide as their widest cell, counted in characters, without blanks at the end") {
  CHECK(Table({{"NAME", "N"}, {"\xC3\xA9t\xC3\xA9", "1"}, {"longer one", "22"}}) ==
        "NAME        N\n\xC3\xA9t\xC3\xA9         1\nlonger one  22\n");
  CHECK(Table({}).empty());
  CHECK(Table({{"a"}, {"b", "c"}}) == "a\nb  c\n");
}

TEST_CASE("output: byte counts have the unit that fits, exact below a KiB") {
  CHECK(ByteText(0) == "0 B");
  CHECK(ByteText(1023) == "1023 B");
  CHECK(ByteText(1024) == "1.0 KiB");
  CHECK(ByteText(2306867) == "2.2 MiB");
  CHECK(ByteText(std::uint64_t{3} << 40) == "3.0 TiB");
  CHECK(ByteText(std::uint64_t{5000} << 40) == "5000.0 TiB");
}

TEST_CASE("output: control characters are shown as codes, everything else as it is") {
  CHECK(Printable("plain caf\xC3\xA9") == "plain caf\xC3\xA9");
  CHECK(Printable(std::string("a\0b\r\n\x1b\x7f", 7)) == "a\\x00b\\x0d\\x0a\\x1b\\x7f");
}

TEST_CASE("output: a progress bar prints nothing where standard error is no terminal") {
  const Captured quiet = Printed([] {
    ProgressBar bar("hashing");
    bar.Update(1, 2);
    bar.Update(2, 2);
  });
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
}

}  // namespace
}  // namespace veneer::cli
