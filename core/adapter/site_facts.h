// A site as plugins and the host's checks see it.
#ifndef VENEER_CORE_ADAPTER_SITE_FACTS_H_
#define VENEER_CORE_ADAPTER_SITE_FACTS_H_

#include "core/model/site.h"
#include "core/plugin/overlay.h"

namespace veneer {

SiteFacts FactsOf(const Site& site);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_SITE_FACTS_H_
