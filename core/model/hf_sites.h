// The sites of a Hugging Face base.
#ifndef VENEER_CORE_MODEL_HF_SITES_H_
#define VENEER_CORE_MODEL_HF_SITES_H_

#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/model/base.h"
#include "core/model/site.h"
#include "core/model/site_builder.h"

namespace veneer {

// BuildSites over the joined tensors (core/model/bitsandbytes.h), sorted by name. With a tied head a stored lm_head must hold the
// embedding's bytes: E402.
Result<std::vector<Site>> BuildHfSites(std::span<const BaseTensor> tensors, const ModelConfig& config);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_HF_SITES_H_
