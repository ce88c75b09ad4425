// Runs the built program as users do and returns what it printed.
#ifndef VENEER_TESTS_SUPPORT_PROCESS_H_
#define VENEER_TESTS_SUPPORT_PROCESS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct ProcessResult {
  int status = -1;  // exit status; 128 + signal when killed
  std::string out, err;
  // The most memory that was resident at once (getrusage(2), ru_maxrss), never less than OwnPeakBytes(): the kernel counts from the fork.
  std::uint64_t peak_bytes = 0;
};

// The same of this process. A program that takes less cannot be measured.
std::uint64_t OwnPeakBytes();

// argv[0] is the program. Standard input is `input`. `environment` holds NAME=VALUE pairs on top of the inherited ones.
ProcessResult RunProcess(const std::vector<std::string>& argv, const std::string& input = "",
                         const std::vector<std::string>& environment = {});

// The veneer program of this build tree.
ProcessResult Veneer(const std::vector<std::string>& arguments, const std::string& input = "");

#endif  // VENEER_TESTS_SUPPORT_PROCESS_H_
