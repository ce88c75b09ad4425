// Runs the built program as users do and returns what it printed.
#ifndef VENEER_TESTS_SUPPORT_PROCESS_H_
#define VENEER_TESTS_SUPPORT_PROCESS_H_

#include <filesystem>
#include <string>
#include <vector>

struct ProcessResult {
  int status = -1;  // exit status; 128 + signal when killed
  std::string out, err;
};

// argv[0] is the program. Standard input is `input`. `environment` holds NAME=VALUE pairs on top of the inherited ones.
ProcessResult RunProcess(const std::vector<std::string>& argv, const std::string& input = "",
                         const std::vector<std::string>& environment = {});

// The veneer program of this build tree.
ProcessResult Veneer(const std::vector<std::string>& arguments, const std::string& input = "");

#endif  // VENEER_TESTS_SUPPORT_PROCESS_H_
