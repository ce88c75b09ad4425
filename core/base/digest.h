// SHA-256 digests: the value, its one spelling "sha256:<64 lower-case hex>", and an incremental hasher.
#ifndef VENEER_CORE_BASE_DIGEST_H_
#define VENEER_CORE_BASE_DIGEST_H_

#include <array>
#include <compare>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace veneer {

struct Digest {
  std::array<unsigned char, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
  [[nodiscard]] std::string Hex() const;   // 64 lower-case hex digits
  [[nodiscard]] std::string Text() const;  // "sha256:" + Hex()
};

// Accepts exactly "sha256:" and 64 lower-case hex digits; E210 for another algorithm, E209 for another form. `at` is
// the place named in the error.
Result<Digest> ParseDigest(std::string_view text, std::string_view at);

std::string ToHex(std::span<const unsigned char> bytes);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }
  [[nodiscard]] Digest Finish();  // the hasher is spent afterwards

  static Digest Of(std::span<const std::byte> bytes);
  static Digest Of(std::string_view text) { return Of(std::as_bytes(std::span(text))); }

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace veneer

#endif  // VENEER_CORE_BASE_DIGEST_H_
