// The sites of a Hugging Face base.
#ifndef VENEER_CORE_MODEL_HF_SITES_H_
#define VENEER_CORE_MODEL_HF_SITES_H_

#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/model/hf_config.h"
#include "core/model/site.h"
#include "core/model/site_builder.h"

namespace veneer {

// BuildSites over the joined tensors (core/model/bitsandbytes.h), sorted by name. E402 also for a stored lm_head that is not the embedding
// it is tied to, and for a bias that is there or missing against what the configuration says.
Result<std::vector<Site>> BuildHfSites(std::span<const BaseTensor> tensors, const HfConfig& config);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_HF_SITES_H_
