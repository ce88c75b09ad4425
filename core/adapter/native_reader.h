// veneer's own adapter layout: one safetensors file that needs no configuration, for any kind.
//
// Tensors are named `<module>.<role>`, with the roles that the kind declares. Metadata, all of it optional but `format`:
//   format            "veneer.KIND"            format_version  "1"
//   weight_layout     "hf": rows in Hugging Face order; "gguf" only where that is the same order
//   arch              the base's architecture  modules         JSON object module -> {rows, cols, nnz}, checked against the tensors
//   producer, base_fingerprint                 text
// Any other member is a parameter of the kind, for all modules. Source: adapter-formats c.1, generalised from sparse deltas.
// A file without metadata is taken when its names fit the roles of exactly one kind.
#ifndef VENEER_CORE_ADAPTER_NATIVE_READER_H_
#define VENEER_CORE_ADAPTER_NATIVE_READER_H_

#include <string>

#include "core/adapter/adapter.h"
#include "core/format/safetensors.h"

namespace veneer {

// Whether the file's metadata says that it is in this layout.
bool DescribesItself(const SafetensorsFile& file);

// The kind of a file without a PEFT configuration, `wanted` or by its metadata or names. E301 when it is none (a PEFT adapter whose
// configuration is missing, most likely), E415, E416 when several kinds fit.
Result<std::string> IdentifyNative(const SafetensorsFile& file, const Catalog& catalog, std::string_view wanted);

// Fills kind, sites or replacements, shared tensors and notes of `adapter`. Codes: E203, E213, E401, E404, E405, E411, E415, E419, E420.
Status ReadNative(const SafetensorsFile& file, std::string_view name_of_file, const Base& base, const Catalog& catalog,
                  std::string_view wanted, Adapter& adapter);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_NATIVE_READER_H_
