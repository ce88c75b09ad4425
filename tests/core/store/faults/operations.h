// The operations that the loops break, each with the disk it starts from and what it may leave.
#ifndef VENEER_TESTS_CORE_STORE_FAULTS_OPERATIONS_H_
#define VENEER_TESTS_CORE_STORE_FAULTS_OPERATIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/store/store.h"
#include "tests/core/store/faults/oracle.h"
#include "tests/support/sim_image.h"

// Does the operation when it is called. `ack` becomes kDone when the store says "committed" to the caller's log of states, which may be
// before it returns, and kRefused when it says "aborted".
using Running = std::function<veneer::Status(Ack& ack)>;

// What the operation does when its work is there already.
enum class Repeat {
  kChangesNothing,
  kGoesOn,
  kKeepsWhatIsThere,  // also when its work is not there
  kMayFail,           // what it needs was never promised to it
};

struct Operation {
  std::string name;
  std::uint64_t calls = 0;  // through Sys, without faults: a new call shows up in review
  SimImage before;
  Expectation expected;
  Repeat repeat = Repeat::kChangesNothing;
  // Opens what the operation needs; the calls of that are not part of it.
  std::function<Running(veneer::Sys& sys)> start;
  bool own_code = true;       // false: L2 and L5 learn nothing from it that another operation does not show
  bool unnamed_files = true;  // false: on a disk without O_TMPFILE
};

// All of them, made once for a seed; the references stay.
const std::vector<Operation>& Operations();
const Operation& FindOperation(const std::string& name);

// How every test here opens the simulated store.
veneer::Result<veneer::Store> OpenStore(veneer::Sys& sys);
// A store with the files and compositions of the fixture, and generations A, none, A: A is active, `none` is the rollback target.
SimImage UsedStore();
const veneer::Digest& IdOfA();
const veneer::Digest& IdOfB();
const veneer::Digest& IdOfNone();

#endif  // VENEER_TESTS_CORE_STORE_FAULTS_OPERATIONS_H_
