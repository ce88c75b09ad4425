// The kinds under test, each with tensors and parameters that exercise it, for tests that hold for every kind.
#ifndef VENEER_TESTS_PLUGINS_KINDS_H_
#define VENEER_TESTS_PLUGINS_KINDS_H_

#include <string>
#include <vector>

#include "tests/plugins/harness.h"

namespace plugin_test {

const vnr_kind& DoraKind();  // third_party_dora, linked statically

struct Example {
  std::string name;
  const vnr_kind* kind;
  Site site;
  Tensors tensors;
  Params params;
  std::vector<float> base;  // [out][in]
};
// Every kind in every form and factor type, `out` x `in` (EMBEDDING: vocab x width).
std::vector<Example> Examples(std::uint64_t out, std::uint64_t in, std::uint64_t rank);

}  // namespace plugin_test

#endif  // VENEER_TESTS_PLUGINS_KINDS_H_
