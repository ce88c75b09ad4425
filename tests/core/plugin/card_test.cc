#include <string>

#include "core/plugin/catalog.h"
#include "tests/core/plugin/test_plugins.h"
#include "tests/support/catch.h"

using veneer::Code;
using veneer::PluginCard;

namespace {

PluginCard Good() {
  PluginCard card = TestCard(ModulePath("offset"));
  card.requires_cpu = {"avx2", "fma"};
  card.requires_libraries = {"libc.so.6"};
  return card;
}

int CodeOf(const std::string& text) {
  const auto card = veneer::CardFromJson(text);
  return card ? 0 : static_cast<int>(card.error().code);
}

}  // namespace

TEST_CASE("card: what is written reads back the same, byte for byte") {
  const PluginCard card = Good();
  const std::string text = veneer::CardToJson(card);
  const auto back = veneer::CardFromJson(text);
  REQUIRE(back);
  CHECK(back->name == card.name);
  CHECK(back->version == card.version);
  CHECK(back->library_file == card.library_file);
  CHECK(back->library_sha256 == card.library_sha256);
  CHECK(back->library_size == card.library_size);
  CHECK(back->platform == card.platform);
  CHECK(back->requires_cpu == card.requires_cpu);
  CHECK(back->requires_libraries == card.requires_libraries);
  CHECK(back->kinds == card.kinds);
  CHECK(veneer::CardToJson(*back) == text);
}

TEST_CASE("card: the tool's card of a module describes it, twice the same") {
  const auto module = LoadFile(ModulePath("offset"));
  REQUIRE(module);
  std::vector<std::string> libraries = module->libraries;
  std::erase_if(libraries, [](const std::string& name) { return name.find("san.so") != std::string::npos; });  // of a sanitizing build
  CHECK(libraries == std::vector<std::string>{"libc.so.6"});
  const auto card = veneer::CardOf(*module->entry, "module");
  REQUIRE(card);
  CHECK(card->name == "example-offset");
  CHECK(card->abi_major == VNR_ABI_MAJOR);
  CHECK(veneer::CardToJson(*card) == veneer::CardToJson(*veneer::CardOf(*module->entry, "module")));
}

TEST_CASE("card: every member is checked") {
  const std::string good = veneer::ParseJson(veneer::CardToJson(Good()), {.depth = 12})->Dump();
  REQUIRE(CodeOf(good) == 0);
  const auto with = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return CodeOf(text);
  };
  CHECK(CodeOf("") == 103);
  CHECK(CodeOf("[]") == 204);
  CHECK(with("\"card\":1", "\"card\":2") == 201);
  CHECK(with("\"card\":1", "\"card\":1, \"card\":1") == 105);
  CHECK(with("\"name\":\"example-offset\"", "\"name\":\"\"") == 203);
  CHECK(with("\"name\":\"example-offset\"", "\"name\":1") == 204);
  CHECK(with("\"version\"", "\"versions\"") == 203);
  CHECK(with("\"card\":1", "\"card\":1, \"path\":\"/tmp\"") == 202);
  CHECK(with("\"major\":1", "\"major\":4294967296") == 107);
  CHECK(with("\"offset.so\"", "\"../offset.so\"") == 416);
  CHECK(with("\"offset.so\"", "\"..\"") == 416);
  CHECK(with("\"sha256\":\"", "\"sha256\":\"A") == 209);
  CHECK(with("\"kinds\":[", "\"kinds\":[1, ") == 204);
}
