#include "core/compose/staged_composition.h"

#include <fmt/format.h>

namespace veneer {

Status StagedComposition::CheckHealthy() const {
  for (const auto& binding : bindings_)
    if (binding->faulted())
      return Fail(Code::PLUGIN_FAULT, binding->site().id,
                  "an overlay failed while decoding; the composition is marked as faulted, activate another one");
  return {};
}

}  // namespace veneer
