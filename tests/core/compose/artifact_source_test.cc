#include "core/compose/artifact_source.h"

#include <vector>

#include "tests/support/catch.h"

namespace veneer {
namespace {

TEST_CASE("artifact source: hashing in steps gives the digest of FIPS 180-4 and reports every 8 MiB") {
  CHECK(HashBytes({}, {}).Text() == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::string abc = "abc";
  CHECK(HashBytes(std::as_bytes(std::span(abc)), {}).Text() == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::uint64_t step = std::uint64_t{8} << 20;
  const std::vector<std::byte> zeros(step + 1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  // sha256sum of 8388609 zero bytes
  CHECK(HashBytes(zeros, [&seen](std::uint64_t done, std::uint64_t total) { seen.emplace_back(done, total); }).Text() ==
        "sha256:4459f957d031a8b782dfee09d2c7070a4b5e6c33130a8f20ac35393fd97fc57a");
  CHECK(seen == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{step, step + 1}, {step + 1, step + 1}});
}

}  // namespace
}  // namespace veneer
