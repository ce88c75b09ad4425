// The benches from the command line: what they refuse, and the keys that others read. Figures are for people; no test compares times.
#include <filesystem>
#include <fstream>

#include "tests/core/cli/captured.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

#include <nlohmann/json.hpp>

namespace veneer::cli {
namespace {

std::string Base() { return (DemoData() / "fable-q4_0.gguf").string(); }
std::string Adapter(const char* name) { return (DemoData() / "adapters" / name).string(); }

nlohmann::json Run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.emplace_back("--json");
  const Captured done = RunCommand(arguments);
  INFO(done.err);
  REQUIRE(done.status == 0);
  return nlohmann::json::parse(done.out);
}

TEST_CASE("bench: decode and prefill print their speed under the names that are a contract, with the control beside it") {
  for (const char* phase : {"decode", "prefill"}) {
    const auto json = Run({phase, "--base", Base(), "-n", "12", "--runs", "3"});
    CHECK(json[std::string(phase) + "_tokens_per_s"].get<double>() > 0);
    CHECK(json["tokens"] == 12);
    CHECK(json["interval"]["low"].get<double>() <= json["interval"]["high"].get<double>());
    CHECK(json["control_gb_per_s"].get<double>() > 0);
    CHECK(json["overlay_bytes"] == 0);
    CHECK(json.contains("share_of_control") == (std::string(phase) == "decode"));
  }
}

TEST_CASE("bench: behind a depth, every series starts with so many tokens held") {
  const auto json = Run({"decode", "--base", Base(), "-n", "2", "--runs", "2", "--depth", "9", "-c", "11"});
  CHECK(json["depth"] == 9);
  CHECK(json["decode_tokens_per_s"].get<double>() > 0);
  CHECK(RunCommand({"bench", "decode", "--base", Base(), "-n", "2", "--depth", "9", "-c", "10"}).err.find("E505") != std::string::npos);
}

TEST_CASE("bench: overlays measures each adapter and all together, with kinds, ranks and the bytes they hold") {
  const auto json =
      Run({"overlays", "--base", Base(), "--adapter", Adapter("bard"), "--adapter", Adapter("lexicon") + "=0.5", "-n", "9", "--runs", "2"});
  REQUIRE(json["overlays"].size() == 3);
  std::uint64_t sum = 0;
  for (int i = 0; i < 2; ++i) sum += json["overlays"][i]["overlay_bytes"].get<std::uint64_t>();
  CHECK(json["overlays"][2]["overlay_bytes"] == sum);
  CHECK(json["overlays"][2]["adapters"].size() == 2);
  CHECK(json["overlays"][0]["kinds"].get<std::string>().starts_with("lora r"));
  CHECK(json["overlays"][1]["kinds"] == "ia3");
  const double share = json["overlays"][2]["byte_ratio"].get<double>();
  CHECK(share == Approx(static_cast<double>(sum) / json["base_bytes_per_token"].get<double>()));
  for (const auto& overlay : json["overlays"])
    for (const char* phase : {"decode_ratio", "prefill_ratio"}) CHECK(overlay[phase]["low"].get<double>() > 0);
}

TEST_CASE("bench: switch publishes while another thread decodes") {
  const auto json = Run({"switch", "--base", Base(), "--adapter", Adapter("bard"), "-n", "8", "--runs", "20", "--threads", "1"});
  CHECK(json["decodes"].get<int>() >= 1);
  CHECK(json["publish_p99_ms"].get<double>() >= json["publish_median_ms"].get<double>());
  CHECK(json["prompt_tokens"] == 8);
}

TEST_CASE("bench: a peer runs in turn with this program, over the same file and as many threads; what is none is refused") {
  const TempDir dir;
  const auto script = [&dir](const std::string& body) {
    const auto path = dir.path() / "peer";
    std::ofstream(path) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
  };
  const std::string log = (dir.path() / "log").string();
  const std::string peer = script("echo \"$@\" >> " + log + "\necho 'warming up' >&2\necho '[{\"avg_ts\": 40.5, \"n_gen\": 5}]'\n");
  const auto json = Run({"decode", "--base", Base(), "-n", "5", "--runs", "3", "--threads", "2", "--against", peer});
  CHECK(json["peer"]["tokens_per_s"]["median"] == 40.5);
  CHECK(json["decode_tokens_per_s"].get<double>() > 0);
  CHECK(json["peer"]["ratio"]["high"].get<double>() == Approx(json["interval"]["high"].get<double>() / 40.5));
  const std::string once = "-m " + Base() + " -t 2 -p 0 -n 5 -r 1 -o json\n";
  CHECK(ReadAll(log) == once + once + once);
  const auto behind = Run({"decode", "--base", Base(), "-n", "5", "--runs", "1", "--depth", "7", "--threads", "2", "--against", peer});
  CHECK(behind["depth"] == 7);
  CHECK(ReadAll(log) == once + once + once + "-m " + Base() + " -t 2 -p 0 -n 5 -r 1 -o json -d 7\n");
  const auto refused = [](const std::string& program) {
    const Captured done = RunCommand({"bench", "decode", "--base", Base(), "-n", "2", "--runs", "1", "--against", program});
    INFO(done.err);
    CHECK(done.status != 0);
    return done.err.find(program) != std::string::npos;
  };
  CHECK(refused((dir.path() / "missing").string()));
  CHECK(refused(script("exit 3\n")));
  CHECK(refused(script("echo nothing\n")));
  CHECK(refused(script("echo '[]'\n")));
  CHECK(refused(script("echo '[{\"avg_ts\": 0}]'\n")));
}

TEST_CASE("bench: without what is to be compared, and for a series longer than the context, it is a usage error or E505") {
  CHECK(RunCommand({"bench", "overlays", "--base", Base()}).err.find("--adapter") != std::string::npos);
  CHECK(RunCommand({"bench", "switch", "--adapter", Adapter("bard")}).err.find("--base") != std::string::npos);
  CHECK(RunCommand({"bench", "decode", "--base", Base(), "-n", "0"}).status == 2);
  CHECK(RunCommand({"bench", "decode", "--base", Base(), "-n", "9", "-c", "8"}).err.find("E505") != std::string::npos);
  CHECK(RunCommand({"bench", "decode", "--base", Base(), "-n", "1", "--depth", "4294967295"}).err.find("E505") != std::string::npos);
}

TEST_CASE("bench: activate imports the files it is given into a store of its own, validates them, and hashes them when cold alone") {
  const TempDir dir;
  const auto json = Run({"activate", "--base", Base(), "--adapter", Adapter("bard"), "--adapter", Adapter("lexicon") + "=0.5", "--runs",
                         "1", "--threads", "2", "--dir", dir.path().string()});
  std::uint64_t files = std::filesystem::file_size(Base());
  for (const char* name : {"bard", "lexicon"})
    for (const auto& entry : std::filesystem::directory_iterator(Adapter(name))) files += entry.file_size();
  const auto bytes = json["bytes"].get<std::uint64_t>();
  CHECK(bytes > files);  // and the tokenizer, which lies inside the base
  CHECK(bytes < files + std::filesystem::file_size(Base()));
  const auto composition = json["warm_blob_bytes_read"].get<std::uint64_t>();
  CHECK(json["cold_blob_bytes_read"] == bytes + composition);
  for (const char* key : {"cold_ms", "cold_without_midstates_ms", "cold_from_disk_ms", "warm_ms", "read_from_disk_ms",
                          "sha256_one_gb_per_s", "sha256_all_gb_per_s", "cold_to_sha256_one", "cold_to_sha256_all"})
    CHECK(json[key]["median"].get<double>() > 0);
  CHECK(json["threads"] == 2);
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK(RunCommand({"bench", "activate"}).err.find("--base") != std::string::npos);
}

TEST_CASE("bench: the store the command line names is not touched, and an unknown bench is refused with what there is") {
  const TempDir dir;
  const std::string none = (dir.path() / "none").string();
  const ProcessResult done = Veneer({"bench", "store", "-n", "20", "--runs", "1", "--store", none, "--dir", dir.path().string(), "--json"});
  CHECK(done.status == 0);
  CHECK(done.out.find("\"median_ms\":") != std::string::npos);
  CHECK(nlohmann::json::parse(done.out)["recovery_generations"] == 20);
  CHECK(std::filesystem::is_empty(dir.path()));
  const Captured unknown = RunCommand({"bench", "nothing"});
  CHECK(unknown.status == 2);
  CHECK(unknown.err.find("store") != std::string::npos);
  CHECK(RunCommand({"bench", "store", "--runs", "0"}).status == 2);
}

}  // namespace
}  // namespace veneer::cli
