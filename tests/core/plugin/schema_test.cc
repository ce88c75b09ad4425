#include "core/plugin/schema.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/catch.h"

using veneer::Code;
using veneer::ParamSchema;
using veneer::ParamValue;

namespace {

std::string Schema(const std::string& properties, const std::string& rest = "") {
  return R"({"type":"object","additionalProperties":false,"properties":{)" + properties + "}" + rest + "}";
}
ParamValue Number(const std::string& path, double d) { return {.path = path, .type = VNR_PARAM_NUMBER, .i = 0, .d = d, .s = {}}; }
ParamValue Integer(const std::string& path, std::int64_t i) { return {.path = path, .type = VNR_PARAM_INT, .i = i, .d = 0, .s = {}}; }
ParamValue Text(const std::string& path, const std::string& s) { return {.path = path, .type = VNR_PARAM_STRING, .i = 0, .d = 0, .s = s}; }

// The code of checking, 0 for success.
int Checked(const std::string& schema, const std::vector<ParamValue>& params) {
  const auto status = veneer::CheckParams(schema, params, "adapter x");
  return status ? 0 : static_cast<int>(status.error().code);
}

}  // namespace

TEST_CASE("schema: everything outside the subset is refused, so that no rule is ignored") {
  for (const char* bad : {
           "",
           "[]",
           "{}",
           R"({"type":"object"})",
           R"({"type":"object","additionalProperties":true})",
           R"({"type":"array","additionalProperties":false})",
           R"({"type":"object","additionalProperties":false,"patternProperties":{}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"number","multipleOf":2}}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"object"}}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a":{}}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a/b":{"type":"number"}}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","minimum":1}}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a":{"type":"number","minimum":1,"default":0}}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a":{"enum":["x",1]}}})",
           R"({"type":"object","additionalProperties":false,"properties":{"a":{"enum":[]}}})",
           R"({"type":"object","additionalProperties":false,"properties":{},"required":["a"]})",
           R"({"type":"object","additionalProperties":false,"properties":{"strength":{"type":"number"}}})",
       }) {
    CAPTURE(bad);
    const auto schema = ParamSchema::Parse(bad, "kind x");
    REQUIRE_FALSE(schema);
    CHECK(schema.error().code == Code::PLUGIN_FAULT);
  }
}

TEST_CASE("schema: bounds include their ends unless they are exclusive") {
  const std::string closed = Schema(R"("a":{"type":"number","minimum":-1,"maximum":2.5})");
  CHECK(Checked(closed, {Number("/a", -1)}) == 0);
  CHECK(Checked(closed, {Number("/a", 2.5)}) == 0);
  CHECK(Checked(closed, {Number("/a", -1.0000001)}) == 213);
  CHECK(Checked(closed, {Number("/a", 2.5000001)}) == 213);
  const std::string open = Schema(R"("a":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})");
  CHECK(Checked(open, {Number("/a", 0)}) == 213);
  CHECK(Checked(open, {Number("/a", 1)}) == 213);
  CHECK(Checked(open, {Number("/a", 0.5)}) == 0);
}

TEST_CASE("schema: values that are not finite, of another type, unknown or given twice are E213") {
  const std::string schema = Schema(R"("a":{"type":"number"},"n":{"type":"integer","minimum":1},"s":{"type":"string","maxLength":3})");
  CHECK(Checked(schema, {Number("/a", HUGE_VAL)}) == 213);
  CHECK(Checked(schema, {Number("/a", NAN)}) == 213);
  CHECK(Checked(schema, {Integer("/a", 1)}) == 213);
  CHECK(Checked(schema, {Number("/n", 1)}) == 213);
  CHECK(Checked(schema, {Integer("/n", 0)}) == 213);
  CHECK(Checked(schema, {Integer("/n", 3), Text("/s", "abc")}) == 0);
  CHECK(Checked(schema, {Text("/s", "abcd")}) == 213);
  CHECK(Checked(schema, {Number("/b", 1)}) == 213);
  CHECK(Checked(schema, {Number("a", 1)}) == 213);
  CHECK(Checked(schema, {Number("/a", 1), Number("/a", 1)}) == 213);
}

TEST_CASE("schema: enum allows its elements only, with or without a type") {
  for (const char* member : {R"("m":{"enum":["x","y"]})", R"("m":{"type":"string","enum":["x","y"]})"}) {
    CHECK(Checked(Schema(member), {Text("/m", "y")}) == 0);
    CHECK(Checked(Schema(member), {Text("/m", "z")}) == 213);
  }
  CHECK(Checked(Schema(R"("n":{"enum":[3,4]})"), {Integer("/n", 4)}) == 0);
  CHECK(Checked(Schema(R"("n":{"enum":[3,4]})"), {Integer("/n", 5)}) == 213);
}

TEST_CASE("schema: a required parameter that is missing is E203; strength is always allowed and must be finite") {
  const std::string schema = Schema(R"("a":{"type":"number"})", R"(,"required":["a"])");
  CHECK(Checked(schema, {}) == 203);
  CHECK(Checked(schema, {Number("/strength", 0.5)}) == 203);
  CHECK(Checked(schema, {Number("/a", 1), Number("/strength", -0.5)}) == 0);
  CHECK(Checked(schema, {Number("/a", 1), Number("/strength", NAN)}) == 213);
  CHECK(Checked(schema, {Number("/a", 1), Integer("/strength", 1)}) == 213);
}

TEST_CASE("schema: a JSON value becomes the type that the schema declares, exactly or not at all") {
  const auto schema = ParamSchema::Parse(Schema(R"("n":{"type":"integer"},"a":{"type":"number"},"b":{"type":"boolean"})"), "kind x");
  REQUIRE(schema);
  const auto typed = [&schema](const char* path, const char* json) { return schema->Typed(path, *veneer::ParseJson(json), "config"); };
  REQUIRE(typed("/n", "-7"));
  CHECK(typed("/n", "-7")->i == -7);
  CHECK(typed("/n", "7.0")->i == 7);
  CHECK_FALSE(typed("/n", "7.5"));
  CHECK_FALSE(typed("/n", "1e300"));
  CHECK(typed("/a", "7")->d == 7.0);
  CHECK(typed("/b", "true")->i == 1);
  CHECK_FALSE(typed("/b", "1"));
  CHECK_FALSE(typed("/x", "1"));
}
