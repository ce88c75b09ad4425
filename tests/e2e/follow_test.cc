// A process that answers prompts while others switch what is active: what it adopts and when, and what it does when it cannot.
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kPrompt = "And the king said";
// Long enough that a switch by another process falls into it.
constexpr const char* kLong = "200";
constexpr std::size_t kLines = 12;

class Followed : public ProgramStore {
 public:
  Followed() {
    Must({"import", "base", (DemoData() / "fable-q4_0.gguf").string(), "--name", "fable"});
    for (const char* adapter : {"bard", "hacker"}) {
      Must({"import", "adapter", (DemoData() / "adapters" / adapter).string(), "--name", adapter});
      Compose(adapter, "fable", {adapter});
    }
    Compose("plain", "fable", {});
    Activate("plain");
  }
  void Activate(const std::string& name) const { Must({"activate", Path(name + ".toml")}); }
  [[nodiscard]] std::vector<std::string> Lines(const std::string& n, const std::string& policy = "abort") const {
    return {"generate",  "--lines", "-",  "--json", "--temp",      "0",    "--ignore-eos", "--compute",  "exact",
            "--threads", "1",       "-n", n,        "--on-switch", policy, "--store",      Path("store")};
  }
  // What a fresh process says under the active composition.
  [[nodiscard]] nlohmann::json Fresh(const std::string& n) const {
    return MustJson({"generate", "-p", kPrompt, "--temp", "0", "--ignore-eos", "--compute", "exact", "--threads", "1", "-n", n});
  }
  [[nodiscard]] fs::path BlobOf(const std::string& file) const {
    const std::string bytes = ReadAll(file);
    for (const auto& entry : fs::directory_iterator(Path("store") + "/blobs/sha256"))
      if (fs::file_size(entry) == bytes.size() && ReadAll(entry.path()) == bytes) return entry.path();
    throw std::runtime_error("no blob of " + file);
  }
};

nlohmann::json Ask(LiveVeneer& live) {
  live.Write(std::string(kPrompt) + "\n");
  return nlohmann::json::parse(live.ReadLine());
}

// The next line of standard error that begins so.
std::string WaitForNote(LiveVeneer& live, const std::string& beginning) {
  for (int i = 0; i < 100; ++i)
    if (std::string line = live.ReadErrorLine(); line.starts_with(beginning)) return line;
  throw std::runtime_error("no note " + beginning);
}

bool IsPrefix(const nlohmann::json& part, const nlohmann::json& whole) {
  if (part.size() > whole.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i)
    if (part[i] != whole[i]) return false;
  return true;
}

}  // namespace

TEST_CASE("follow: a line that comes after an activation by another process is answered under it, as a fresh process answers it") {
  const Followed store;
  LiveVeneer live(store.Lines("16"));
  std::uint64_t generation = store.MustJson({"status"}).at("generation");
  for (const char* name : {"plain", "bard", "plain", "hacker"}) {
    CAPTURE(name);
    if (std::string(name) != "plain" || generation > 2) {
      store.Activate(name);
      ++generation;
    }
    const auto answer = Ask(live), fresh = store.Fresh("16");
    CHECK(answer.at("tokens") == fresh.at("tokens"));
    CHECK(answer.at("text") == fresh.at("text"));
    CHECK(answer.at("composition") == fresh.at("composition"));
    CHECK(answer.at("generation") == generation);
    CHECK(answer.at("tokens").size() == 16);
  }
  store.Must({"rollback"});
  CHECK(Ask(live).at("tokens") == store.Fresh("16").at("tokens"));
  CHECK(live.Finish().status == 0);
}

TEST_CASE("follow: an idle process adopts what becomes active without being asked, and says so") {
  const Followed store;
  LiveVeneer live(store.Lines("4"));
  CHECK(live.ReadErrorLine().starts_with("serving gen=2 composition=sha256:"));
  store.Activate("bard");
  const std::string id = store.MustJson({"status"}).at("composition");
  CHECK(WaitForNote(live, "serving gen=3") == "serving gen=3 composition=" + id);
  store.Must({"deactivate"});
  CHECK(WaitForNote(live, "serving gen=4") == "serving gen=4 composition=none");
  CHECK(Ask(live).at("error").at("code") == 605);
  store.Activate("plain");
  CHECK(Ask(live).at("tokens").size() == 4);
  CHECK(live.Finish().status == 4);
}

