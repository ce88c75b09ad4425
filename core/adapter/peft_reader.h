// Tensors of a PEFT checkpoint to sites and roles: every tensor must resolve, every targeted site must have its tensors.
#ifndef VENEER_CORE_ADAPTER_PEFT_READER_H_
#define VENEER_CORE_ADAPTER_PEFT_READER_H_

#include "core/adapter/adapter.h"
#include "core/adapter/peft_config.h"
#include "core/format/safetensors.h"

namespace veneer {

// Fills kind, sites, shared tensors, rank and notes of `adapter`. Codes: E404-E406, E411, E419, E420.
Status ReadPeftTensors(const SafetensorsFile& file, const PeftConfig& config, const Base& base, Adapter& adapter);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_PEFT_READER_H_
