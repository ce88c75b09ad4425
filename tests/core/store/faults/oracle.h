// The invariants I1 to I9 read from the bytes of a disk, with no code of the store: only SHA-256, lines and substrings. What it knows of
// the formats is LAYOUT.md.
#ifndef VENEER_TESTS_CORE_STORE_FAULTS_ORACLE_H_
#define VENEER_TESTS_CORE_STORE_FAULTS_ORACLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "tests/support/sim_image.h"

inline constexpr const char* kStore = "store";  // the store's root on every simulated disk

// What an operation may leave: all of the one or all of the other.
struct Facts {
  std::uint64_t generation = 0;  // 0: no pointer yet (before Init)
  std::optional<veneer::Digest> composition;
  std::string ref;  // the record in refs/adapter/new, empty when there is none
  bool operator==(const Facts&) const = default;
};
std::optional<Facts> ReadFacts(const SimImage& image);  // nothing: CURRENT is not whole

// What the caller was told before the disk stopped.
enum class Ack { kNone, kDone, kRefused };

struct Expectation {
  Facts before, after;
  bool refusal_decides = true;  // an error says that nothing has changed; false for what has no commit point of its own
  std::string damaged = {};     // hex of a blob that is bad from the start: a repair moves it away, an import replaces it
};

// I1 to I5, which hold at every moment; empty: none is broken.
std::vector<std::string> CheckTruth(const SimImage& image, const Expectation& expected, Ack ack);
// I6 to I8 and the absence of litter, which recovery owes.
std::vector<std::string> CheckRecovered(const SimImage& image);

// One record of the log, as much as the oracle needs.
struct LogLine {
  std::string json;
  [[nodiscard]] std::string Get(const std::string& name) const;  // of a string or an integer; "" when absent
};
std::vector<LogLine> ReadLogLines(const SimImage& image, std::vector<std::string>& violations);

#endif  // VENEER_TESTS_CORE_STORE_FAULTS_ORACLE_H_
