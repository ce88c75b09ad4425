#include <fmt/format.h>

#include <string>

#include "core/manifest/manifest.h"
#include "tests/core/manifest/documents.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

std::string Outcome(const std::string& bytes) {
  const auto parsed = Statement::Parse(bytes);
  return parsed ? "accepted" : fmt::format("E{} {}", static_cast<int>(parsed.error().code), parsed.error().at);
}

}  // namespace

TEST_CASE("statement: what the manifest says of time, channel and provenance is kept byte for byte", "[manifest]") {
  const auto manifest = ParseManifest(
      "title = \"gr\xC3\xBC\xC3\x9F dich\"\nexpires_utc = 2030-01-01T00:00:00Z\nx_eval = {score = \"0.91\", n = 3}\n" + VectorToml(),
      ManifestSyntax::kToml);
  REQUIRE(manifest);
  const Statement statement = MakeStatement(*manifest, Sha256::Of("x"));
  const std::string text = fmt::format(
      R"({{"channel":"test","composition":"{}","expires_utc":"2030-01-01T00:00:00Z","schema":"veneer.statement/1","sequence":1,"timestamp_utc":"2026-01-02T03:04:05Z","title":"{}","x_eval":{{"n":3,"score":"0.91"}}}})",
      Sha256::Of("x").Text(), "gr\xC3\xBC\xC3\x9F dich");
  CHECK(statement.Canonical() == text);
  const auto parsed = Statement::Parse(text);
  REQUIRE(parsed);
  CHECK(parsed->Canonical() == text);
  CHECK(parsed->composition == Sha256::Of("x"));
  CHECK(parsed->sequence == 1);
  CHECK(parsed->extra.size() == 2);
}

TEST_CASE("statement: unknown fields, other spellings and bad values are refused", "[manifest]") {
  const std::string good =
      fmt::format(R"({{"composition":"{}","schema":"veneer.statement/1","timestamp_utc":"2026-01-02T03:04:05Z"}})", Sha256::Of("x").Text());
  CHECK(Outcome(good) == "accepted");
  CHECK(Outcome(good + "\n") == "E212 ");
  CHECK(Outcome(Replaced(good, "\"schema\"", "\"kind\":1,\"schema\"")) == "E202 /kind");
  CHECK(Outcome(Replaced(good, "T03:04:05Z", "T03:04:60Z")) == "E211 /timestamp_utc");
  CHECK(Outcome(Replaced(good, "veneer.statement/1", "veneer.statement/2")) == "E201 /schema");
  CHECK(Outcome(Replaced(good, "sha256:", "sha512:")) == "E210 /composition");
  CHECK(Outcome(Replaced(good, "05Z\"}", "05Z\",\"x_a\":1.5}")) == "E107 /x_a");
  CHECK(Outcome(Replaced(good, "{\"comp", "{\"channel\":\"Test\",\"comp")) == "E205 /channel");
  CHECK(Outcome(std::string((64 << 10) + 1, ' ')) == "E101 ");
}
