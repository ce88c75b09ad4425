// One operation on one simulated disk with one fault, and what must be true of any disk that is left: by itself, after recovery, after a
// second recovery, and when the operation is done again.
#ifndef VENEER_TESTS_CORE_STORE_FAULTS_HARNESS_H_
#define VENEER_TESTS_CORE_STORE_FAULTS_HARNESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/core/store/faults/cases.h"
#include "tests/core/store/faults/operations.h"
#include "tests/support/sim_disk.h"
#include "tests/support/sim_sys.h"

struct Outcome {
  veneer::Status status;
  Ack ack = Ack::kNone;  // as the caller knows it in the end: E604 promises nothing
  std::uint64_t calls = 0;
  std::vector<std::string> trace;
  SimImage left;
  std::size_t leaked = 0;  // descriptors
};
using Arm = std::function<void(SimSys& sys, SimDisk& disk, const Ack& ack)>;  // sets the fault; `ack` lives as long as the run
Outcome RunOperation(const Operation& operation, const SimImage& before, const Arm& arm);
// Without a fault.
const Outcome& GoldenRun(const Operation& operation);

// Everything that must hold of a disk on which the operation stopped. Equal disks with equal acknowledgements are checked once.
std::vector<std::string> CheckStopped(const Operation& operation, const SimImage& left, Ack ack, Cases& cases);

// Calls `visit` for every disk that a power cut now can leave, up to a limit of them, else for a sample; `name` tells which.
void ForEveryCut(const SimImage& now, const std::function<void(CutOrder order, std::uint64_t choice, const std::string& name)>& visit);
// CheckStopped for each of them, and for the disk as it is: the process may be killed and the power stay.
void CheckEveryCut(const Operation& operation, const SimImage& now, Ack ack, Cases& cases, const std::function<std::string()>& where);

#endif  // VENEER_TESTS_CORE_STORE_FAULTS_HARNESS_H_
