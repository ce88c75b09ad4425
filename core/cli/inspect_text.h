// The facts of `inspect` as text: what a person reads. The JSON holds more; equal layers stand on one line here.
#ifndef VENEER_CORE_CLI_INSPECT_TEXT_H_
#define VENEER_CORE_CLI_INSPECT_TEXT_H_

#include <string>

#include "core/cli/output.h"

namespace veneer::cli {

// By "what" the facts are of.
std::string FactsText(const OutJson& facts);

std::string BaseText(const OutJson& facts);
std::string AdapterText(const OutJson& facts);
std::string CompositionText(const OutJson& facts);
std::string DiffText(const OutJson& facts);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_TEXT_H_
