// One group of linear layers, run and compared with the oracle.
#ifndef VENEER_TESTS_CORE_DECODE_GROUP_RUN_H_
#define VENEER_TESTS_CORE_DECODE_GROUP_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/core/decode/stack.h"

namespace veneer {

// The outputs of one group for `tokens` inputs of random numbers.
struct GroupRun {
  std::vector<float> x;               // [tokens, in]
  std::vector<std::vector<float>> y;  // by site, [tokens, out]
};
GroupRun RunGroup(const StagedComposition& staged, const std::vector<std::string>& names, std::uint32_t tokens, std::uint32_t threads,
                  std::uint32_t first_token = 0);

// Largest error in units of the bound of reference::Product; above 1 is wrong.
double WorstError(const Stack& stack, const std::vector<std::string>& names, const GroupRun& run);

}  // namespace veneer

#endif  // VENEER_TESTS_CORE_DECODE_GROUP_RUN_H_
