// What every reader of adapters asks of a site's tensors once they have their roles.
#ifndef VENEER_CORE_ADAPTER_SITE_CHECKS_H_
#define VENEER_CORE_ADAPTER_SITE_CHECKS_H_

#include <cstdint>
#include <string_view>

#include "core/base/error.h"
#include "core/model/site.h"
#include "core/plugin/overlay.h"

namespace veneer {

// The note for an adapter of which no site HasEffect.
inline constexpr std::string_view kNoEffect = "all its edits are zero: it was saved before any training";

// E406 for a rank above the smaller dimension of the site.
Status CheckRank(const Site& site, std::uint64_t rank);

// Whether no tensor of an additive kind's source is all zeros: then its product is not zero either.
bool HasEffect(const OverlaySource& source);

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_SITE_CHECKS_H_
