// Hyperparameters out of a GGUF's metadata (adapter-formats g.3), ranges checked; what would change the arithmetic and is not
// implemented is refused here by name.
#ifndef VENEER_CORE_MODEL_CONFIG_H_
#define VENEER_CORE_MODEL_CONFIG_H_

#include "core/base/error.h"
#include "core/format/gguf.h"
#include "core/model/base.h"

namespace veneer {

// E401 for what is not implemented, E203/E204 for a missing or mistyped key, E402 for numbers that contradict each other.
Result<ModelConfig> ReadConfig(const GgufFile& file);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_CONFIG_H_
