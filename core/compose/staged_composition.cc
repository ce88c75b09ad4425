#include "core/compose/staged_composition.h"

#include <fmt/format.h>

namespace veneer {

std::uint64_t StagedComposition::constant_bytes() const {
  std::uint64_t numbers = 0;
  for (const StagedSite& site : sites_) numbers += site.bias.size() + site.vector.size();
  return numbers * sizeof(float);
}

Status StagedComposition::CheckHealthy() const {
  for (const auto& binding : bindings_)
    if (binding->faulted())
      return Fail(Code::PLUGIN_FAULT, binding->site().id,
                  "an overlay failed while decoding; the composition is marked as faulted, activate another one");
  return {};
}

}  // namespace veneer
