#include "core/manifest/decimal.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

using namespace veneer;

namespace {

std::string Authored(std::string_view text) {
  const auto decimal = Decimal::FromAuthored(text, "/w");
  return decimal ? decimal->text() : "E" + std::to_string(static_cast<int>(decimal.error().code));
}

}  // namespace

TEST_CASE("decimal: every authored notation has the one spelling of its value", "[manifest]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"0", "0"},
      {"0.000", "0"},
      {"+0", "0"},
      {"0e400", "0"},
      {"1", "1"},
      {"1.0", "1"},
      {"10", "10"},
      {"1e1", "10"},
      {"100.0", "100"},
      {"0.7", "0.7"},
      {"0.70", "0.7"},
      {"7e-1", "0.7"},
      {"+0.7", "0.7"},
      {"-0.25", "-0.25"},
      {"-2.5E-1", "-0.25"},
      {"1e3", "1000"},
      {"1000", "1000"},
      {"-1000", "-1000"},
      {"0.000000001", "0.000000001"},
      {"1e-9", "0.000000001"},
      {"999.999999999", "999.999999999"},
      {"12.5e0", "12.5"},
      {"0.0125e2", "1.25"},
      {"123.456789012345e0", "E208"},  // 12 digits after the point
      {"123.456789012", "123.456789012"},
  };
  for (const auto& [authored, canonical] : cases) {
    CAPTURE(authored);
    CHECK(Authored(authored) == canonical);
  }
}

TEST_CASE("decimal: what cannot be held exactly is refused, never rounded", "[manifest]") {
  for (const std::string text : {"",
                                 "-",
                                 "+",
                                 ".",
                                 "0.",
                                 ".5",
                                 "00",
                                 "01",
                                 "1e",
                                 "1e+",
                                 "1..2",
                                 "1.2.3",
                                 "0x1",
                                 "1_0",
                                 " 1",
                                 "1 ",
                                 "nan",
                                 "inf",
                                 "-0",
                                 "-0.0",
                                 "--1",
                                 "1000.000000001",
                                 "1001",
                                 "1e4",
                                 "1000000",
                                 "1e400",
                                 "1e-400",
                                 "1e-10",
                                 "0.1234567891",
                                 "0.70000000000000001",
                                 "1e18446744073709551617"}) {
    CAPTURE(text);
    CHECK(Authored(text) == "E208");
  }
  CHECK(Authored(std::string(1'000'000, '9')) == "E208");
  CHECK(Authored("1e" + std::string(1'000'000, '9')) == "E208");
  CHECK(Authored("0." + std::string(900'000, '0') + "1e900001") == "1");
}

TEST_CASE("decimal: a stored decimal in a second spelling is E212, in none E208", "[manifest]") {
  const auto code = [](std::string_view text) {
    const auto decimal = Decimal::FromCanonical(text, "/w");
    return decimal ? 0 : static_cast<int>(decimal.error().code);
  };
  CHECK(code("0.7") == 0);
  CHECK(code("-1000") == 0);
  for (const std::string_view text : {"0.70", "7e-1", "+0.7", "0.0", "1.0"}) CHECK(code(text) == 212);
  for (const std::string_view text : {"-0", "nan", "0.70000000000000001", ""}) CHECK(code(text) == 208);
}

TEST_CASE("decimal: the value is the nearest double", "[manifest]") {
  CHECK(Decimal::FromAuthored("0.7", "")->value() == 0.7);
  CHECK(Decimal::FromAuthored("-0.25", "")->value() == -0.25);
  CHECK(Decimal::FromAuthored("123.456789012", "")->value() == 123.456789012);
  CHECK(Decimal().value() == 0.0);
  CHECK(Decimal().is_zero());
  CHECK_FALSE(Decimal::FromAuthored("1e-9", "")->is_zero());
  // Other identities, one binary32.
  CHECK(static_cast<float>(Decimal::FromAuthored("0.7", "")->value()) ==
        static_cast<float>(Decimal::FromAuthored("0.70000001", "")->value()));
}

TEST_CASE("decimal: a fraction is rounded half to even at the ninth digit", "[manifest]") {
  CHECK(Decimal::FromFraction(0, 0).text() == "0");
  CHECK(Decimal::FromFraction(0, 7).text() == "0");
  CHECK(Decimal::FromFraction(7, 7).text() == "1");
  CHECK(Decimal::FromFraction(1, 2).text() == "0.5");
  CHECK(Decimal::FromFraction(1, 3).text() == "0.333333333");
  CHECK(Decimal::FromFraction(2, 3).text() == "0.666666667");
  CHECK(Decimal::FromFraction(1, 2'000'000'000).text() == "0");              // 0.0000000005: to the even 0
  CHECK(Decimal::FromFraction(3, 2'000'000'000).text() == "0.000000002");    // 0.0000000015: to the even 2
  CHECK(Decimal::FromFraction(5, 2'000'000'000).text() == "0.000000002");    // 0.0000000025: to the even 2
  CHECK(Decimal::FromFraction(1'999'999'999, 2'000'000'000).text() == "1");  // 0.9999999995
  CHECK(Decimal::FromFraction(UINT64_MAX - 1, UINT64_MAX).text() == "1");    // no overflow
  CHECK(Decimal::FromFraction(UINT64_MAX / 4, UINT64_MAX).text() == "0.25");
}
