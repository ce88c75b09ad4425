// A decoder over a stack, compared with the oracle.
#ifndef VENEER_TESTS_CORE_DECODE_ORACLE_CHECK_H_
#define VENEER_TESTS_CORE_DECODE_ORACLE_CHECK_H_

#include <cmath>

#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"

namespace veneer {

// Exact logits against the oracle within the tolerance of golden vectors: 5e-4 of the logits' deviation + 1e-4.
inline void CheckAgainstOracle(const Stack& stack, std::size_t n_tokens) {
  const std::vector<TokenId> tokens = SomeTokens(n_tokens, stack.base().config().vocab);
  const auto decoder = MakeDecoder(stack.Stage(ComputeMode::kExact), {.threads = 2});
  const std::vector<float> logits = LogitsOf(*decoder, tokens);
  const std::vector<reference::Vector> expected = reference::Model(stack.base(), stack.edits()).Logits(tokens);
  double sum = 0, squares = 0, worst = 0;
  std::size_t i = 0;
  for (const reference::Vector& row : expected)
    for (const double value : row) {
      sum += value;
      squares += value * value;
      worst = std::max(worst, std::abs(static_cast<double>(logits[i++]) - value));
    }
  REQUIRE(i == logits.size());
  const auto n = static_cast<double>(i);
  CHECK(worst <= 5e-4 * std::sqrt(squares / n - sum / n * (sum / n)) + 1e-4);
}

}  // namespace veneer

#endif  // VENEER_TESTS_CORE_DECODE_ORACLE_CHECK_H_
