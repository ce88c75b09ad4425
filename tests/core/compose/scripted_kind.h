// Two kinds inside the test program, straight on the C ABI, that write down what the host calls and fail where a test says so.
//
//   test.step   D adds /value to element 0 of every row (of a VECTOR site: to its first number), and to every lane of the bias
//   test.reads  the same, and reads row 0 of its predecessor while it stages
#ifndef VENEER_TESTS_CORE_COMPOSE_SCRIPTED_KIND_H_
#define VENEER_TESTS_CORE_COMPOSE_SCRIPTED_KIND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compose/stage.h"

struct Script {
  std::vector<std::string> calls;  // "open", "bind model.norm 2.5": the call, its site and /value
  std::string fail;                // the call that answers `code`, as it would be written down
  std::int32_t code = VNR_E_INTERNAL;
  int artifacts = 0, bindings = 0;                         // alive at this moment
  std::vector<float> predecessor;                          // row 0 as test.reads saw it last
  std::uint64_t shared = 64, resident = 256, peak = 1024;  // what estimate says

  // Those calls that begin with `what` and a blank.
  [[nodiscard]] std::vector<std::string> Of(const std::string& what) const;
};
// The one of this process; New() empties it.
Script& TheScript();
Script& NewScript();

// A catalogue of these two kinds alone.
const veneer::Catalog& ScriptedCatalog();

// An adapter of such a kind: site and /value.
veneer::StageAdapter Scripted(const std::string& name, const std::string& kind, const std::vector<std::pair<std::string, double>>& sites,
                              double strength = 1);

// The composition that goes with a list of adapters; its id is made of names, kinds and sites alone.
veneer::Composition CompositionOf(const veneer::Base& base, const std::vector<veneer::StageAdapter>& adapters);

veneer::Result<std::shared_ptr<const veneer::StagedComposition>> StageScripted(const std::shared_ptr<const veneer::Base>& base,
                                                                               const std::vector<veneer::StageAdapter>& adapters,
                                                                               const veneer::StageOptions& options = {});

#endif  // VENEER_TESTS_CORE_COMPOSE_SCRIPTED_KIND_H_
