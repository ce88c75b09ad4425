// The installed package, moved to another place, used by strangers: tests/install/CMakeLists.txt makes the trees before these run.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;

const fs::path kWork = VENEER_INSTALL_WORK;
const fs::path kWhole = kWork / "whole";
const fs::path kForeign = kWork / "sdk" / VENEER_PLUGIN_DIR;  // where the foreign plugin installed itself
constexpr char kPrompt[] = "And the king said";
constexpr int kLayers = 4, kKvWidth = 128;  // of the demo's base

std::set<std::string> FilesOf(const fs::path& tree) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(tree))
    if (entry.is_regular_file()) files.insert(entry.path().lexically_relative(tree).string());
  return files;
}

// The installed program; its own tree is all it gets.
ProcessResult Installed(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), (kWhole / "bin/veneer").string());
  return RunProcess(arguments);
}
nlohmann::json MustJson(const ProcessResult& result) {
  CAPTURE(result.out, result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out);
}
std::string Demo(const std::string& name) { return (kWhole / "share/veneer/demo" / name).string(); }

std::vector<std::string> Generate(const std::string& adapter = "") {
  std::vector<std::string> words{"generate", "--base", Demo("fable-q4_0.gguf"), "-p", kPrompt, "-n", "8", "--temp", "0", "--compute",
                                 "exact",    "--json"};
  if (!adapter.empty()) words.insert(words.end(), {"--adapter", adapter});
  return words;
}

// A PEFT directory with one tensor MODULE+suffix for v_proj of every layer.
void WriteAdapter(const fs::path& directory, const std::string& config, const std::string& suffix, const std::vector<std::uint64_t>& shape,
                  float value) {
  SafetensorsWriter writer;
  for (int layer = 0; layer < kLayers; ++layer)
    writer.Fill("base_model.model.model.layers." + std::to_string(layer) + ".self_attn.v_proj" + suffix, shape, value);
  WriteAll(directory / "adapter_model.safetensors", writer.Bytes());
  WriteAll(directory / "adapter_config.json", config);
}

// Exact logits of the demo's base under one adapter, as the bytes of an NPY file.
std::string Logits(const std::string& adapter, const fs::path& out, const std::vector<std::string>& options = {}) {
  std::vector<std::string> words{"logits", "--base",    Demo("fable-q4_0.gguf"), "--tokens", "1,315,278,291", "--compute", "exact",
                                 "--out",  out.string()};
  if (!adapter.empty()) words.insert(words.end(), {"--adapter", adapter});
  words.insert(words.end(), options.begin(), options.end());
  const ProcessResult result = Installed(words);
  CAPTURE(words, result.err);
  REQUIRE(result.status == 0);
  return ReadAll(out);
}

}  // namespace

TEST_CASE("install: sdk and core together are everything, and sdk alone is headers, package files and the card tool") {
  const std::set<std::string> whole = FilesOf(kWhole), parts = FilesOf(kWork / "parts");
  CHECK(parts == whole);
  for (const char* needed : {"bin/veneer", "bin/veneer-card", "include/veneer/abi.h", "include/veneer/host/core/decode/decoder.h",
                             "include/veneer/host/kernels/kernels.h", "share/veneer/demo/fable-q4_0.gguf", "share/veneer/demo/NOTICE"}) {
    CAPTURE(needed);
    CHECK(whole.contains(needed));
  }
  for (const std::string& file : FilesOf(kWork / "sdk")) {
    CAPTURE(file);
    const bool is_foreign = file.starts_with(std::string(VENEER_PLUGIN_DIR) + "/example-scale.");
    CHECK((is_foreign || file == "bin/veneer-card" || file.starts_with("include/veneer/") ||
           file.find("/cmake/veneer/") != std::string::npos));
    CHECK(file.find("veneer/host/") == std::string::npos);
  }
}

TEST_CASE("install: no text names the source or build tree, and nothing that is loaded carries a search path") {
  int texts = 0, binaries = 0;
  for (const std::string& file : FilesOf(kWhole)) {
    CAPTURE(file);
    const std::string extension = fs::path(file).extension().string();
    if (extension == ".cmake" || extension == ".json" || extension == ".h" || extension == ".hpp") {
      const std::string text = ReadAll(kWhole / file);
      CHECK(text.find(VENEER_SOURCE_DIR) == std::string::npos);
      CHECK(text.find(VENEER_BINARY_DIR) == std::string::npos);
      ++texts;
    }
    if (extension == ".so" || file.starts_with("bin/")) {
      const ProcessResult dynamic = RunProcess({VENEER_READELF, "-d", (kWhole / file).string()});
      REQUIRE(dynamic.status == 0);
      CHECK(dynamic.out.find("NEEDED") != std::string::npos);
      CHECK(dynamic.out.find("RPATH") == std::string::npos);
      CHECK(dynamic.out.find("RUNPATH") == std::string::npos);
      ++binaries;
    }
  }
  CHECK(texts > 50);
  CHECK(binaries >= 4);
}

