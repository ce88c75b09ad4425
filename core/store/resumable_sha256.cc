#include "core/store/resumable_sha256.h"

// OpenSSL 3 hands out a state only through its older functions, which it calls deprecated and runs on the same assembly code.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <algorithm>
#include <bit>

namespace veneer {

static_assert(kHashBlock == SHA256_CBLOCK);

// None of these calls can fail: they compute, and their result is always 1.
ResumableSha256::ResumableSha256() {
  SHA256_CTX context{};
  SHA256_Init(&context);
  context_ = std::bit_cast<decltype(context_)>(context);
}

ResumableSha256::ResumableSha256(const HashState& state, std::uint64_t done) {
  SHA256_CTX context{};
  SHA256_Init(&context);
  std::ranges::copy(state, context.h);
  context.Nl = static_cast<SHA_LONG>(done << 3);  // the length in bits, low and high half
  context.Nh = static_cast<SHA_LONG>(done >> 29);
  context_ = std::bit_cast<decltype(context_)>(context);
}

void ResumableSha256::Update(std::span<const std::byte> bytes) {
  auto context = std::bit_cast<SHA256_CTX>(context_);
  SHA256_Update(&context, bytes.data(), bytes.size());
  context_ = std::bit_cast<decltype(context_)>(context);
}

HashState ResumableSha256::state() const {
  const auto context = std::bit_cast<SHA256_CTX>(context_);
  HashState state;
  std::ranges::copy(context.h, state.begin());
  return state;
}

Digest ResumableSha256::Finish() {
  auto context = std::bit_cast<SHA256_CTX>(context_);
  Digest digest;
  SHA256_Final(digest.bytes.data(), &context);
  return digest;
}

}  // namespace veneer
