// Failures that users of other engines met around names, files and status: each is a rule here, checked as a user would see it.
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/vectors.h"

namespace {

namespace fs = std::filesystem;

// A store, and copies of the stories base and some of its adapters that nobody else touches.
class Shop : public ProgramStore {
 public:
  Shop() {
    fs::create_directories(Path("files"));
    fs::copy_file(kData / "stories260k-q8_0.gguf", Base());
    for (const char* adapter : {"lora-qv-r8", "lora-all-r4", "ia3-default"})
      fs::copy(kData / "adapters" / adapter, Adapter(adapter), fs::copy_options::recursive);
    Must({"import", "base", Base(), "--name", "stories"});
  }
  nlohmann::json Import(const std::string& adapter, const std::string& name) const {
    return MustJson({"import", "adapter", Adapter(adapter), "--name", name});
  }
  void Activate(const std::vector<std::string>& adapters) const { Must({"activate", Compose("m", "stories", adapters)}); }
  // Of what is active, or with `source` of a base and adapters beside the store.
  std::vector<float> Logits(const std::vector<std::string>& source = {}) const {
    std::vector<std::string> arguments{"logits", "--tokens", "1,20,300,41,500", "--out", Path("logits.npy"), "--compute", "exact"};
    arguments.insert(arguments.end(), source.begin(), source.end());
    Must(arguments);
    return ReadNpy(Path("logits.npy")).values;
  }
  // The names that status shows, in its order.
  std::vector<std::string> Active() const {
    std::vector<std::string> names;
    std::istringstream lines(Must({"status"}));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string key, name;
      if (words >> key >> name && key == "adapter") names.push_back(name);
    }
    return names;
  }
  std::string Base() const { return Path("files/base.gguf"); }
  std::string Adapter(const std::string& name) const { return Path("files/" + name); }

 private:
  const fs::path kData = RepoData() / "stories260k";
};

using Names = std::vector<std::string>;

// Bytes and time of every file of the user.
std::map<std::string, std::pair<std::string, fs::file_time_type>> Contents(const std::string& directory) {
  std::map<std::string, std::pair<std::string, fs::file_time_type>> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files[entry.path().string()] = {ReadAll(entry.path()), entry.last_write_time()};
  return files;
}

}  // namespace

TEST_CASE("names: an adapter may be called by a word that occurs in its own tensors' names, and keeps every byte") {
  const Shop shop;
  const std::vector<std::pair<std::string, std::string>> named = {
      {"lora", "lora-qv-r8"}, {"model", "lora-all-r4"}, {"q", "ia3-default"}, {"default", "lora-qv-r8"}, {"weight", "lora-all-r4"}};
  Names all, paths{"--base", shop.Base()};
  for (const auto& [name, adapter] : named) {
    const std::string digest = shop.Import(adapter, name).at("digest");
    const std::string hex = digest.substr(digest.find(':') + 1);
    int kept = 0;  // the store's own copy, wherever it lies, is the file
    for (const auto& [path, file] : Contents(shop.Path("store")))
      if (path.find(hex.substr(2)) != std::string::npos && file.first == ReadAll(shop.Adapter(adapter) + "/adapter_model.safetensors"))
        ++kept;
    CHECK(kept == 1);
    all.push_back(name);
    paths.insert(paths.end(), {"--adapter", shop.Adapter(adapter)});
  }
  shop.Activate(all);
  CHECK(shop.Active() == all);
  CHECK(shop.Logits() == shop.Logits(paths));
  for (const auto& [name, adapter] : named) {
    shop.Must({"deactivate", name});
    all.erase(all.begin());
    CHECK(shop.Active() == all);
  }
  CHECK(shop.Logits() == shop.Logits({"--base", shop.Base()}));
  shop.Must({"fsck", "--full"});
}

TEST_CASE("files: base and adapters of the user have the same bytes and times after every command") {
  const Shop shop;
  const auto before = Contents(shop.Path("files"));
  REQUIRE(before.size() == 7);
  shop.Must({"inspect", shop.Adapter("lora-qv-r8"), "--base", shop.Base()});
  shop.Must({"plan", "--base", shop.Base(), "--adapter", shop.Adapter("lora-qv-r8")});
  shop.Must({"generate", "--base", shop.Base(), "--adapter", shop.Adapter("lora-all-r4") + "=3", "--tokens", "1,2", "-n", "3"});
  shop.Import("lora-qv-r8", "a");
  shop.Import("ia3-default", "b");
  shop.Activate({"a", "b=0.5"});
  (void)shop.Logits();
  shop.Must({"deactivate", "b"});
  shop.Must({"consolidate"});
  (void)shop.Logits();
  shop.Must({"rollback"});
  shop.Must({"deactivate"});
  shop.Must({"fsck", "--full"});
  CHECK(Contents(shop.Path("files")) == before);
}

