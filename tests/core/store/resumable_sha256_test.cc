#include "core/store/resumable_sha256.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace veneer {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

TEST_CASE("resumable sha-256: the digests of FIPS 180-4, and the published state after the first block of a well-known header") {
  ResumableSha256 abc;
  abc.Update(Bytes("abc"));
  CHECK(abc.Finish().Hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(ResumableSha256().Finish().Hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  // The first 64 bytes of the block that begins Bitcoin's chain; miners print the state after them.
  ResumableSha256 header;
  header.Update(Bytes(FromHex("01000000" + std::string(64, '0') + "3ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa")));
  CHECK(header.state() == HashState{0xbc909a33, 0x6358bff0, 0x90ccac7d, 0x1e59caa8, 0xc3c8d8e9, 0x4f0103c8, 0x96b18736, 0x4719f91b});
}

TEST_CASE("resumable sha-256: whichever block it goes on from, the digest is that of all bytes, and no other state leads there") {
  std::string text(10 * kHashBlock + 7, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 37);
  const Digest whole = Sha256::Of(text);
  for (std::uint64_t done = 0; done < text.size(); done += kHashBlock) {
    CAPTURE(done);
    ResumableSha256 first;
    first.Update(Bytes(text).first(done));
    ResumableSha256 rest(first.state(), done);
    rest.Update(Bytes(text).subspan(done));
    CHECK(rest.Finish() == whole);
    HashState other = first.state();
    other[7] ^= 1;
    ResumableSha256 wrong(other, done);
    wrong.Update(Bytes(text).subspan(done));
    CHECK(wrong.Finish() != whole);
  }
}

TEST_CASE("resumable sha-256: lengths of more than 32 bits are carried over") {
  const std::vector<std::byte> part(1 << 20);
  Sha256 whole;
  ResumableSha256 first;
  for (int i = 0; i < 512; ++i) {  // 2^32 bits
    whole.Update(part);
    first.Update(part);
  }
  ResumableSha256 rest(first.state(), std::uint64_t{512} << 20);
  whole.Update(part);
  rest.Update(part);
  CHECK(rest.Finish() == whole.Finish());
}

}  // namespace
}  // namespace veneer
