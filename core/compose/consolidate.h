// Consolidation: low-rank overlays of a composition become part of its dense residual, which stays one reversible overlay.
#ifndef VENEER_CORE_COMPOSE_CONSOLIDATE_H_
#define VENEER_CORE_COMPOSE_CONSOLIDATE_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/compose/validate.h"

namespace veneer {

struct Consolidation {
  std::string weights;                // the new residual, a safetensors file of bf16 tensors
  std::string name;                   // its entry in the manifest
  std::vector<std::string> consumed;  // entries that are gone
  Manifest manifest;                  // the composition with the residual in the place of the first consumed entry
};

// Per site: delta = sum of the consumed overlays' edits in f32, added in f32 to the stored residual, rounded once to bf16 (half to even).
// Where the deltas are zero the residual keeps its bits. `names`: entries to consume; none: every low-rank one in force. Nothing to
// consume: nothing is returned. The new residual is called as the old one, or as its kind, with a number that makes the name differ from
// those that are `taken` and from the composition's.
//
// Refused, because folding would change the result: E405 an entry that is not there, E401 one that is not of low rank, that has a
// trained bias or replacements, a residual whose strength is not 1 or that is one of several, and a non-additive or replacing overlay
// that the edit would have to pass on a site. E415 when no installed kind is dense and additive, E411 when a sum is not finite.
Result<std::optional<Consolidation>> Consolidate(const ValidatedComposition& active, const std::vector<std::string>& names,
                                                 const std::set<std::string>& taken, const Catalog& catalog);

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_CONSOLIDATE_H_