TEST_CASE("status: an imported adapter is in force when it is listed, and only then, and a large strength shows") {
  const Shop shop;
  const std::vector<float> base = shop.Logits({"--base", shop.Base()});
  shop.Import("lora-qv-r8", "style");
  shop.Import("lora-all-r4", "other");
  shop.Activate({});
  CHECK(shop.Active().empty());
  CHECK(shop.Logits() == base);
  shop.Activate({"style=50"});
  CHECK(shop.Active() == Names{"style"});
  const std::vector<float> strong = shop.Logits();
  double sum = 0;
  for (std::size_t i = 0; i < base.size(); ++i) sum += std::abs(static_cast<double>(strong[i]) - static_cast<double>(base[i]));
  CHECK(sum / static_cast<double>(base.size()) > 0.5);
  CHECK(strong == shop.Logits({"--base", shop.Base(), "--adapter", shop.Adapter("lora-qv-r8") + "=50"}));
  shop.Activate({});
  shop.Activate({"other"});  // one after the other over none: the second alone
  CHECK(shop.Active() == Names{"other"});
  CHECK(shop.Logits() == shop.Logits({"--base", shop.Base(), "--adapter", shop.Adapter("lora-all-r4")}));
}

TEST_CASE("status: other content under a name that is active changes nothing until it is activated, and then everything") {
  const Shop shop;
  shop.Import("lora-qv-r8", "x");
  shop.Activate({"x"});
  const auto first = nlohmann::json::parse(shop.Must({"status", "--json"}));
  const std::vector<float> before = shop.Logits();
  shop.Import("lora-all-r4", "x");
  CHECK(nlohmann::json::parse(shop.Must({"status", "--json"})) == first);
  CHECK(shop.Logits() == before);
  shop.Activate({"x"});
  CHECK(nlohmann::json::parse(shop.Must({"status", "--json"})).at("composition") != first.at("composition"));
  CHECK(shop.Logits() == shop.Logits({"--base", shop.Base(), "--adapter", shop.Adapter("lora-all-r4")}));
}

TEST_CASE("status: the same file imported twice is kept once, and taking one of its two names out of force leaves the other") {
  const Shop shop;
  CHECK(shop.Import("lora-qv-r8", "one").at("new_blobs") == 2);
  CHECK(shop.Import("lora-qv-r8", "one").at("new_blobs") == 0);
  CHECK(shop.Import("lora-qv-r8", "two").at("new_blobs") == 0);
  shop.Activate({"one", "two"});
  CHECK(shop.Logits() ==
        shop.Logits({"--base", shop.Base(), "--adapter", shop.Adapter("lora-qv-r8"), "--adapter", shop.Adapter("lora-qv-r8")}));
  shop.Must({"deactivate", "one"});
  CHECK(shop.Active() == Names{"two"});
  CHECK(shop.Logits() == shop.Logits({"--base", shop.Base(), "--adapter", shop.Adapter("lora-qv-r8")}));
}

TEST_CASE("files: an adapter of a few bytes, whatever they are, ends in an error and never in a signal") {
  const Shop shop;
  const auto refuse = [&shop](const std::string& what, const std::string& bytes) {
    CAPTURE(what);
    WriteAll(shop.Path("small"), bytes);
    const ProcessResult result =
        shop.Run({"generate", "--base", shop.Base(), "--adapter", shop.Path("small"), "--tokens", "1,2", "-n", "1"});
    CAPTURE(result.err);
    CHECK(result.status == 3);
    CHECK(result.err.starts_with("ERR "));
  };
  const std::string gguf("GGUF\x03\0\0\0", 8), zero(8, '\0'), one = std::string("\x01", 1) + std::string(7, '\0');
  refuse("five bytes", "GGUF\x03");
  refuse("no tensors and no values", gguf + zero + zero);
  refuse("a tensor with an empty name", gguf + one + zero + std::string(24, '\0'));
  refuse("a value with an empty key", gguf + zero + one + zero + std::string(5, '\0'));
  refuse("a length of 2^64 - 1", std::string(8, '\xff') + "{}");
  const std::string header = R"({"a.lora_A.weight":{"dtype":"F32","shape":[1000,1000],"data_offsets":[0,4]}})";
  refuse("a shape beyond its bytes", std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "abcd");
}

