#include "core/manifest/toml.h"

#include <fmt/format.h>

#include <string>

#include "tests/support/catch.h"

using namespace veneer;

namespace {

std::string Tree(std::string_view text) {
  const auto tree = ParseToml(text, {});
  return tree ? tree->Dump() : fmt::format("E{} {}", static_cast<int>(tree.error().code), tree.error().at);
}

}  // namespace

TEST_CASE("toml: numbers keep the text their author wrote, wherever they stand", "[manifest]") {
  CHECK(Tree("a = 0.70000000000000001\nb=+1.50\nc =   1e400 # x\n") == R"({"a":0.70000000000000001,"b":+1.50,"c":1e400})");
  CHECK(Tree("a = [1e400,18446744073709551616 , 1_0,\n 0xff]") == R"({"a":[1e400,18446744073709551616,1_0,0xff]})");
  CHECK(Tree("\"\xC3\xA4\" = 1\nb = {\"\xC3\xB6\" = 2.0, c = \"\xF0\x9F\x98\x80\", d = 3.50}\r\n\te = 4.10") ==
        "{\"b\":{\"c\":\"\xF0\x9F\x98\x80\",\"d\":3.50,\"\xC3\xB6\":2.0},\"e\":4.10,\"\xC3\xA4\":1}");
  CHECK(Tree("a = inf\nb = -nan") == R"({"a":inf,"b":-nan})");
  CHECK(Tree("a = " + std::string(3000, '1') + "." + std::string(3000, '2')) ==
        "{\"a\":" + std::string(3000, '1') + "." + std::string(3000, '2') + "}");
}

TEST_CASE("toml: 40,000 numbers on one line behind a character of several bytes are each the right one", "[manifest]") {
  std::string text = "a = [\"\xC3\xA4\"";
  std::string tree = "{\"a\":[\"\xC3\xA4\"";
  for (int i = 0; i < 40'000; ++i) {
    text += fmt::format(",{}.5", i);
    tree += fmt::format(",{}.5", i);
  }
  CHECK(Tree(text + "]") == tree + "]}");
}

TEST_CASE("toml: numbers as keys, in strings and in comments are left alone", "[manifest]") {
  CHECK(Tree("18446744073709551616 = 1") == R"({"18446744073709551616":1})");
  CHECK(Tree("[18446744073709551616]\na = 1") == R"({"18446744073709551616":{"a":1}})");
  CHECK(Tree("a = {18446744073709551616 = 1}") == R"({"a":{"18446744073709551616":1}})");
  CHECK(Tree("1.\"2\".3 = {4.'5' = [{6 = 7}, {8 = {9 = 1e400}}], b = 1e400}\n") ==
        R"({"1":{"2":{"3":{"4":{"5":[{"6":7},{"8":{"9":1e400}}]},"b":1e400}}}})");
  CHECK(Tree("2026-02-30 = 1") == R"({"2026-02-30":1})");
  CHECK(Tree("a = \"\"\"\n1e400 = [\"\"\"\"\"\nb = '''x''' # 1e400 [[[[[[[[[[\nc = '1e400'") ==
        R"({"a":"1e400 = [\"\"","b":"x","c":"1e400"})");
}

TEST_CASE("toml: dates and times are strings as written", "[manifest]") {
  CHECK(
      Tree("a = 2026-01-02T03:04:05Z\nb = 2026-01-02 03:04:05.5+01:00\nc = 2026-02-30\nd = 07:32:00\ne = [2026-01-02, 2026-99-99T1Z]") ==
      R"({"a":"2026-01-02T03:04:05Z","b":"2026-01-02 03:04:05.5+01:00","c":"2026-02-30","d":"07:32:00","e":["2026-01-02","2026-99-99T1Z"]})");
}

TEST_CASE("toml: what is no TOML is a syntax error with line and column", "[manifest]") {
  for (const std::string text : {"a",
                                 "a =",
                                 "= 1",
                                 "a = 1 2",
                                 "[a",
                                 "a = [1",
                                 "a = {b = 1",
                                 "a = \"x",
                                 "a = '''x",
                                 "a = 01",
                                 "a = 1__0",
                                 "a = \"\\q\"",
                                 "a = tru",
                                 "[]",
                                 "a..b = 1",
                                 "a = \"\x01\"",
                                 "a = 1 ]",
                                 "a = 0.7.1",
                                 "a = +0x1",
                                 "a = 1\"\"",
                                 "a = 1.'x'",
                                 "a = 1 ''",
                                 "a = 2026-01-02 2",
                                 "a = 2026-01-02 2,5'\xCD\x9A",
                                 "a = 1=2",
                                 "a = [1=2]",
                                 "a = 1{",
                                 "a = 1[",
                                 "a = {b = 1 = 2}",
                                 "a = true'"}) {
    CAPTURE(text);
    CHECK(Tree(text) == "E103 ");
  }
  const auto tree = ParseToml("a = 1\nb = = 2\n", {});
  REQUIRE_FALSE(tree);
  CHECK(tree.error().detail.find("line 2 column 5") != std::string::npos);
}

TEST_CASE("toml: characters other than ASCII are refused where the parser is undefined for them, and kept where text may stand",
          "[manifest]") {
  for (const std::string text : {"\xD2\x96 = 1", "a.a\xD2\x96 = 1", "a = 1 \xC2\xA0", "a = \"\"\"x\\\n  \xC3\xA4\"\"\"",
                                 "a = \"\"\"\\\xC3\xA4\"\"\"", "a = \"\\\xC3\xA4\"", "[\xC3\xA4]"}) {
    CAPTURE(text);
    CHECK(Tree(text) == "E103 ");
  }
  CHECK(Tree("# \xC3\xA4\n\"\xC3\xA4\" = '''\n\\\n\xC3\xA4'''") == "{\"\xC3\xA4\":\"\\\\\\n\xC3\xA4\"}");
  CHECK(Tree("a = \"\"\"x\\\n  y\xC3\xA4\n\xC3\xB6\"\"\"") == "{\"a\":\"xy\xC3\xA4\\n\xC3\xB6\"}");
}

TEST_CASE("toml: keys and tables that stand a second time are told from other mistakes and named", "[manifest]") {
  CHECK(Tree("a = 1\na = 2") == "E105 /a");
  CHECK(Tree("a = 1\n\"\\u0061\" = 2") == "E105 /a");
  CHECK(Tree("[t]\nb = 1\n[t]\n") == "E105 /t");
  CHECK(Tree("[[t]]\nb = 1\n[[t]]\nb = 1\nb = 1") == "E105 /t/1/b");
  CHECK(Tree("t = {b = 1}\n[t.c]\n") == "E105 /t/c");
  CHECK(Tree("t = 1\nt.c = 1\n") == "E105 /t/c");
  CHECK(Tree("t = {b = 1, b = 2}").starts_with("E105"));
  CHECK(Tree("a = 1\n[[a]]\n") == "E105 /a");
}

TEST_CASE("toml: items are counted over the whole document", "[manifest]") {
  const auto outcome = [](std::string_view text) {
    const auto tree = ParseToml(text, {.items = 4});
    return tree ? 0 : static_cast<int>(tree.error().code);
  };
  CHECK(outcome("a = [1, 2, 3]") == 0);
  CHECK(outcome("a = [1, 2, 3, 4]") == 106);
  CHECK(outcome("a = 1\nb = {c = 1, d = 1}\ne = 1") == 106);
  CHECK(outcome("[a]\n[b]\n[c]\n[d]") == 0);
  CHECK(outcome("[a]\n[b]\n[c]\n[d]\n[e]") == 106);
}
