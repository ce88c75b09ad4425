// The store's story through the command line: import, seal, activate, decode, switch, roll back, check.
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace {

// A store with the fable base and its three adapters, and a manifest for each of some stacks.
class Story : public ProgramStore {
 public:
  Story() {
    Must({"import", "base", (DemoData() / "fable-q4_0.gguf").string(), "--name", "fable"});
    for (const char* adapter : {"bard", "hacker", "lexicon"})
      Must({"import", "adapter", (DemoData() / "adapters" / adapter).string(), "--name", adapter});
    Compose("plain", "fable", {});
    Compose("bard", "fable", {"bard"});
    Compose("hacker", "fable", {"hacker=0.5"});
    Compose("both", "fable", {"lexicon=0.5", "bard=0.7"});
  }
  std::string Logits(const std::string& mode = "exact") {
    Must({"logits", "--tokens", "1,20,300,41,500", "--out", Path("logits.npy"), "--compute", mode});
    return ReadAll(Path("logits.npy"));
  }
  nlohmann::json Status() const { return MustJson({"status"}); }
};

}  // namespace

TEST_CASE("story: base -> A -> base -> B gives the bits of base -> B in both modes, and the base's bytes are untouched") {
  Story story;
  const std::string before = ReadAll(DemoData() / "fable-q4_0.gguf");
  for (const std::string mode : {"exact", "fast"}) {
    CAPTURE(mode);
    story.Must({"activate", story.Path("plain.toml")});
    const std::string base = story.Logits(mode);
    story.Must({"activate", story.Path("hacker.toml")});
    const std::string direct = story.Logits(mode);
    story.Must({"activate", story.Path("plain.toml")});
    story.Must({"activate", story.Path("bard.toml")});
    CHECK(story.Logits(mode) != base);
    story.Must({"activate", story.Path("plain.toml")});
    CHECK(story.Logits(mode) == base);
    story.Must({"activate", story.Path("hacker.toml")});
    CHECK(story.Logits(mode) == direct);
    CHECK(direct != base);
  }
  CHECK(ReadAll(DemoData() / "fable-q4_0.gguf") == before);
  story.Must({"fsck", "--full"});
}

TEST_CASE("story: OK lines end state-changing commands, the generation grows, activating again changes nothing") {
  Story story;
  const std::string first = story.Must({"activate", story.Path("bard.toml")});
  CHECK(first.find("OK ACTIVATE gen=") != std::string::npos);
  CHECK(first.find("composition=sha256:") != std::string::npos);
  const auto status = story.Status();
  CHECK(status.at("composition").get<std::string>().starts_with("sha256:"));
  story.Must({"activate", story.Path("bard.toml")});
  CHECK(story.Status() == status);
  story.Must({"activate", story.Path("both.toml")});
  CHECK(story.Status().at("generation").get<int>() == status.at("generation").get<int>() + 1);
}

TEST_CASE("story: two rollbacks go two steps back, one more has nowhere to go") {
  Story story;
  for (const char* name : {"plain", "bard", "both"}) story.Must({"activate", story.Path(std::string(name) + ".toml")});
  const std::string both = story.Status().at("composition");
  story.Must({"rollback"});
  const std::string bard = story.Status().at("composition");
  story.Must({"rollback"});
  const std::string plain = story.Status().at("composition");
  CHECK(both != bard);
  CHECK(bard != plain);
  CHECK(nlohmann::json::parse(story.Must({"seal", story.Path("plain.toml"), "--json"})).at("composition") == plain);
  CHECK(nlohmann::json::parse(story.Must({"seal", story.Path("bard.toml"), "--json"})).at("composition") == bard);
}

TEST_CASE("story: deactivating one adapter leaves the others, deactivating all leaves nothing to decode over") {
  Story story;
  story.Must({"activate", story.Path("both.toml")});
  story.Must({"deactivate", "lexicon"});
  story.Compose("rest", "fable", {"bard=0.7"});
  const auto rest = nlohmann::json::parse(story.Must({"seal", story.Path("rest.toml"), "--json"}));
  CHECK(story.Status().at("composition") == rest.at("composition"));
  const ProcessResult absent = story.Run({"deactivate", "lexicon"});
  CHECK(absent.status == 3);
  CHECK(absent.err.find("E405") != std::string::npos);
  story.Must({"deactivate"});
  const ProcessResult nothing = story.Run({"generate", "-p", "x", "-n", "1"});
  CHECK(nothing.status == 4);
  CHECK(nothing.err.find("E605") != std::string::npos);
}

TEST_CASE("story: --expect refuses when another composition is active, and a budget too small refuses before anything is allocated") {
  Story story;
  story.Must({"activate", story.Path("plain.toml")});
  const auto before = story.Status();
  const ProcessResult expected = story.Run({"activate", story.Path("bard.toml"), "--expect", "none"});
  CHECK(expected.status == 4);
  CHECK(expected.err.find("E613") != std::string::npos);
  const ProcessResult budget = story.Run({"generate", "-p", "x", "-n", "1", "--memory-budget", "1M"});
  CHECK(budget.status == 4);
  CHECK(budget.err.find("E501") != std::string::npos);
  CHECK(story.Status() == before);
}

TEST_CASE("story: a manifest with a wrong claim is refused with its place and changes nothing") {
  Story story;
  story.Must({"activate", story.Path("plain.toml")});
  const auto before = story.Status();
  std::string manifest = ReadAll(story.Path("bard.toml"));
  const auto rank = manifest.find("merge_weight =");
  REQUIRE(rank != std::string::npos);
  std::ofstream(story.Path("wrong.toml")) << manifest.insert(rank, "rank = 7\n");
  const ProcessResult result = story.Run({"activate", story.Path("wrong.toml")});
  CHECK(result.status == 3);
  CHECK(result.err.find("E406") != std::string::npos);
  CHECK(result.err.find("/adapters/0/rank") != std::string::npos);
  CHECK(story.Status() == before);
}

TEST_CASE("story: generate is reproducible by seed, stops at a stop string, and --json holds the new tokens only") {
  Story story;
  story.Must({"activate", story.Path("plain.toml")});
  const std::vector<std::string> sampled{"generate", "-p", "And the king", "-n", "20", "--temp", "0.9", "--seed", "7", "--json"};
  const auto once = nlohmann::json::parse(story.Must(sampled));
  CHECK(once.at("tokens").size() <= 20);
  CHECK(nlohmann::json::parse(story.Must(sampled)) == once);
  const auto text = nlohmann::json::parse(story.Must({"generate", "-p", "And the king", "-n", "20", "--temp", "0", "--json"}))
                        .at("text")
                        .get<std::string>();
  REQUIRE(text.size() > 6);
  const std::string stop = text.substr(4, 2);
  const auto stopped =
      nlohmann::json::parse(story.Must({"generate", "-p", "And the king", "-n", "20", "--temp", "0", "--json", "--stop", stop}));
  CHECK(stopped.at("text").get<std::string>() == text.substr(0, text.find(stop)));
}

TEST_CASE("story: the demo proves its claims and ends well") {
  const ProcessResult demo = Veneer({"demo"});
  CAPTURE(demo.out, demo.err);
  CHECK(demo.status == 0);
  CHECK(demo.out.find("What was proven") != std::string::npos);
  CHECK(demo.out.find(" NO\n") == std::string::npos);
}