TEST_CASE("files: a checkpoint without its configuration, and plain weights, are not taken for something to add") {
  const Shop shop;
  fs::copy_file(shop.Adapter("lora-qv-r8") + "/adapter_model.safetensors", shop.Path("bare.safetensors"));
  SafetensorsWriter weights;
  weights.Fill("model.layers.0.mlp.up_proj.weight", {172, 64}, 0.5F);
  WriteAll(shop.Path("weights.safetensors"), weights.Bytes());
  for (const auto& [file, words] : std::map<std::string, std::string>{{"bare", "adapter_config.json"}, {"weights", "--kind replace"}}) {
    const ProcessResult refused = shop.Run({"import", "adapter", shop.Path(file + ".safetensors")});
    CHECK(refused.status == 3);
    CHECK(refused.err.find(words) != std::string::npos);
  }
  for (const char* const kind : {"residual", "replace"})
    CHECK(shop.MustJson({"import", "adapter", shop.Path("weights.safetensors"), "--kind", kind, "--name", kind}).at("name") == kind);
}

TEST_CASE("params: what the kind does not take is refused at import, and nothing is stored") {
  const Shop shop;
  const auto files = Contents(shop.Path("store"));
  for (const Names& params : {Names{"foo=1"}, Names{"scale=abc"}, Names{"scale=1e400"}, Names{"scale="}, Names{"/scale=2"},
                              Names{"scale=2", "--params", "scale=3"}}) {
    CAPTURE(params);
    Names arguments{"import", "adapter", shop.Adapter("lora-qv-r8"), "--params"};
    arguments.insert(arguments.end(), params.begin(), params.end());
    CHECK(shop.Run(arguments).status == 3);
    CHECK(Contents(shop.Path("store")) == files);
  }
  CHECK(shop.Run({"import", "adapter", shop.Adapter("ia3-default"), "--params", "scale=2"}).status == 3);
}

TEST_CASE("status: what is worth a warning is said where an adapter is put in force, and where it runs without a store") {
  const Shop shop;
  shop.Import("lora-qv-r8", "style");
  const std::string words = "names the base";
  CHECK(shop.Run({"activate", shop.Compose("m", "stories", {"style"})}).err.find(words) != std::string::npos);
  for (const Names& run :
       {Names{"generate", "--tokens", "1", "-n", "1"}, Names{"plan"}, Names{"logits", "--tokens", "1", "--out", shop.Path("l.npy")}}) {
    Names arguments = run;
    CHECK(shop.Run(arguments).err.find(words) == std::string::npos);
    arguments.insert(arguments.end(), {"--base", shop.Base(), "--adapter", shop.Adapter("lora-qv-r8")});
    CHECK(shop.Run(arguments).err.find(words) != std::string::npos);
  }
}

TEST_CASE("numbers: logits that are not finite are refused and not written as if they were some") {
  const Shop shop;
  SafetensorsWriter file;
  for (const char* const half : {"lora_A", "lora_B"})
    file.Fill(std::string("base_model.model.model.layers.0.mlp.up_proj.") + half + ".weight",
              half[5] == 'A' ? std::vector<std::uint64_t>{1, 64} : std::vector<std::uint64_t>{172, 1}, 3e38F);
  fs::create_directories(shop.Path("huge"));
  WriteAll(shop.Path("huge/adapter_model.safetensors"), file.Bytes());
  WriteAll(shop.Path("huge/adapter_config.json"), R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["layers.0.mlp.up_proj"]})");
  for (const Names& run : {Names{"generate", "-n", "1"}, Names{"logits", "--out", shop.Path("l.npy")}}) {
    Names arguments = run;
    arguments.insert(arguments.end(), {"--tokens", "1,403", "--base", shop.Base(), "--adapter", shop.Path("huge")});
    const ProcessResult refused = shop.Run(arguments);
    CHECK(refused.status == 3);
    CHECK(refused.err.find("E411") != std::string::npos);
  }
}
