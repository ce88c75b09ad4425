// A process that decodes over whatever a store has active, and follows when another process activates something else. Adopting a
// generation is a transaction of its own: on any failure the composition before stays in force here, and status() says why.
//
//   VENEER_ASSIGN(const auto served, ServedStore::Open(store, catalog, options));
//   const std::jthread follower([&](std::stop_token stop) { served->Follow(stop); });
//   VENEER_ASSIGN(const ActiveDecode decode, BeginDecode(served->active(), options.decoder));
#ifndef VENEER_CORE_SERVE_SERVED_STORE_H_
#define VENEER_CORE_SERVE_SERVED_STORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/compose/stage.h"
#include "core/decode/active_composition.h"
#include "core/decode/decoder.h"
#include "core/plugin/catalog.h"
#include "core/store/store.h"

namespace veneer {

struct ServeOptions {
  StageOptions stage;
  DecoderOptions decoder;  // of one decode; admission leaves room for it
  std::uint64_t memory_budget = UINT64_MAX;
  SwitchPolicy policy = SwitchPolicy::kAbort;
  std::chrono::milliseconds patience = kSwitchPatience;  // of a switch that drains
  std::chrono::milliseconds retry{1000};                 // after an adoption that failed; after E615 much sooner
};

struct ServingStatus {
  std::uint64_t served_generation = 0;  // 0 before the first
  std::optional<Digest> served;         // nothing: none is active, decoding gives E605
  std::uint64_t wanted_generation = 0;  // the store's, when last looked
  std::optional<Digest> wanted;
  std::optional<Error> error;  // why the wanted one is not served, or the store not readable
  std::string polls_because;   // why changes are polled for; empty when the kernel tells
};

// All calls may be made from several threads. Store and catalogue outlive it.
class ServedStore {
 public:
  // Adopts what is active; a store with nothing active is served as that. Errors of Adopt.
  static Result<std::unique_ptr<ServedStore>> Open(const Store& store, const Catalog& catalog, const ServeOptions& options);

  [[nodiscard]] ActiveComposition& active() { return active_; }
  [[nodiscard]] ServingStatus status() const;

  // One look. True when another generation is served afterwards than before. Opens and verifies through the descriptors that are read,
  // stages beside the composition in force (both must fit the budget: E501), then switches by the policy. On an error nothing has
  // changed but status(); what was staged is kept for the next try at the same generation.
  Result<bool> Adopt();

  // Adopts each new generation until `stop`, which it notices within 50 ms; `on_status` after every change of status().
  void Follow(const std::stop_token& stop, const std::function<void(const ServingStatus&)>& on_status = {});

 private:
  ServedStore(const Store& store, const Catalog& catalog, const ServeOptions& options, std::uint64_t process_bytes);
  Result<bool> AdoptLocked();
  Result<std::shared_ptr<const StagedComposition>> Load(const OpenedActive& opened);
  Result<bool> Serve(const Current& current, std::shared_ptr<const StagedComposition> next);
  std::uint64_t HeldBeside(const Base& base, const Decoder::Memory& decoder) const;
  template <class Change>
  void Update(const Change& change);

  const Store* store_;
  const Catalog* catalog_;
  const ServeOptions options_;
  const std::uint64_t process_bytes_;
  ActiveComposition active_;
  std::mutex adopt_mutex_;                            // one adoption at a time
  std::shared_ptr<const StagedComposition> pending_;  // staged, not yet switched to
  mutable std::mutex status_mutex_;
  ServingStatus status_;
  std::uint64_t status_changes_ = 0;
};

}  // namespace veneer

#endif  // VENEER_CORE_SERVE_SERVED_STORE_H_
