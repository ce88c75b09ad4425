#include "core/format/json.h"

#include <string>

#include "tests/support/catch.h"

namespace veneer {
namespace {

Error ErrorOf(std::string_view document, const JsonLimits& limits = {}) {
  const auto result = ParseJson(document, limits);
  REQUIRE_FALSE(result.has_value());
  return result.error();
}

Json ValueOf(std::string_view document, const JsonLimits& limits = {}) {
  auto result = ParseJson(document, limits);
  if (!result) FAIL(result.error().Text());
  return *std::move(result);
}

TEST_CASE("json: members keep document order and every value knows its pointer") {
  const Json json = ValueOf(R"( {"b": [1, {"x/y": null, "m~n": true}], "a": "text"} )");
  REQUIRE(json.is_object());
  REQUIRE(json.members.size() == 2);
  CHECK(json.members[0].first == "b");
  CHECK(json.at.empty());
  const Json& inner = json.members[0].second.elements[1];
  CHECK(inner.at == "/b/1");
  CHECK(inner.Find("x/y")->at == "/b/1/x~1y");
  CHECK(inner.Find("m~n")->at == "/b/1/m~0n");
  CHECK(inner.Find("m~n")->boolean);
  CHECK(json.Find("a")->text == "text");
  CHECK(json.Find("c") == nullptr);
}

TEST_CASE("json: numbers keep the text they were written with") {
  const char* const numbers[] = {"0",      "-0",     "-0.0",    "0.70", "7e-1",     "0.70000000000000001", "1e400",
                                 "1E-400", "16.000", "1.50e+2", "12",   "-1234567", "18446744073709551616"};
  for (const std::string number : numbers) {
    CHECK(ValueOf(number).text == number);
    CHECK(ValueOf("[" + number + "]").elements[0].text == number);
    CHECK(ValueOf("[\"9\\\"99\", " + number + " , 5]").elements[1].text == number);
    CHECK(ValueOf("{\"k\":" + number + "}").members[0].second.text == number);
  }
  const std::string long_number = std::string(1000, '7') + "." + std::string(1000, '3') + "e" + std::string(50, '9');
  CHECK(ValueOf("[1," + long_number + ",2]").elements[1].text == long_number);
  CHECK(ValueOf("[1," + long_number + ",2]").elements[2].text == "2");
}

TEST_CASE("json: numbers outside the grammar are refused") {
  for (const char* const text :
       {"01", "-01", "+1", ".5", "1.", "1e", "1e+", "00", "0x1", "NaN", "Infinity", "-", "1-2", "--1", "1.2.3", "1e2e3"}) {
    CHECK(ErrorOf(text).code == Code::SYNTAX);
    CHECK(ErrorOf(std::string("[") + text + "]").code == Code::SYNTAX);
  }
}

TEST_CASE("json: U64 takes whole numbers up to 2^53-1 and nothing that would wrap or round") {
  CHECK(ValueOf("0").U64().value() == 0);
  CHECK(ValueOf("9007199254740991").U64().value() == 9007199254740991);
  for (const char* const text : {"-1", "-0", "18446744073709551616", "9007199254740992", "16.0", "1.6e1", "1e3"}) {
    const auto value = ValueOf("{\"rank\":" + std::string(text) + "}").Find("rank")->U64();
    REQUIRE_FALSE(value.has_value());
    CHECK(value.error().code == Code::NUMBER_FORM);
    CHECK(value.error().at == "/rank");
  }
  CHECK(ValueOf("\"16\"").U64().error().code == Code::FIELD_TYPE);
}

TEST_CASE("json: Number is correctly rounded and refuses what no double holds") {
  CHECK(ValueOf("0.1").Number().value() == 0.1);
  CHECK(ValueOf("-2.5e-3").Number().value() == -2.5e-3);
  CHECK(ValueOf("1e400").Number().error().code == Code::NUMBER_FORM);
  CHECK(ValueOf("1e-400").Number().error().code == Code::NUMBER_FORM);
  CHECK(ValueOf("true").Number().error().code == Code::FIELD_TYPE);
}

TEST_CASE("json: typed access names the pointer and the type found") {
  const Json json = ValueOf(R"({"a": [false]})");
  CHECK(json.Find("a")->String().error().code == Code::FIELD_TYPE);
  CHECK(json.Find("a")->String().error().at == "/a");
  CHECK(json.Find("a")->elements[0].Bool().value() == false);
  CHECK(json.Get("missing").error().code == Code::FIELD_MISSING);
  CHECK(json.Find("a")->Get("x").error().code == Code::FIELD_TYPE);
}

TEST_CASE("json: a document one byte over the limit is refused by its size") {
  const std::string document = std::string((1 << 20) - 1, ' ') + "{}";
  CHECK(ErrorOf(document).code == Code::INPUT_TOO_LARGE);
  CHECK(ValueOf(document.substr(1)).is_object());
}

TEST_CASE("json: 200,000 opening brackets are refused at level 9") {
  const Error error = ErrorOf(std::string(200'000, '['));
  CHECK(error.code == Code::DEPTH);
  CHECK(error.at == "/0/0/0/0/0/0/0");
  CHECK(ValueOf("[[[[[[[[1]]]]]]]]").is_array());
  CHECK(ErrorOf("[[[[[[[[[1]]]]]]]]]").code == Code::DEPTH);
}

TEST_CASE("json: nine nested objects are refused") {
  std::string document = "1";
  for (int i = 0; i < 8; ++i) document = "{\"a\":" + document + "}";
  CHECK(ValueOf(document).is_object());
  CHECK(ErrorOf("{\"a\":" + document + "}").code == Code::DEPTH);
}

TEST_CASE("json: a repeated key is refused with its pointer, also when it is spelled with escapes") {
  CHECK(ErrorOf(R"({"a":{"rank":8,"rank":8}})").code == Code::DUPLICATE_KEY);
  const Error error = ErrorOf(R"({"a":{"rank":8,"\u0072ank":8}})");
  CHECK(error.code == Code::DUPLICATE_KEY);
  CHECK(error.at == "/a/rank");
  CHECK(ValueOf(R"({"a":{"b":1},"b":{"a":2}})").members.size() == 2);
}

TEST_CASE("json: a byte order mark is refused") { CHECK(ErrorOf("\xEF\xBB\xBF{}").code == Code::NOT_UTF8); }

TEST_CASE("json: overlong UTF-8, lone surrogates, stray bytes and NUL are refused") {
  for (const std::string text :
       {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xFF", "\xF5\x80\x80\x80", "\xF4\x90\x80\x80", "\xC3", "a\x80"})
    CHECK(ErrorOf("\"" + text + "\"").code == Code::NOT_UTF8);
  for (const char* const text : {R"("\ud800")", R"("\udc00")", R"("\ud800\ud800")", R"("\ud800x")", R"("\uD83D\u0041")"})
    CHECK(ErrorOf(text).code == Code::NOT_UTF8);
  CHECK(ErrorOf(std::string("[1,\0 2]", 7)).code == Code::NOT_UTF8);
  CHECK(ErrorOf(std::string("\"a\0b\"", 5)).code == Code::NOT_UTF8);
  CHECK(ValueOf(R"("\ud83d\ude00\\ud800")").text == "\xF0\x9F\x98\x80\\ud800");
}

TEST_CASE("json: an escaped NUL is refused with the pointer unless the reader asks for it") {
  const char* const document = R"({"a":[{"name":"x\u0000y"}]})";
  CHECK(ErrorOf(document).code == Code::NOT_UTF8);
  CHECK(ErrorOf(document).at == "/a/0/name");
  CHECK(ErrorOf(R"({"x\u0000":1})").code == Code::NOT_UTF8);
  const Json kept = ValueOf(document, {.nul_in_strings = true});
  CHECK(kept.Find("a")->elements[0].Find("name")->text == std::string("x\0y", 3));
}

TEST_CASE("json: members and elements are counted over the whole document") {
  std::string document = "[0";
  for (int i = 1; i < 60'000; ++i) document += ",0";
  CHECK(ErrorOf(document + "]").code == Code::TOO_MANY_ITEMS);
  CHECK(ValueOf("[1,{\"a\":2}]", {.items = 3}).is_array());
  CHECK(ErrorOf("[1,{\"a\":2}]", {.items = 2}).code == Code::TOO_MANY_ITEMS);
}

TEST_CASE("json: syntax errors say line and column") {
  const Error error = ErrorOf("{\n  \"a\": tru\n}");
  CHECK(error.code == Code::SYNTAX);
  CHECK(error.detail.find("line 2") != std::string::npos);
  for (const char* const text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "[1] x", "'a'", "\"a\nb\"", "// c\n1", "nul", "\"\\x\"", "\"", "[\"a\\"})
    CHECK(ErrorOf(text).code == Code::SYNTAX);
}

TEST_CASE("json: null, false and empty values are inert; zero is not") {
  for (const char* const text : {"null", "false", "\"\"", "[]", "{}"}) CHECK(ValueOf(text).is_inert());
  for (const char* const text : {"0", "true", "\" \"", "[0]", "{\"a\":null}"}) CHECK_FALSE(ValueOf(text).is_inert());
}

TEST_CASE("json: Dump prints what parses to the same value") {
  const std::string text = R"({"a":[1.50,-0,null,true,"q\"\\\u0001\n/é"],"b":{}})";
  CHECK(ValueOf(text).Dump() == text);
  CHECK(ValueOf(" { \"a\" : [ ] } ").Dump() == R"({"a":[]})");
}

}  // namespace
}  // namespace veneer
