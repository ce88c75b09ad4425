// Hugging Face directories as a base, through the command line. Vectors: see golden_test.cc; of the bitsandbytes layouts they were made
// over the weights as bitsandbytes dequantizes them.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/golden_check.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace {

constexpr const char* kLayouts[] = {"nf4", "nf4-nested", "int8"};

GoldenSet Layout(const std::filesystem::path& data, const std::string& layout) {
  return {data / "fable" / layout, data / "fable/adapters", data / ("fable/vectors-" + layout)};
}

}  // namespace

TEST_CASE("huggingface: exact logits and greedy tokens agree with the vectors of NF4, nested NF4 and int8 directories") {
  const auto data = ExternalData();
  if (!data) return;
  for (const char* const layout : kLayouts) CheckExact(Layout(*data, layout));
}

TEST_CASE("huggingface: fast stays within 1e-3 KL of exact and keeps every clear argmax, NF4, nested NF4 and int8") {
  const auto data = ExternalData();
  if (!data) return;
  for (const char* const layout : kLayouts) CheckFast(Layout(*data, layout));
}

TEST_CASE("huggingface: a directory with tokenizer.model takes and gives text as the GGUF of the same model does") {
  const auto data = ExternalData();
  if (!data) return;
  const std::string base = (*data / "fable/nf4").string();
  const auto cases = nlohmann::json::parse(ReadAll(*data / "fable/tokenize.json"));
  int checked = 0;
  for (const auto& one : cases) {
    const std::string text = one.at("text");
    CAPTURE(text);
    if (text.starts_with("-")) continue;  // an option for the command line
    for (const auto& [key, option] :
         {std::pair{"with_bos", ""}, std::pair{"plain", "--no-special"}, std::pair{"parse_special", "--parse-special"}}) {
      std::vector<std::string> command{"tokenize", "--base", base, "--json", text};
      if (*option != '\0') command.emplace_back(option);
      const ProcessResult result = Veneer(command);
      INFO(result.err);
      REQUIRE(result.status == 0);
      CHECK(nlohmann::json::parse(result.out).at("tokens") == one.at(key));
    }
    ++checked;
  }
  CHECK(checked >= 25);
  const ProcessResult made = Veneer({"generate", "--base", base, "-p", "And the king said", "-n", "8", "--temp", "0"});
  INFO(made.err);
  CHECK(made.status == 0);
  CHECK(made.out.starts_with("And the king said "));
}

TEST_CASE("huggingface: with tokenizer.json alone text is refused with the way to give token ids, and those decode") {
  const auto data = ExternalData();
  if (!data) return;
  const TempDir dir;
  for (const char* const name : {"config.json", "model.safetensors"})
    std::filesystem::create_symlink(*data / "fable/int8" / name, dir.path() / name);
  WriteAll(dir.path() / "tokenizer.json", R"({"version": "1.0"})");
  const ProcessResult text = Veneer({"generate", "--base", dir.path().string(), "-p", "And", "-n", "2"});
  CAPTURE(text.err);
  CHECK(text.status == 3);
  for (const char* const word : {" E401 ", "tokenizer.json", "--tokens"}) CHECK(text.err.find(word) != std::string::npos);
  const ProcessResult ids = Veneer({"generate", "--base", dir.path().string(), "--tokens", "5,6", "-n", "3", "--temp", "0"});
  INFO(ids.err);
  CHECK(ids.status == 0);
}

// A stored directory: activated, collected around, checked and rolled back like a file; every file its list names is needed.
TEST_CASE("huggingface: a directory in the store is activated, survives gc and fsck, and decodes as the directory itself does") {
  const auto data = ExternalData();
  if (!data) return;
  const TempDir dir;
  const std::string base = (*data / "fable/nf4-nested").string(), adapter = (*data / "fable/adapters/bard").string();
  const std::string store = (dir.path() / "store").string(), manifest = (dir.path() / "bard.toml").string();
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.begin(), {"--store", store});
    const ProcessResult result = Veneer(command);
    CAPTURE(command, result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  run({"init"});
  run({"import", "base", base, "--name", "fable"});
  run({"import", "adapter", adapter, "--name", "bard"});
  run({"compose", "--base", "fable", "--adapter", "bard=0.7", "-o", manifest});
  run({"activate", manifest});
  const std::vector<std::string> greedy{"-p", "And the king said", "-n", "8", "--temp", "0"};
  std::vector<std::string> stored{"generate"}, direct{"generate", "--base", base, "--adapter", adapter + "=0.7"};
  stored.insert(stored.end(), greedy.begin(), greedy.end());
  direct.insert(direct.end(), greedy.begin(), greedy.end());
  const std::string text = run(direct);
  CHECK(run(stored) == text);
  // Neither the name nor the generation alone keeps the files: with the name gone the composition does.
  run({"forget", "base/fable"});
  run({"gc", "--now"});
  CHECK(run({"fsck", "--full"}).starts_with("OK FSCK"));
  CHECK(run(stored) == text);
  // And with the composition gone, the name.
  run({"deactivate"});
  run({"import", "base", base, "--name", "again"});
  run({"gc", "--now"});
  run({"activate", manifest});
  CHECK(run(stored) == text);
}

TEST_CASE("huggingface: a stored shard that is damaged or missing is refused at activation and found by fsck, by name") {
  const auto data = ExternalData();
  if (!data) return;
  const TempDir dir;
  const std::filesystem::path store = dir.path() / "store";
  const std::string manifest = (dir.path() / "int8.toml").string();
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.begin(), {"--store", store.string()});
    return Veneer(command);
  };
  REQUIRE(run({"init"}).status == 0);
  REQUIRE(run({"import", "base", (*data / "fable/int8").string(), "--name", "fable"}).status == 0);
  REQUIRE(run({"compose", "--base", "fable", "-o", manifest}).status == 0);
  REQUIRE(run({"seal", manifest, "--name", "whole"}).status == 0);
  const auto shard = [&] {
    std::filesystem::path largest;
    for (const auto& one : std::filesystem::directory_iterator(store / "blobs/sha256"))
      if (largest.empty() || one.file_size() > std::filesystem::file_size(largest)) largest = one.path();
    return largest;
  }();
  const std::string bytes = ReadAll(shard);
  std::filesystem::remove(shard);
  const ProcessResult missing = run({"activate", "whole"}), found = run({"fsck"});
  CAPTURE(missing.err, found.out);
  CHECK(missing.status == 3);
  CHECK(missing.err.find("E301 BLOB_MISSING") != std::string::npos);
  CHECK(missing.err.find("model.safetensors") != std::string::npos);
  CHECK(found.status == 4);
  std::string damaged = bytes;
  damaged[damaged.size() / 2] ^= 1;
  WriteAll(shard, damaged);
  std::filesystem::permissions(shard, std::filesystem::perms(0444));
  const ProcessResult changed = run({"activate", "whole"});
  CAPTURE(changed.err);
  CHECK(changed.status == 3);
  CHECK(changed.err.find("E303 HASH_MISMATCH") != std::string::npos);
}
