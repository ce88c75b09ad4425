#include "core/adapter/pattern.h"

#include <chrono>
#include <string>

#include "tests/support/catch.h"

using veneer::Pattern;

namespace {

bool Full(const std::string& expression, const std::string& path) { return *Pattern::Full(expression, "/x")->Matches(path); }
bool Key(const std::string& key, const std::string& path) { return *Pattern::ModuleKey(key, "/x")->Matches(path); }

}  // namespace

// Expected values: Python's re.fullmatch(expression, path) and re.match(r"(.*\.)?(KEY)$", path).
TEST_CASE("pattern: a full match covers the whole path") {
  CHECK(Full(".*", "model.layers.0.self_attn.q_proj"));
  CHECK(Full(R"(model\.layers\.\d+\.self_attn\.(q|v)_proj)", "model.layers.13.self_attn.v_proj"));
  CHECK_FALSE(Full("q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(Full(R"(.*\.q)", "model.layers.0.self_attn.q_proj"));
  CHECK(Full("a|ab", "ab"));  // not the first alternative, the one that reaches the end
  CHECK_FALSE(Full("a|b.*", "ab"));
  CHECK(Full(R"(.*(?<!mlp)\.up_proj)", "x.up_proj"));
  CHECK_FALSE(Full(R"(.*(?<!mlp)\.up_proj)", "x.mlp.up_proj"));
}

TEST_CASE("pattern: a module key matches the path from any of its dots to its end") {
  CHECK(Key("q_proj", "q_proj"));
  CHECK(Key("q_proj", "model.layers.0.self_attn.q_proj"));
  CHECK_FALSE(Key("q_proj", "model.layers.0.self_attn.my_q_proj"));
  CHECK_FALSE(Key("q_proj", "model.layers.0.self_attn.q_proj_2"));
  CHECK(Key("layers.1.mlp.down_proj", "model.layers.1.mlp.down_proj"));
  CHECK_FALSE(Key("layers.1.mlp.down_proj", "model.layers.11.mlp.down_proj"));
  CHECK(Key("q_proj|v_proj", "model.layers.0.self_attn.v_proj"));
  CHECK(Key(R"(layers\.[01]\..*)", "model.layers.1.mlp.down_proj"));
}

TEST_CASE("pattern: what is no expression is refused with the reason, at its place") {
  const auto bad = Pattern::Full("(", "/target_modules");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == veneer::Code::SYNTAX);
  CHECK(bad.error().at == "/target_modules");
  CHECK_FALSE(Pattern::Full(std::string(100'000, 'a'), "/x"));
  CHECK_FALSE(Pattern::Full(R"(\C)", "/x"));
}

TEST_CASE("pattern: an expression that would search for ever ends with E214 at once") {
  const std::string path(64, 'a');
  // The last character is a class: a plain one would be looked for first, and the search would not begin.
  for (const char* hostile : {"(a+)+[bc]", "(a|aa)+[bc]", "((a*)*)*[bc]", "(.*)*\\.?(.*)*[bc]"}) {
    CAPTURE(hostile);
    const auto pattern = Pattern::Full(hostile, "/target_modules");
    REQUIRE(pattern);
    const auto begin = std::chrono::steady_clock::now();
    const auto matches = pattern->Matches(path);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
    REQUIRE_FALSE(matches);
    CHECK(matches.error().code == veneer::Code::LIMIT);
    CHECK(matches.error().at == "/target_modules");
  }
}
