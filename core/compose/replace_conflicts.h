// Replacements in a stack: each comes first on its site, and each tensor or row has one owner.
#ifndef VENEER_CORE_COMPOSE_REPLACE_CONFLICTS_H_
#define VENEER_CORE_COMPOSE_REPLACE_CONFLICTS_H_

#include <span>
#include <string>
#include <vector>

#include "core/compose/stage.h"

namespace veneer {

// Ids of the sites that an adapter edits or replaces, sorted, each once.
std::vector<std::string> EditedSites(const Adapter& adapter);

// E216 naming both entries and the site: an earlier entry edits what a later one replaces, or two replace the same. Entries of
// strength 0 do nothing and are in nobody's way.
Status CheckReplacements(std::span<const StageAdapter> stack);

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_REPLACE_CONFLICTS_H_
