#include "core/adapter/site_facts.h"

namespace veneer {

SiteFacts FactsOf(const Site& site) {
  SiteFacts facts;
  facts.id = site.id;
  facts.index = site.index;
  facts.shape_class = static_cast<std::uint32_t>(site.shape_class);
  facts.flags = (site.bias ? std::uint32_t{VNR_SITE_HAS_BIAS} : 0u) | (site.is_tied ? std::uint32_t{VNR_SITE_TIED} : 0u);
  facts.out = site.out;
  facts.in = site.in;
  facts.layer = site.layer;
  facts.storage_group = site.storage_group;
  facts.base_dtype = site.weight.dtype;
  return facts;
}

}  // namespace veneer
