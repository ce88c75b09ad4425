#include "tests/core/store/faults/cases.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/support/catch.h"

namespace {

constexpr unsigned kSeedShift = 32;
constexpr std::uint64_t kMostReported = 5;  // of one loop: the first ones tell the story

std::uint64_t Number(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

std::uint64_t Replay() { return Number("VENEER_FAULT_REPLAY", 0); }

}  // namespace

std::uint64_t Seed() { return Replay() != 0 ? Replay() >> kSeedShift : Number("VENEER_FAULT_SEED", 1); }
std::uint64_t Effort() { return Number("VENEER_FAULT_EFFORT", 1); }

Cases::Cases(std::string loop) : loop_(std::move(loop)), replay_(Replay()) {}

Cases::~Cases() {
  if (replaying()) return;
  fmt::print("{}: {} cases", loop_, ran_);
  if (points > 0) fmt::print(", {} of {} fault points", points_reached, points);
  if (images > 0) fmt::print(", {} distinct disks recovered", images);
  fmt::print(", {} violations", violations_);
  for (const auto& [code, count] : codes_) fmt::print("{} E{} x {}", code == codes_.begin()->first ? "; errors seen:" : ",", code, count);
  fmt::print("\n");
  std::fflush(stdout);
}

bool Cases::Next() {
  ++place_;
  if (replaying() && (Seed() << kSeedShift | place_) != replay_) return false;
  ++ran_;
  return true;
}

void Cases::Report(const std::vector<std::string>& violations, const std::function<std::string()>& what) {
  if (violations.empty() && !replaying()) return;
  std::string text = fmt::format("{}, {}", loop_, what());
  for (const std::string& violation : violations) text += "\n  " + violation;
  if (violations.empty()) {
    fmt::print("{}\n  no violation\n", text);
    return;
  }
  violations_ += violations.size();
  if (violations_ > kMostReported + violations.size()) return;
  FAIL_CHECK(text << fmt::format("\n  again: VENEER_FAULT_REPLAY={} veneer_core_store_faults_tests '{}'", Seed() << kSeedShift | place_,
                                 Catch::getResultCapture().getCurrentTestName()));
}