TEST_CASE("install: the moved program lists every kind of this project, usable, from its own tree") {
  std::istringstream kinds(VENEER_KINDS);
  const auto plugins = MustJson(Installed({"plugin", "list", "--json"})).at("plugins");
  int expected = 0;
  for (std::string kind; kinds >> kind; ++expected) {
    CAPTURE(kind);
    const fs::path stem = kWhole / VENEER_PLUGIN_DIR / ("veneer-" + kind);
    REQUIRE(fs::exists(stem.string() + ".so"));
    const auto name = nlohmann::json::parse(ReadAll(stem.string() + ".veneer.json")).at("name");
    const auto found = std::ranges::find_if(plugins, [&](const auto& plugin) { return plugin.at("name") == name; });
    REQUIRE(found != plugins.end());
    CHECK(found->at("state") == "ok");
  }
  CHECK(expected >= 2);
}

TEST_CASE("install: the moved program decodes the demo's base, plain and under an adapter, as the build tree's does") {
  for (const std::string& adapter : {std::string(), Demo("adapters/bard") + "=0.8"}) {
    CAPTURE(adapter);
    const auto installed = MustJson(Installed(Generate(adapter)));
    CHECK(installed.at("tokens").size() == 8);
    CHECK(installed == MustJson(Veneer(Generate(adapter))));
  }
  CHECK(MustJson(Installed(Generate())).at("text") != MustJson(Installed(Generate(Demo("adapters/bard")))).at("text"));
  CHECK(Installed({"demo"}).status == 0);
}

TEST_CASE("install: a foreign plugin, by --plugin and by --plugin-dir, edits exactly what the same factors as IA3 edit") {
  const TempDir dir;
  const fs::path scale = dir.path() / "scale", same = dir.path() / "same", out = dir.path() / "logits.npy";
  constexpr float kFactor = 1.75F;
  WriteAdapter(scale, R"({"peft_type": "SCALE", "target_modules": ["v_proj"]})", ".scale_factor", {1}, kFactor);
  WriteAdapter(same, R"({"peft_type": "IA3", "target_modules": ["v_proj"], "feedforward_modules": []})", ".ia3_l", {kKvWidth, 1}, kFactor);
  const std::vector<std::string> by_path{"--plugin", "example-scale=" + (kForeign / "example-scale.so").string()};
  const std::vector<std::string> by_dir{"--plugin-dir", kForeign.string()};

  const std::string base = Logits("", out);
  for (const char* strength : {"", "=0.5"}) {
    CAPTURE(strength);
    const std::string oracle = Logits(same.string() + strength, out);
    CHECK(oracle != base);
    CHECK(Logits(scale.string() + strength, out, by_path) == oracle);
    CHECK(Logits(scale.string() + strength, out, by_dir) == oracle);
  }
  CHECK(Logits(scale.string() + "=0", out, by_dir) == base);

  // Without being told, the program does not know it: foreign plugins come from no other place.
  const ProcessResult untold = Installed({"inspect", scale.string(), "--base", Demo("fable-q4_0.gguf")});
  CHECK(untold.status == 3);
  CHECK(untold.err.find("E415") != std::string::npos);
}

TEST_CASE("install: a plugin put where veneer_PLUGIN_DIR says is found without an option") {
  const TempDir dir;
  for (const std::string& file : FilesOf(kWhole))
    if (!file.starts_with("include/") && !file.ends_with(".a") && !file.starts_with("share/")) {
      fs::create_directories((dir.path() / file).parent_path());
      fs::copy_file(kWhole / file, dir.path() / file);
    }
  const std::vector<std::string> list{(dir.path() / "bin/veneer").string(), "plugin", "list", "--json"};
  const auto before = MustJson(RunProcess(list)).at("plugins");
  for (const char* file : {"example-scale.so", "example-scale.veneer.json"})
    fs::copy_file(kForeign / file, dir.path() / VENEER_PLUGIN_DIR / file);
  const auto after = MustJson(RunProcess(list)).at("plugins");
  CHECK(after.size() == before.size() + 1);
  const auto found = std::ranges::find_if(after, [](const auto& plugin) { return plugin.at("name") == "example-scale"; });
  REQUIRE(found != after.end());
  CHECK(found->at("kinds") == nlohmann::json{"example.scale"});
  CHECK(found->at("state") == "ok");
}

TEST_CASE("install: an embedding program hashes the base as sha256sum does and decodes what the installed program decodes") {
  const std::string adapter = Demo("adapters/bard") + "=0.8";
  const ProcessResult embed =
      RunProcess({(kWork / "embed-build/embed").string(), (kWhole / VENEER_PLUGIN_DIR).string(), Demo("fable-q4_0.gguf"), adapter});
  CAPTURE(embed.err);
  REQUIRE(embed.status == 0);
  const ProcessResult sum = RunProcess({"/usr/bin/sha256sum", Demo("fable-q4_0.gguf")});
  REQUIRE(sum.status == 0);
  const auto generated = MustJson(Installed(Generate(adapter)));
  CHECK(embed.out == "base sha256:" + sum.out.substr(0, 64) + "\ncomposition " + generated.at("composition").get<std::string>() +
                         "\ntext " + generated.at("text").get<std::string>() + "\n");
}
