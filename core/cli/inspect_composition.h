// What `inspect` tells of a composition, and how two of them differ.
#ifndef VENEER_CORE_CLI_INSPECT_COMPOSITION_H_
#define VENEER_CORE_CLI_INSPECT_COMPOSITION_H_

#include "core/cli/output.h"
#include "core/compose/validate.h"
#include "core/manifest/composition.h"

namespace veneer::cli {

// "base", "tokenizer", "quantization", "runtime", "tied_weights".
OutJson ContractJson(const Composition& composition);

// One adapter as the composition names it: kind, strength, rank, sparsity, targets, params, hashes and sizes.
OutJson EntryJson(const AdapterEntry& entry);

// Base, tokenizer, quantization, runtime, the adapters in order, and "sites": for each edited site its "stack" in the order of effect,
// each member {"adapter", "strength", what EditJson gives, "effective_scale"} or {"adapter", "strength", "replaces": {…}}. The effective
// scale is strength x scale, a kind without a scale counting as 1: what the stored edit is multiplied by in weight space. A
// replacement is in force whole at any strength but 0.
Result<OutJson> CompositionJson(const ValidatedComposition& validated);

// {"equal", "a", "b"} and, each null when equal, "base", "tokenizer", "quantization", "runtime", "tied_weights" as {"a", "b"}; and
// "adapters" {"removed", "added", "changed", "order"}. Adapters belong together by name, the rest by file, configuration and kind
// (renamed ones). "order" is null unless those in both stand in another order.
OutJson DiffJson(const Composition& a, const Composition& b);

}  // namespace veneer::cli

#endif  // VENEER_CORE_CLI_INSPECT_COMPOSITION_H_
