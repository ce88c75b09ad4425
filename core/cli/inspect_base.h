// What `inspect` tells of a base.
#ifndef VENEER_CORE_CLI_INSPECT_BASE_H_
#define VENEER_CORE_CLI_INSPECT_BASE_H_

#include "core/base/digest.h"
#include "core/cli/output.h"
#include "core/model/base.h"

namespace veneer::cli {

// Architecture, sizes, quantization, tokenizer, bytes by type, and every site with its shape and type. `hash` is that of the file.
OutJson BaseFactsJson(const Base& base, const Digest& hash);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_BASE_H_