TEST_CASE("follow: a generation whose files are bad is not adopted; the one before stays in force, and the next good one is adopted") {
  const Followed store;
  LiveVeneer live(store.Lines("16"));
  const auto plain = Ask(live);
  live.Signal(SIGSTOP);  // so that the damage is there when it looks
  store.Activate("bard");
  const fs::path blob = store.BlobOf((DemoData() / "adapters/bard/adapter_model.safetensors").string());
  std::string bytes = ReadAll(blob);
  bytes[bytes.size() - 1] ^= 1;
  fs::permissions(blob, fs::perms::owner_write, fs::perm_options::add);
  WriteAll(blob, bytes);
  fs::permissions(blob, fs::perms::owner_write, fs::perm_options::remove);
  live.Signal(SIGCONT);
  const std::string note =
      WaitForNote(live, "serving gen=2 composition=" + plain.at("composition").get<std::string>() + "; gen=3 is not: E");
  INFO(note);
  CHECK(note.find("E303 HASH_MISMATCH at=/adapters/0/file_hash") != std::string::npos);
  const auto answer = Ask(live);
  CHECK(answer.at("tokens") == plain.at("tokens"));
  CHECK(answer.at("generation") == 2);
  store.Activate("hacker");
  const auto next = Ask(live);
  CHECK(next.at("generation") == 4);
  CHECK(next.at("tokens") == store.Fresh("16").at("tokens"));
  CHECK(live.Finish().status == 0);
}

TEST_CASE("follow: under abort the line being decoded ends with E616 and its composition's tokens; under keep and drain it ends whole") {
  for (const std::string policy : {"abort", "keep", "drain", "reject"}) {
    CAPTURE(policy);
    const Followed store;
    const auto plain = store.Fresh(kLong);
    LiveVeneer live(store.Lines(kLong, policy));
    CHECK(live.ReadErrorLine().starts_with("serving gen=2"));
    for (std::size_t i = 0; i < kLines; ++i) live.Write(std::string(kPrompt) + "\n");
    const auto first = nlohmann::json::parse(live.ReadLine());
    store.Activate("bard");
    const auto bard = store.Fresh(kLong);
    REQUIRE(bard.at("tokens") != plain.at("tokens"));
    const ProcessResult rest = live.Finish();
    CAPTURE(rest.err);
    std::vector<nlohmann::json> answers{first};
    std::istringstream lines(rest.out);
    for (std::string line; std::getline(lines, line);) answers.push_back(nlohmann::json::parse(line));
    REQUIRE(answers.size() == kLines);
    CHECK(answers.front().at("generation") == 2);
    CHECK(answers.back().at("generation") == 3);
    std::uint64_t generation = 2;
    int aborted = 0;
    for (const auto& answer : answers) {
      CHECK(answer.at("generation") >= generation);  // never back
      generation = answer.at("generation");
      const bool is_new = answer.at("composition") == bard.at("composition");
      const auto& expected = is_new ? bard.at("tokens") : plain.at("tokens");
      if (answer.contains("error")) {
        ++aborted;
        CHECK(answer.at("error").at("code") == 616);
        CHECK_FALSE(is_new);
        CHECK(answer.at("tokens").size() < expected.size());
        CHECK(IsPrefix(answer.at("tokens"), expected));
      } else {
        CHECK(answer.at("tokens") == expected);
      }
    }
    CHECK(aborted <= (policy == "abort" ? 1 : 0));
    CHECK(rest.status == (aborted > 0 ? 4 : 0));
  }
}

TEST_CASE("follow: --lines refuses what it cannot follow, and another policy than the four") {
  const Followed store;
  CHECK(store.Run({"generate", "--lines", "-", "--base", (DemoData() / "fable-q4_0.gguf").string()}).status == 2);
  CHECK(store.Run({"generate", "--lines", "-p", "x"}).status == 2);
  CHECK(store.Run({"generate", "--lines"}).status == 2);
  const ProcessResult policy = store.Run({"generate", "--lines", "-", "--on-switch", "merge"});
  CHECK(policy.status == 2);
  CHECK(policy.err.find("allowed abort, keep, drain, reject") != std::string::npos);
}
