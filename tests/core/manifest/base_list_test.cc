#include "core/manifest/base_list.h"

#include <string>

#include "tests/support/catch.h"

namespace veneer {
namespace {

const std::string kOne = "sha256:" + std::string(64, '1'), kTwo = "sha256:" + std::string(64, '2');

std::string List(const std::string& entries) { return R"({"files":[)" + entries + "]}"; }
std::string Entry(const std::string& name, const std::string& digest = kOne) {
  return R"({"name":")" + name + R"(","sha256":")" + digest + R"(","size":7})";
}

TEST_CASE("base list: files are printed by name, and read again") {
  const auto one = ParseDigest(kOne, ""), two = ParseDigest(kTwo, "");
  const std::string text = PrintBaseList({{"model.safetensors", *one, 7}, {"config.json", *two, 7}});
  CHECK(text == List(Entry("config.json", kTwo) + "," + Entry("model.safetensors")));
  const auto files = ParseBaseList(text);
  REQUIRE(files.has_value());
  REQUIRE(files->size() == 2);
  CHECK((*files)[0].name == "config.json");
  CHECK((*files)[0].digest == *two);
  CHECK((*files)[1].size == 7);
}

TEST_CASE("base list: what is not canonical, twofold or no plain file name is refused") {
  const auto refused = [](const std::string& text, Code code) {
    CAPTURE(text);
    const auto files = ParseBaseList(text);
    REQUIRE_FALSE(files.has_value());
    CHECK(files.error().code == code);
  };
  refused(List(""), Code::FIELD_TYPE);
  refused("{}", Code::FIELD_MISSING);
  refused(List(Entry("b") + "," + Entry("a")), Code::NOT_CANONICAL);
  refused(List(Entry("a")) + " ", Code::NOT_CANONICAL);
  refused(List(R"({"extra":1,"name":"a","sha256":")" + kOne + R"(","size":7})"), Code::NOT_CANONICAL);
  refused(List(Entry("a") + "," + Entry("a", kTwo)), Code::NAME_DUPLICATE);
  for (const char* const name : {"", "../a", "/etc/passwd", ".a", "a/b"}) refused(List(Entry(name)), Code::NAME_INVALID);
  refused(List(Entry("a", "sha256:12")), Code::DIGEST_FORM);
}

}  // namespace
}  // namespace veneer
