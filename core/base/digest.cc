#include "core/base/digest.h"

#include <openssl/evp.h>

#include <fmt/format.h>

#include <cstdlib>

namespace veneer {
namespace {

// OpenSSL's SHA-256 can only fail for lack of memory or a broken installation; neither can be served around.
void Require(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

std::string ToHex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const unsigned char byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::string Digest::Hex() const { return ToHex(bytes); }
std::string Digest::Text() const { return "sha256:" + Hex(); }

Result<Digest> ParseDigest(std::string_view text, std::string_view at) {
  constexpr std::string_view kPrefix = "sha256:";
  const auto fail = [&](Code code, std::string_view why) {
    return Fail(code, std::string(at), fmt::format("'{}' {}; write sha256: and 64 lower-case hex digits", text.substr(0, 80), why));
  };
  const auto colon = text.find(':');
  if (colon != std::string_view::npos && text.substr(0, colon + 1) != kPrefix)
    return fail(Code::DIGEST_ALGORITHM, "does not use sha256");
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + 64) return fail(Code::DIGEST_FORM, "is not a digest");
  Digest digest;
  for (std::size_t i = 0; i < 64; ++i) {
    const char c = text[kPrefix.size() + i];
    int nibble = -1;
    if (c >= '0' && c <= '9') nibble = c - '0';
    if (c >= 'a' && c <= 'f') nibble = c - 'a' + 10;
    if (nibble < 0) return fail(Code::DIGEST_FORM, "is not a digest");
    digest.bytes[i / 2] = static_cast<unsigned char>(digest.bytes[i / 2] << 4 | nibble);
  }
  return digest;
}

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  Require(context_->md != nullptr && EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  Require(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
}

Digest Sha256::Finish() {
  Digest digest;
  unsigned int size = 0;
  Require(EVP_DigestFinal_ex(context_->md, digest.bytes.data(), &size) == 1 && size == digest.bytes.size());
  return digest;
}

Digest Sha256::Of(std::span<const std::byte> bytes) {
  Sha256 hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

}  // namespace veneer
