#include "core/manifest/dsse.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace veneer {
namespace {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

// The y coordinates of the points whose order divides 8 (curve edwards25519, p = 2^255 - 19), little-endian, the sign bit cleared. The
// last two spell 0 and 1 as p and p + 1.
constexpr unsigned char kSmallOrder[][32] = {
    {0x00},
    {0x01},
    {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
     0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
    {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
     0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
    {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
};

bool IsSmallOrder(Ed25519PublicKey key) {
  key[31] &= 0x7f;
  return std::ranges::any_of(kSmallOrder, [&key](const auto& point) { return std::ranges::equal(key, point); });
}

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::unexpected<Error> LibraryFailed(std::string_view action) {
  ERR_clear_error();
  return Fail(Code::OUT_OF_MEMORY, "", fmt::format("the crypto library could not {}", action));
}

std::unexpected<Error> Invalid(std::string_view at, std::string_view detail) {
  ERR_clear_error();  // the library's queue is per thread; nothing of it may reach the next caller
  return Fail(Code::SIGNATURE_INVALID, std::string(at), std::string(detail));
}

Key SecretKey(const Ed25519Secret& secret) {
  return Key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret.data(), secret.size()));
}

}  // namespace

std::string PreAuthentication(std::string_view payload_type, std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", payload_type.size(), payload_type, payload.size(), payload);
}

Result<Ed25519PublicKey> PublicKeyOf(const Ed25519Secret& secret) {
  const Key key = SecretKey(secret);
  Ed25519PublicKey public_key{};
  std::size_t size = public_key.size();
  if (!key || EVP_PKEY_get_raw_public_key(key.get(), public_key.data(), &size) != 1 || size != public_key.size())
    return LibraryFailed("derive a public key");
  return public_key;
}

Result<Ed25519Signature> SignEd25519(const Ed25519Secret& secret, std::string_view message) {
  const Key key = SecretKey(secret);
  const Context context(EVP_MD_CTX_new());
  Ed25519Signature signature{};
  std::size_t size = signature.size();
  if (!key || !context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, Bytes(message), message.size()) != 1 || size != signature.size())
    return LibraryFailed("sign");
  return signature;
}

Status VerifyEd25519(const Ed25519PublicKey& key, std::string_view message, const Ed25519Signature& signature, std::string_view at) {
  if (IsSmallOrder(key)) return Invalid(at, "the public key is a point of small order and proves nothing; use a key made at random");
  const Key public_key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
  const Context context(EVP_MD_CTX_new());
  if (!public_key || !context || EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) != 1)
    return Invalid(at, "the signature could not be checked");
  // 1 is good, 0 bad, anything else an error of the library.
  const int verdict = EVP_DigestVerify(context.get(), signature.data(), signature.size(), Bytes(message), message.size());
  if (verdict == 1) return {};
  return Invalid(at, verdict == 0 ? "the signature does not belong to these bytes and this key" : "the signature could not be checked");
}

}  // namespace veneer
