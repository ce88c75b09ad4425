// The benches from the command line: what they refuse, and the keys that others read. Figures are for people; no test compares times.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

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

// The values of one attribute of the plot's points, in order.
std::vector<double> PointsOf(const std::string& svg, const std::string& attribute) {
  const std::regex pattern("<circle[^>]* data-" + attribute + "=\"([^\"]*)\"");
  std::vector<double> values;
  for (std::sregex_iterator i(svg.begin(), svg.end(), pattern), end; i != end; ++i) values.push_back(std::stod((*i)[1]));
  return values;
}

std::vector<nlohmann::json> OverlaysWithPlot(const std::filesystem::path& svg, std::vector<std::string> adapters) {
  std::vector<std::string> arguments{"overlays", "--base", Base(), "-n", "9", "--runs", "2", "--threads", "2", "--svg", svg.string()};
  for (const std::string& adapter : adapters) arguments.insert(arguments.end(), {"--adapter", Adapter(adapter.c_str())});
  return Run(arguments)["overlays"];
}

TEST_CASE("bench overlays --svg: the points are the printed figures, decoding first, against rank where every adapter has one") {
  const TempDir dir;
  const auto path = dir.path() / "plot.svg";
  const auto overlays = OverlaysWithPlot(path, {"bard", "hacker"});
  REQUIRE(overlays.size() == 3);
  const std::string svg = ReadAll(path);
  const auto x = PointsOf(svg, "x"), y = PointsOf(svg, "y"), low = PointsOf(svg, "low"), high = PointsOf(svg, "high");
  REQUIRE(x.size() == 6);
  const auto rank = [&](std::size_t i) { return std::stod(overlays[i]["kinds"].get<std::string>().substr(std::string("lora r").size())); };
  const double ranks[] = {rank(0), rank(1), rank(0) + rank(1)};
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    const auto& ratio = overlays[i % 3][i < 3 ? "decode_ratio" : "prefill_ratio"];
    CHECK(x[i] == ranks[i % 3]);
    CHECK(1 / (1 + y[i] / 100) == Approx(ratio["median"].get<double>()));
    CHECK(1 / (1 + low[i] / 100) == Approx(ratio["high"].get<double>()));
    CHECK(1 / (1 + high[i] / 100) == Approx(ratio["low"].get<double>()));
  }
  CHECK(svg.find(">fable-q4_0.gguf, 2 threads, ") != std::string::npos);
  CHECK(svg.find(dir.path().string()) == std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("bench overlays --svg: beside an adapter without a rank, all points stand against the share of bytes") {
  const TempDir dir;
  const auto path = dir.path() / "plot.svg";
  const auto overlays = OverlaysWithPlot(path, {"bard", "lexicon"});
  const auto x = PointsOf(ReadAll(path), "x");
  REQUIRE(x.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(x[i] == Approx(100 * overlays[i % 3]["byte_ratio"].get<double>()));
}

TEST_CASE("bench --svg: a path that cannot be written is refused before anything is measured, and a failed run leaves nothing behind") {
  const TempDir dir;
  const std::string bad = (dir.path() / "missing" / "plot.svg").string();
  // So many runs that the test would not end if they began.
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"kernels"}, {"overlays", "--base", Base(), "--adapter", Adapter("bard")}}) {
    std::vector<std::string> arguments{"bench"};
    arguments.insert(arguments.end(), what.begin(), what.end());
    arguments.insert(arguments.end(), {"--runs", "100000", "--svg", bad});
    const Captured done = RunCommand(arguments);
    INFO(done.err);
    CHECK(done.status == 4);
    CHECK(done.err.find("E603 IO at=" + bad) != std::string::npos);
    CHECK(done.err.find("give --svg a file in a folder that exists") != std::string::npos);
  }
  CHECK(RunCommand({"bench", "overlays", "--base", Base(), "--adapter", "none", "--svg", (dir.path() / "plot.svg").string()}).status != 0);
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("bench --svg: what has no plot is refused, and told what has one") {
  const TempDir dir;
  for (const char* what : {"decode", "prefill", "switch", "store", "activate"}) {
    const Captured done = RunCommand({"bench", what, "--base", Base(), "--svg", (dir.path() / "plot.svg").string()});
    INFO(done.err);
    CHECK(done.status == 2);
    CHECK(done.err.find("at=--svg") != std::string::npos);
    CHECK(done.err.find("kernels, overlays") != std::string::npos);
  }
  CHECK(std::filesystem::is_empty(dir.path()));
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
