// Bad files through the command line: each gives its code, place and remedy, exit status 3, and nothing is written or run.
#include <fstream>
#include <iterator>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace {

std::string BasePath() { return (RepoData() / "stories260k/stories260k-q8_0.gguf").string(); }

ProcessResult GenerateOver(const std::string& base, const std::string& adapter = "") {
  std::vector<std::string> arguments{"generate", "--base", base, "--tokens", "1,2", "-n", "1"};
  if (!adapter.empty()) arguments.insert(arguments.end(), {"--adapter", adapter});
  return Veneer(arguments);
}

void CheckRefused(const ProcessResult& result, const std::string& code) {
  CAPTURE(result.err, result.out);
  CHECK(result.status == 3);
  CHECK(result.out.empty());
  CHECK(result.err.find("ERR ") == 0);
  CHECK(result.err.find(" " + code + " ") != std::string::npos);
  CHECK(result.err.find("at=") != std::string::npos);
}

}  // namespace

TEST_CASE("hostile: a text file, an empty file and a pickle given as a base are refused by name") {
  const TempDir dir;
  WriteAll(dir.path() / "notes.txt", "These are not weights.\n");
  WriteAll(dir.path() / "empty.gguf", "");
  WriteAll(dir.path() / "model.bin", std::string("\x80\x02}q\x00.", 6));
  CheckRefused(GenerateOver((dir.path() / "notes.txt").string()), "E401");
  CheckRefused(GenerateOver((dir.path() / "empty.gguf").string()), "E402");
  CheckRefused(GenerateOver((dir.path() / "model.bin").string()), "E401");
  CheckRefused(GenerateOver((dir.path() / "absent.gguf").string()), "E301");
}

TEST_CASE("hostile: a GGUF cut anywhere is refused") {
  const TempDir dir;
  const std::string whole = ReadAll(BasePath());
  REQUIRE(whole.size() > 300'000);
  for (std::size_t size = 1; size < whole.size(); size = size * 2 + 17) {
    CAPTURE(size);
    WriteAll(dir.path() / "cut.gguf", whole.substr(0, size));
    const ProcessResult result = GenerateOver((dir.path() / "cut.gguf").string());
    CAPTURE(result.err);
    CHECK(result.status == 3);
  }
  WriteAll(dir.path() / "cut.gguf", whole.substr(0, whole.size() - 1));
  CheckRefused(GenerateOver((dir.path() / "cut.gguf").string()), "E403");
}

TEST_CASE("hostile: a PEFT directory of other shapes, without its config, or with a pickle is refused and named") {
  const TempDir dir;
  // Trained for hidden size 256; the base has 64.
  CheckRefused(GenerateOver(BasePath(), (DemoData() / "adapters/bard").string()), "E404");
  const auto adapter = RepoData() / "stories260k/adapters/lora-qv-r8";
  std::filesystem::create_directory(dir.path() / "bare");
  std::filesystem::copy_file(adapter / "adapter_model.safetensors", dir.path() / "bare/adapter_model.safetensors");
  CHECK(GenerateOver(BasePath(), (dir.path() / "bare").string()).status == 3);
  std::filesystem::create_directory(dir.path() / "pickle");
  std::filesystem::copy_file(adapter / "adapter_config.json", dir.path() / "pickle/adapter_config.json");
  WriteAll(dir.path() / "pickle/adapter_model.bin", std::string("PK\x03\x04", 4));
  const ProcessResult pickle = GenerateOver(BasePath(), (dir.path() / "pickle").string());
  CheckRefused(pickle, "E401");
  CHECK(pickle.err.find("pickle") != std::string::npos);
  std::filesystem::create_directory(dir.path() / "nothing");
  CHECK(GenerateOver(BasePath(), (dir.path() / "nothing").string()).status == 3);
}

TEST_CASE("hostile: an initialisation that changed the base is refused as E418 with the remedy") {
  const ProcessResult result = GenerateOver(BasePath(), (RepoData() / "stories260k/adapters/refuse-pissa").string());
  CheckRefused(result, "E418");
  CHECK(result.err.find("convert") != std::string::npos);
}

TEST_CASE("hostile: an import that is refused leaves the store as it was") {
  const TempDir dir;
  const std::string store = (dir.path() / "store").string();
  REQUIRE(Veneer({"init", "--store", store}).status == 0);
  const std::string before = Veneer({"log", "--store", store}).out;
  WriteAll(dir.path() / "notes.gguf", "GGUF but not really");  // what follows the magic reads as a version nobody knows
  const ProcessResult result = Veneer({"import", "base", (dir.path() / "notes.gguf").string(), "--store", store});
  CheckRefused(result, "E401");
  CHECK(result.err.find("/notes.gguf") != std::string::npos);
  CHECK(result.err.find("/proc/") == std::string::npos);
  CHECK(Veneer({"log", "--store", store}).out == before);
  CHECK(Veneer({"fsck", "--full", "--store", store}).status == 0);
}

TEST_CASE("hostile: token ids outside the vocabulary and a full context are refused with the limits") {
  const ProcessResult out_of_range = Veneer({"generate", "--base", BasePath(), "--tokens", "1,512", "-n", "1"});
  CHECK(out_of_range.status == 3);
  CHECK(out_of_range.err.find("512") != std::string::npos);
  const ProcessResult full =
      Veneer({"generate", "--base", BasePath(), "--tokens", "1,2,3", "-n", "10", "-c", "5", "--ignore-eos", "--temp", "0"});
  CHECK(full.status == 4);
  CHECK(full.err.find("E505") != std::string::npos);
  CHECK(full.err.find("-c") != std::string::npos);
}

TEST_CASE("hostile: unknown commands, options and values are usage errors with status 2") {
  CHECK(Veneer({"frobnicate"}).status == 2);
  CHECK(Veneer({"status", "--seed", "1"}).status == 2);
  CHECK(Veneer({"generate", "--threads", "0"}).status == 2);
  CHECK(Veneer({"generate", "--threads", "two"}).status == 2);
  CHECK(Veneer({}).status == 2);
  CHECK(Veneer({"--help"}).status == 0);
}
