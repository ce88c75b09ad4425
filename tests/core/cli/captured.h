// What a function prints to standard output and standard error of this process.
#ifndef VENEER_TESTS_CORE_CLI_CAPTURED_H_
#define VENEER_TESTS_CORE_CLI_CAPTURED_H_

#include <functional>
#include <string>
#include <vector>

struct Captured {
  int status = 0;
  std::string out, err;
};
Captured Capture(const std::function<int()>& body);

// One command line, run inside this process.
Captured RunCommand(const std::vector<std::string>& arguments);

#endif  // VENEER_TESTS_CORE_CLI_CAPTURED_H_
