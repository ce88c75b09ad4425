// Decimal numbers with one spelling per value: strengths and fractions of the manifest. Never a double inside an identity.
#ifndef VENEER_CORE_MANIFEST_DECIMAL_H_
#define VENEER_CORE_MANIFEST_DECIMAL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace veneer {

class Decimal {
 public:
  Decimal() = default;  // "0"

  // Any decimal notation an author may use ("0.70", "7e-1", "+0.7"), shifted, never rounded. E208 with `at` for NaN, infinity, -0,
  // more than 6 digits before or 9 after the point (so never more than 15 significant ones), or |w| > 1000.
  static Result<Decimal> FromAuthored(std::string_view text, std::string_view at);
  // The canonical spelling only; E212 for another spelling of a valid value, E208 otherwise.
  static Result<Decimal> FromCanonical(std::string_view text, std::string_view at);
  // numerator / denominator, rounded half-even to 9 decimals (sparsity).
  static Decimal FromFraction(std::uint64_t numerator, std::uint64_t denominator);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] double value() const;  // correctly rounded, locale-independent
  [[nodiscard]] bool is_zero() const { return text_ == "0"; }
  bool operator==(const Decimal&) const = default;

 private:
  explicit Decimal(std::string text) : text_(std::move(text)) {}
  std::string text_ = "0";
};

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_DECIMAL_H_
