// The cases of a loop, numbered so that one number replays one of them, and the figures of a loop.
//
// A case's number holds the seed in its upper half and its place in the loop in its lower one. VENEER_FAULT_REPLAY=<number> makes the
// same loop walk over all cases and run that one alone, with every call printed. VENEER_FAULT_SEED=<n> starts from other random numbers,
// VENEER_FAULT_EFFORT=<n> (default 1) multiplies what is sampled.
#ifndef VENEER_TESTS_CORE_STORE_FAULTS_CASES_H_
#define VENEER_TESTS_CORE_STORE_FAULTS_CASES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"

std::uint64_t Seed();  // what everything random is made from; of the replayed number when there is one
std::uint64_t Effort();

class Cases {
 public:
  explicit Cases(std::string loop);  // "L4 activate"
  ~Cases();                          // prints the figures
  Cases(const Cases&) = delete;
  Cases& operator=(const Cases&) = delete;

  // The next case; false when it is not to be run, because another one is replayed.
  bool Next();
  [[nodiscard]] bool replaying() const { return replay_ != 0; }
  // Violations of the current case, and how to see it again. `what` is only called when there are any.
  void Report(const std::vector<std::string>& violations, const std::function<std::string()>& what);
  // Whether this state (with what is expected of it) is new: equal ones are checked once. Always true for the case that is replayed.
  bool IsNew(std::uint64_t fingerprint) { return replaying() || seen_.insert(fingerprint).second; }

  void Saw(veneer::Code code) { ++codes_[static_cast<int>(code)]; }
  [[nodiscard]] bool HasSeen(veneer::Code code) const { return codes_.contains(static_cast<int>(code)); }
  [[nodiscard]] std::uint64_t ran() const { return ran_; }
  [[nodiscard]] std::uint64_t violations() const { return violations_; }
  std::uint64_t points = 0, points_reached = 0;  // places where a fault can be put, and those where one was
  std::string ignored;                           // a directory in which disks may differ and still count as equal
  std::uint64_t images = 0;                      // disks that were checked, recovered and checked again

 private:
  std::string loop_;
  std::uint64_t replay_ = 0, place_ = 0, ran_ = 0, violations_ = 0;
  std::set<std::uint64_t> seen_;
  std::map<int, std::uint64_t> codes_;
};

#endif  // VENEER_TESTS_CORE_STORE_FAULTS_CASES_H_
