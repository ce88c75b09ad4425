#include "core/manifest/write_toml.h"

#include <string>

#include "tests/core/manifest/documents.h"
#include "tests/core/manifest/facts.h"
#include "tests/support/catch.h"

using namespace veneer;

TEST_CASE("a written manifest reads back to the same composition and statement", "[manifest]") {
  const std::string more =
      "description = \"two lines\\nand a \\\"quote\\\", DEL \\u007f\"\nx_a = {b = [1, \"z\", {}], \"c d\" = \"e\"}\nexpires_utc = "
      "2030-01-01T00:00:00Z\n";
  const std::string last =
      "[adapters.params]\nmode = \"a\\\"b\"\n\"x.y\" = 7\n[adapters.plugin]\nname = \"org.example.one\"\nversion = \"1.2\"\nsha256 = "
      "\"sha256:" +
      std::string(64, 'a') + "\"\n";
  for (const std::string& text : {VectorToml(), more + VectorToml() + last, EditToml("load_order", "10", "30")}) {
    const auto manifest = ParseManifest(text, ManifestSyntax::kToml);
    REQUIRE(manifest);
    const std::string written = WriteManifestToml(*manifest);
    CAPTURE(written);
    const auto again = ParseManifest(written, DetectSyntax(written));
    REQUIRE(again);
    CHECK(SealManifest(*again, VectorBase(), VectorAdapters(*again)).value().Id() ==
          SealManifest(*manifest, VectorBase(), VectorAdapters(*manifest)).value().Id());
    CHECK(MakeStatement(*again, {}).Canonical() == MakeStatement(*manifest, {}).Canonical());
    CHECK(WriteManifestToml(*again) == written);
  }
}

TEST_CASE("a written manifest says what each field is", "[manifest]") {
  const auto manifest = ParseManifest(VectorToml(), ManifestSyntax::kToml);
  const std::string written = WriteManifestToml(*manifest);
  CHECK(written.starts_with("# A veneer manifest"));
  CHECK(written.find("merge_weight = \"0.7\"  # strength: 1 as trained, 0 off") != std::string::npos);
  CHECK(written.find("load_order = 0  # ") != std::string::npos);
}
