// Making a composition active: the one transaction of the store. Afterwards the old or the new composition is active, whatever
// happened in between; LAYOUT.md has the table of steps and what each crash leaves.
#ifndef VENEER_CORE_STORE_TRANSACTION_H_
#define VENEER_CORE_STORE_TRANSACTION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/manifest/composition.h"
#include "core/store/activation_state.h"
#include "core/store/blobs.h"
#include "core/store/layout.h"
#include "core/store/records.h"

namespace veneer {

// A composition whose files are open and proven. Map or read through these descriptors and no other.
struct OpenedComposition {
  Digest id;
  std::string canonical;  // the stored bytes
  Composition composition;
  std::vector<OpenedBlob> blobs;  // base, tokenizer, per adapter file and configuration; then the statement when one is named
  [[nodiscard]] const OpenedBlob* Find(const Digest& digest) const;
};

// Opens and verifies a composition and all it names. E301-E306, E2xx for a composition that does not parse.
Result<OpenedComposition> OpenComposition(const StoreContext& store, const Digest& id, const std::optional<Digest>& statement,
                                          VerifyMode mode, std::vector<OpenedBlob> verified, const Progress& progress);

struct ExpectedCurrent {
  std::optional<Digest> composition;  // nothing: none is active
};

struct SwitchOptions {
  std::optional<ExpectedCurrent> expect = {};  // E613 when another one is active
  VerifyMode verify = VerifyMode::kStamp;
  // Steps 5 and 6: trust, headers, shapes, budget. Runs under the writer's lock with all files open and proven, and may read the
  // store but must not change it. Not called when the target is no composition. An error refuses the switch: nothing has changed.
  std::function<Status(const OpenedComposition&)> validate = {};
  TransitionLog transitions = {};
  Progress progress = {};  // of hashing
  // Put into the store under the writer's lock, before the files are opened: the composition and its statement, which no name protects
  // from garbage collection until they are active. A refused switch takes out what it put in.
  std::span<const StagedBlob> place = {};
};

struct SwitchRequest {
  GenerationOp op = GenerationOp::kActivate;
  std::optional<Digest> composition;           // kActivate
  std::optional<Digest> statement;             // kActivate: recorded with the generation; a blob
  std::optional<std::uint64_t> to_generation;  // kRollback: instead of the current generation's ancestor
};

struct Activation {
  std::uint64_t generation = 0;  // the one that is active now
  std::optional<Digest> composition;
  bool changed = false;               // false: it was active already, no generation was made
  std::vector<std::string> warnings;  // "W1 AUDIT_DEFERRED at=…"
};

// E604: the new pointer is visible but maybe not durable; the caller closes its handle for writing.
Result<Activation> RunSwitch(const StoreContext& store, const SwitchRequest& request, const SwitchOptions& options);

// Makes what `generation` activated active again when nothing says which generation is, with all checks of an activation: op set-current,
// above every number in use. E613 when the pointer is whole, E606 no such generation, E612.
Result<Activation> RunSetCurrent(const StoreContext& store, std::uint64_t generation, const SwitchOptions& options);

// Generation 1, in a layout without a pointer: the same steps. An interrupted Init is completed.
Result<std::vector<std::string>> RunInit(const StoreContext& store);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_TRANSACTION_H_
