// Where test data lies: small sets in the repository, larger ones under VENEER_TEST_DATA.
#ifndef VENEER_TESTS_SUPPORT_DATA_H_
#define VENEER_TESTS_SUPPORT_DATA_H_

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "tests/support/catch.h"

inline std::filesystem::path RepoData() { return std::filesystem::path(VENEER_SOURCE_DIR) / "tests/data"; }
inline std::filesystem::path DemoData() { return std::filesystem::path(VENEER_SOURCE_DIR) / "core/demo/data"; }

// The directory VENEER_TEST_DATA names. Nothing when it is unset: the test says SKIP (counted by tests/run.sh) and returns.
inline std::optional<std::filesystem::path> ExternalData() {
  const char* path = std::getenv("VENEER_TEST_DATA");
  if (path != nullptr && *path != '\0') return path;
  WARN("SKIP: VENEER_TEST_DATA is not set, so this part did not run");
  return std::nullopt;
}

#endif  // VENEER_TESTS_SUPPORT_DATA_H_
