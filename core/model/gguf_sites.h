// The sites of a GGUF base.
#ifndef VENEER_CORE_MODEL_GGUF_SITES_H_
#define VENEER_CORE_MODEL_GGUF_SITES_H_

#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/format/gguf.h"
#include "core/model/base.h"
#include "core/model/site.h"
#include "core/model/site_builder.h"

namespace veneer {

std::vector<BaseTensor> TensorsOf(const GgufFile& file);

// BuildSites over the file's tensors.
Result<std::vector<Site>> BuildGgufSites(std::span<const BaseTensor> tensors, const ModelConfig& config);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_GGUF_SITES_H_
