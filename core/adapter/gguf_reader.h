// Adapters in llama.cpp's GGUF layout, driven by the declarations of veneer.import.gguf/1: tensors named after those of a GGUF base, in
// that base's row order, with one scale for the whole file.
#ifndef VENEER_CORE_ADAPTER_GGUF_READER_H_
#define VENEER_CORE_ADAPTER_GGUF_READER_H_

#include <string>
#include <string_view>

#include "core/adapter/adapter.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/format/gguf.h"
#include "core/model/base.h"
#include "core/plugin/catalog.h"

namespace veneer {

// Whether the file says that it is an adapter (general.type); a base model does not.
bool IsGgufAdapter(const GgufFile& file);

// The kind that takes the file: what can be known without a base. `kind`: only this one. E203 and E204 metadata missing or mistyped,
// E401 no adapter or a key that is refused, E402 and E403 corrupt, E411 a numerator that is not finite, E415 no kind reads its type, E416
// several do, E418.
Result<std::string> IdentifyGgufAdapter(const FileBytes& file, const Catalog& catalog, std::string_view kind);

// The same and everything against the base: E404 shapes, E405 a tensor the base does not have, E406 rank, E411 not finite, E414 another
// architecture, E419 a tensor that would be ignored or a missing half, E420 nothing matched.
Result<Adapter> ReadGgufAdapter(AdapterFiles files, const Base& base, const Catalog& catalog, std::string_view kind);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_GGUF_READER_H_
