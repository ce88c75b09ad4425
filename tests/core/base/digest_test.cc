#include "core/base/digest.h"

#include "tests/support/catch.h"

using namespace veneer;

TEST_CASE("digest: SHA-256 of the FIPS 180 message 'abc' is the published value") {
  CHECK(Sha256::Of("abc").Hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 parts;
  parts.Update("a");
  parts.Update("bc");
  CHECK(parts.Finish() == Sha256::Of("abc"));
}

TEST_CASE("digest: one spelling is read, every other is refused with its own code") {
  const std::string good = Sha256::Of("x").Text();
  REQUIRE(ParseDigest(good, "/h"));
  CHECK(ParseDigest(good, "/h")->Text() == good);
  const auto code = [](std::string_view text) { return ParseDigest(text, "/h").error().code; };
  std::string upper = good;
  upper.back() = 'A';
  CHECK(code(upper) == Code::DIGEST_FORM);
  CHECK(code(good.substr(0, good.size() - 1)) == Code::DIGEST_FORM);
  CHECK(code(good + "\n") == Code::DIGEST_FORM);
  CHECK(code("") == Code::DIGEST_FORM);
  CHECK(code("sha512:" + good.substr(7)) == Code::DIGEST_ALGORITHM);
  CHECK(code("md5:00") == Code::DIGEST_ALGORITHM);
  CHECK(ParseDigest("md5:00", "/adapters/0/file_hash").error().at == "/adapters/0/file_hash");
}
