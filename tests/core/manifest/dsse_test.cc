#include "core/manifest/dsse.h"

#include <cstdint>
#include <string>

#include "core/base/digest.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

template <std::size_t N>
std::array<unsigned char, N> FromHex(std::string_view hex) {
  REQUIRE(hex.size() == 2 * N);
  std::array<unsigned char, N> bytes{};
  for (std::size_t i = 0; i < N; ++i) bytes[i] = static_cast<unsigned char>(std::stoi(std::string(hex.substr(2 * i, 2)), nullptr, 16));
  return bytes;
}

struct Vector {  // RFC 8032, section 7.1
  std::string secret, key, message, signature;
};
const Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
     "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
     "\x72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7", "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
     "\xaf\x82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
};

}  // namespace

TEST_CASE("ed25519: the published vectors sign and verify", "[manifest]") {
  for (const Vector& vector : kVectors) {
    const auto secret = FromHex<32>(vector.secret);
    const auto key = PublicKeyOf(secret);
    REQUIRE(key);
    CHECK(ToHex(*key) == vector.key);
    const auto signature = SignEd25519(secret, vector.message);
    REQUIRE(signature);
    CHECK(ToHex(*signature) == vector.signature);
    CHECK(VerifyEd25519(*key, vector.message, *signature, "/s"));
  }
}

TEST_CASE("ed25519: one bit changed in key, message or signature is refused with its place", "[manifest]") {
  const auto key = FromHex<32>(kVectors[2].key);
  const auto signature = FromHex<64>(kVectors[2].signature);
  for (std::size_t bit = 0; bit < 512; ++bit) {
    auto changed = signature;
    changed[bit / 8] = static_cast<unsigned char>(changed[bit / 8] ^ (1U << (bit % 8)));
    CHECK_FALSE(VerifyEd25519(key, kVectors[2].message, changed, "/s"));
  }
  for (std::size_t bit = 0; bit < 256; ++bit) {
    auto changed = key;
    changed[bit / 8] = static_cast<unsigned char>(changed[bit / 8] ^ (1U << (bit % 8)));
    CHECK_FALSE(VerifyEd25519(changed, kVectors[2].message, signature, "/s"));
  }
  const auto refused = VerifyEd25519(key, "\xaf\x83", signature, "/s");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::SIGNATURE_INVALID);
  CHECK(refused.error().at == "/s");
  CHECK_FALSE(VerifyEd25519(key, "\xaf", signature, "/s"));
}

TEST_CASE("ed25519: under a key of small order even a signature that holds is refused", "[manifest]") {
  // Computed from the curve equation, independently of the code: the y of every point whose order divides 8.
  for (const std::string hex : {"0000000000000000000000000000000000000000000000000000000000000000",
                                "0100000000000000000000000000000000000000000000000000000000000000",
                                "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
                                "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
                                "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                                "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"}) {
    for (const bool sign : {false, true}) {
      auto key = FromHex<32>(hex);
      if (sign) key[31] |= 0x80;
      Ed25519Signature signature{};  // R = the neutral element, S = 0: holds for the key 01 00 … and any message
      signature[0] = 1;
      const auto verdict = VerifyEd25519(key, "any message", signature, "/s");
      CAPTURE(hex, sign);
      REQUIRE_FALSE(verdict);
      CHECK(verdict.error().detail.find("small order") != std::string::npos);
    }
  }
}

TEST_CASE("dsse: the pre-authentication bytes are those of the specification's example", "[manifest]") {
  CHECK(PreAuthentication("http://example.com/HelloWorld", "hello world") == "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  CHECK(PreAuthentication("", "") == "DSSEv1 0  0 ");
}
