// Waiting for another process to make another generation the current one.
#ifndef VENEER_CORE_STORE_FOLLOW_H_
#define VENEER_CORE_STORE_FOLLOW_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/store/layout.h"
#include "core/store/records.h"

namespace veneer {

// The kernel's watch on state/ when there is one to be had, else a look every `poll` (watches run out, and network file systems have
// none); a look at least every second also with a watch. For one thread at a time; the store outlives it (Store::Follow makes one).
class GenerationFollower {
 public:
  explicit GenerationFollower(const StoreContext& store, std::chrono::milliseconds poll);

  // The pointer as soon as it names another generation than `seen`, which may be a smaller one; nothing when `wait` is over first.
  // E602 and E603 when the pointer cannot be read: also after `wait`, so that a loop of calls does not spin.
  Result<std::optional<Current>> Wait(std::uint64_t seen, std::chrono::milliseconds wait);

  // Why it polls; empty while it watches.
  [[nodiscard]] const std::string& polls_because() const { return polls_because_; }

 private:
  void Pause(std::chrono::milliseconds at_most);
  const StoreContext* store_;
  std::chrono::milliseconds poll_;
  std::optional<UniqueFd> watch_;
  std::string polls_because_;
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_FOLLOW_H_
