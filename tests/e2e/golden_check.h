// Golden vectors through the command line, as a user runs them: exactly, and fast against exact.
#ifndef VENEER_TESTS_E2E_GOLDEN_CHECK_H_
#define VENEER_TESTS_E2E_GOLDEN_CHECK_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/vectors.h"

struct GoldenSet {
  std::filesystem::path base, adapters, vectors;
};

// Logits of `tokens` under the case's adapters, as the program computes them.
Matrix GoldenLogits(const GoldenSet& set, const VectorCase& one, const std::vector<std::int32_t>& tokens,
                    const std::vector<std::string>& extra);

// Every case in exact mode: logits within the case's tolerance, greedy tokens equal up to a near tie.
void CheckExact(const GoldenSet& set);

// For a base without vectors of its own: every prompt of `set.vectors`, continued by its greedy tokens, under the case's adapters, fast
// against exact: KL below 1e-3. Greedy decoding gives as many tokens as were asked for in both modes.
void CheckModesAgree(const GoldenSet& set);

// Every case in fast mode, teacher-forced over prompt and greedy tokens, against exact on the same tokens: KL below 1e-3, and every clear
// argmax kept. `extra`: further options of the fast runs.
void CheckFast(const GoldenSet& set, const std::vector<std::string>& extra = {});

#endif  // VENEER_TESTS_E2E_GOLDEN_CHECK_H_
