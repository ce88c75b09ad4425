// Any text in either syntax is a manifest or an error; a manifest, written as TOML, reads back to the same one.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/manifest/manifest.h"
#include "core/manifest/write_toml.h"
#include "fuzz/expect.h"

using namespace veneer;

namespace {

void Check(std::string_view text, ManifestSyntax syntax) {
  const auto manifest = ParseManifest(text, syntax);
  if (!manifest) {
    FUZZ_EXPECT(static_cast<int>(manifest.error().code) < 300 && !manifest.error().detail.empty());  // input or schema, nothing else
    return;
  }
  const std::string written = WriteManifestToml(*manifest);
  const auto again = ParseManifest(written, ManifestSyntax::kToml);
  if (!again && again.error().code == Code::INPUT_TOO_LARGE) return;  // comments and quotes can carry it over the limit
  FUZZ_EXPECT(again.has_value());
  FUZZ_EXPECT(WriteManifestToml(*again) == written);
  FUZZ_EXPECT(MakeStatement(*again, {}).Canonical() == MakeStatement(*manifest, {}).Canonical());
  const auto statement = Statement::Parse(MakeStatement(*manifest, {}).Canonical());
  FUZZ_EXPECT(statement.has_value() && statement->extra == manifest->extra);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(text, ManifestSyntax::kToml);
  Check(text, ManifestSyntax::kJson);
  return 0;
}
