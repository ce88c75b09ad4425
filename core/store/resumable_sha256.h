// SHA-256 that can begin in the middle: its state of 32 bytes after a whole number of blocks can be taken out and gone on from.
// core/base/digest.h has the one that cannot, which is enough everywhere else.
#ifndef VENEER_CORE_STORE_RESUMABLE_SHA256_H_
#define VENEER_CORE_STORE_RESUMABLE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/digest.h"

namespace veneer {

using HashState = std::array<std::uint32_t, 8>;  // H0 to H7 of FIPS 180-4, 6.2
inline constexpr std::uint64_t kHashBlock = 64;  // bytes that the state changes by

class ResumableSha256 {
 public:
  ResumableSha256();  // before the first byte
  // After `done` bytes, a multiple of kHashBlock and below 2^61, that led to `state`.
  ResumableSha256(const HashState& state, std::uint64_t done);
  void Update(std::span<const std::byte> bytes);
  [[nodiscard]] HashState state() const;  // after a multiple of kHashBlock bytes
  [[nodiscard]] Digest Finish();          // the hasher is spent afterwards

 private:
  std::array<std::uint32_t, 28> context_{};  // OpenSSL's SHA256_CTX, whose header stays in one file; nothing is allocated
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_RESUMABLE_SHA256_H_
