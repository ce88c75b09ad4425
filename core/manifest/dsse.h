// Signing statements: the pre-authentication bytes of DSSE and Ed25519 over them. Raw 32-byte keys only; no certificate and no other
// key format is ever parsed.
#ifndef VENEER_CORE_MANIFEST_DSSE_H_
#define VENEER_CORE_MANIFEST_DSSE_H_

#include <array>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace veneer {

using Ed25519PublicKey = std::array<unsigned char, 32>;
using Ed25519Secret = std::array<unsigned char, 32>;  // the seed of RFC 8032
using Ed25519Signature = std::array<unsigned char, 64>;

inline constexpr std::string_view kStatementPayloadType = "application/vnd.veneer.statement.v1+json";

// "DSSEv1 <size> <type> <size> <payload>": the bytes that are signed.
std::string PreAuthentication(std::string_view payload_type, std::string_view payload);

Result<Ed25519PublicKey> PublicKeyOf(const Ed25519Secret& secret);
Result<Ed25519Signature> SignEd25519(const Ed25519Secret& secret, std::string_view message);
// E702, with `at`, for anything but a good signature by a sound key: the all-zero key and the other points of small order, under which
// one signature can be good for many messages, are refused first.
Status VerifyEd25519(const Ed25519PublicKey& key, std::string_view message, const Ed25519Signature& signature, std::string_view at);

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_DSSE_H_
