// The memory plan against what the kernel counted: DESIGN 9, on small models within 4 MiB.
// Measured here: the plan lies 0.46 to 0.77 MiB below. So 4 MiB do not show whether the overlays' scratch is counted on a model of this
// size; tests/core/decode/plan_test.cc compares that to the byte.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/process.h"

#if defined(__has_feature)
#define VENEER_HAS_FEATURE(name) __has_feature(name)
#else
#define VENEER_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || VENEER_HAS_FEATURE(address_sanitizer) || \
    VENEER_HAS_FEATURE(thread_sanitizer)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

namespace {

using Strings = std::vector<std::string>;

std::string Adapter(const std::string& name) { return (DemoData() / "adapters" / name).string(); }

struct Run {
  std::string name;
  Strings options;  // of both plan and generate
};

// A prompt of two batches and new tokens to the end of a context of 512: every buffer and all of K/V is used.
Strings Generate() {
  std::string tokens = "1";
  for (int i = 1; i < 300; ++i) tokens += "," + std::to_string(3 + i % 300);
  return {"generate", "--json", "--ignore-eos", "--temp", "0", "-n", "212", "--tokens", tokens};
}

}  // namespace

TEST_CASE("memory: the plan is within 4 MiB of what generate takes at most, with adapters and without, in both modes") {
  if (kIsSanitized) {
    WARN("SKIP: sanitizers keep shadow memory, so the plan cannot be compared with what this process takes");
    return;
  }
  // This process has become large when other cases ran in it, and what it has counts for what it starts. So a fresh one measures.
  constexpr const char* kFresh = "VENEER_TEST_MEMORY_FRESH";
  if (std::getenv(kFresh) == nullptr) {
    const ProcessResult fresh = RunProcess({"/proc/self/exe", "memory: the plan is within*"}, "", {std::string(kFresh) + "=1"});
    INFO(fresh.out << fresh.err);
    CHECK(fresh.out.find("All tests passed") != std::string::npos);
    CHECK(fresh.status == 0);
    return;
  }
  const std::vector<Run> runs{
      {"base alone", {}},
      {"one adapter", {"--adapter", Adapter("bard")}},
      {"three adapters", {"--adapter", Adapter("lexicon"), "--adapter", Adapter("bard") + "=0.5", "--adapter", Adapter("hacker")}},
      {"exact", {"--adapter", Adapter("lexicon"), "--adapter", Adapter("bard"), "--compute", "exact"}}};
  for (const Run& run : runs) {
    CAPTURE(run.name);
    Strings options{"--base", (DemoData() / "fable-q4_0.gguf").string(), "-c", "512", "--threads", "2"};
    options.insert(options.end(), run.options.begin(), run.options.end());
    Strings plan_line{"plan", "--json"}, generate_line = Generate();
    plan_line.insert(plan_line.end(), options.begin(), options.end());
    generate_line.insert(generate_line.end(), options.begin(), options.end());
    const ProcessResult plan = Veneer(plan_line), generate = Veneer(generate_line);
    INFO(plan.err << generate.err);
    REQUIRE(plan.status == 0);
    REQUIRE(generate.status == 0);
    REQUIRE(generate.peak_bytes > OwnPeakBytes());
    REQUIRE(nlohmann::json::parse(generate.out).at("tokens").size() == 212);
    const auto terms = nlohmann::json::parse(plan.out);
    const auto planned = terms.at("peak_bytes").get<std::int64_t>();
    const auto taken = static_cast<std::int64_t>(generate.peak_bytes);
    CAPTURE(terms.dump(), planned, taken, planned - taken);
    CHECK(std::abs(planned - taken) <= 4 << 20);
  }
}
