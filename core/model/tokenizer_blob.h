// Identity of the tokenizer inside a GGUF (DESIGN 7).
#ifndef VENEER_CORE_MODEL_TOKENIZER_BLOB_H_
#define VENEER_CORE_MODEL_TOKENIZER_BLOB_H_

#include "core/base/error.h"
#include "core/format/gguf.h"
#include "core/model/base.h"

namespace veneer {

// A file without a tokenizer has the id "gguf-none" and no bytes. E402 when the model or pre-tokenizer has a name that cannot
// stand in an id (letters, digits, '.', '_', '-', at most 32).
Result<TokenizerBlob> ReadTokenizerBlob(const GgufFile& file);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_TOKENIZER_BLOB_H_
