#include "core/manifest/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>

namespace veneer {
namespace {

constexpr std::size_t kMaxInteger = 6;
constexpr std::size_t kMaxFraction = 9;
// Every decimal of 15 significant digits survives decimal -> binary64 -> shortest decimal.
static_assert(kMaxInteger + kMaxFraction <= 15);
constexpr double kMaxMagnitude = 1000;
constexpr long kMaxExponent = 1'000'000;  // larger than any document: where exact arithmetic on the exponent may stop

std::unexpected<Error> Invalid(std::string_view text, std::string_view at, std::string_view reason) {
  const std::string_view shown = text.substr(0, 40);
  return Fail(
      Code::WEIGHT_INVALID, std::string(at),
      fmt::format("found {}{}, {}; write a decimal such as 0.7, at most 15 significant digits, 9 after the point, from -1000 to 1000",
                  shown, shown.size() < text.size() ? "..." : "", reason));
}

// [+-] int [. digits] [(e|E) [+-] digits], int without a leading zero: what TOML and JSON have in common for numbers, and the '+'.
struct Notation {
  bool negative = false;
  std::string digits;  // those of int and of the fraction
  long point = 0;      // digits before the decimal point, after the exponent is applied; may lie outside `digits`
};

std::string_view TakeDigits(std::string_view& rest) {
  const std::size_t size = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const std::string_view digits = rest.substr(0, size);
  rest.remove_prefix(size);
  return digits;
}

bool TakeAny(std::string_view& rest, std::string_view set) {
  if (rest.empty() || set.find(rest[0]) == std::string_view::npos) return false;
  rest.remove_prefix(1);
  return true;
}

std::optional<Notation> ReadNotation(std::string_view rest) {
  Notation notation;
  notation.negative = rest.starts_with('-');
  TakeAny(rest, "+-");
  const std::string_view integer = TakeDigits(rest);
  if (integer.empty() || (integer.size() > 1 && integer[0] == '0')) return std::nullopt;
  notation.digits = integer;
  notation.point = static_cast<long>(integer.size());
  if (TakeAny(rest, ".")) {
    const std::string_view fraction = TakeDigits(rest);
    if (fraction.empty()) return std::nullopt;
    notation.digits += fraction;
  }
  if (TakeAny(rest, "eE")) {
    const bool down = rest.starts_with('-');
    TakeAny(rest, "+-");
    const std::string_view exponent = TakeDigits(rest);
    if (exponent.empty()) return std::nullopt;
    long value = 0;
    for (const char digit : exponent) value = std::min(kMaxExponent, value * 10 + (digit - '0'));
    notation.point += down ? -value : value;
  }
  if (!rest.empty()) return std::nullopt;
  return notation;
}

}  // namespace

Result<Decimal> Decimal::FromAuthored(std::string_view text, std::string_view at) {
  const auto notation = ReadNotation(text);
  if (!notation) return Invalid(text, at, "which is not a decimal number");
  const std::size_t first = notation->digits.find_first_not_of('0');
  if (first == std::string::npos) {
    if (notation->negative) return Invalid(text, at, "a negative zero");
    return Decimal();
  }
  const std::size_t last = notation->digits.find_last_not_of('0');
  const std::string digits = notation->digits.substr(first, last - first + 1);  // value = 0.digits * 10^point
  const long point = notation->point - static_cast<long>(first);
  if (point > static_cast<long>(kMaxInteger)) return Invalid(text, at, "which has more than 6 digits before the point");
  const long fraction_size = static_cast<long>(digits.size()) - point;
  if (fraction_size > static_cast<long>(kMaxFraction))
    return Invalid(text, at, "which has more than 9 digits after the point and is not rounded");

  std::string canonical = notation->negative ? "-" : "";
  if (point <= 0) {
    canonical += "0." + std::string(static_cast<std::size_t>(-point), '0') + digits;
  } else if (fraction_size <= 0) {
    canonical += digits + std::string(static_cast<std::size_t>(-fraction_size), '0');
  } else {
    canonical += digits.substr(0, static_cast<std::size_t>(point)) + "." + digits.substr(static_cast<std::size_t>(point));
  }
  Decimal decimal(std::move(canonical));
  if (decimal.value() > kMaxMagnitude || decimal.value() < -kMaxMagnitude) return Invalid(text, at, "which is beyond 1000 in magnitude");
  return decimal;
}

Result<Decimal> Decimal::FromCanonical(std::string_view text, std::string_view at) {
  VENEER_ASSIGN(Decimal decimal, FromAuthored(text, at));
  if (decimal.text() != text)
    return Fail(Code::NOT_CANONICAL, std::string(at),
                fmt::format("found \"{}\", its one canonical spelling is \"{}\"", text, decimal.text()));
  return decimal;
}

Decimal Decimal::FromFraction(std::uint64_t numerator, std::uint64_t denominator) {
  if (denominator == 0) return {};
  using Wide = unsigned __int128;  // numerator * 10^9 needs 94 bits
  constexpr Wide kScale = 1'000'000'000;
  const Wide scaled = Wide{numerator} * kScale;
  Wide quotient = scaled / denominator;
  const Wide twice_rest = scaled % denominator * 2;
  if (twice_rest > denominator || (twice_rest == denominator && quotient % 2 == 1)) ++quotient;
  std::string text = fmt::format("{}.{:09}", static_cast<std::uint64_t>(quotient / kScale), static_cast<std::uint64_t>(quotient % kScale));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return Decimal(std::move(text));
}

double Decimal::value() const {
  double value = 0;
  std::from_chars(text_.data(), text_.data() + text_.size(), value);  // cannot fail: the text is canonical
  return value;
}

}  // namespace veneer
