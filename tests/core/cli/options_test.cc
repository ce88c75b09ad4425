#include "core/cli/options.h"

#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace veneer::cli {
namespace {

using Strings = std::vector<std::string>;

Options Parsed(const Strings& arguments) {
  CAPTURE(arguments);
  auto options = ParseOptions(arguments);
  if (!options) FAIL(options.error().Text());
  return *std::move(options);
}
Error Refused(const Strings& arguments) {
  CAPTURE(arguments);
  const auto options = ParseOptions(arguments);
  REQUIRE_FALSE(options);
  CHECK(options.error().code == Code::USAGE);
  return options.error();
}

TEST_CASE("options: they mean the same before, after and around the verb") {
  for (const Strings& line : {Strings{"--store", "/s", "--json", "activate", "m.toml", "--expect", "none"},
                              Strings{"activate", "m.toml", "--store", "/s", "--json", "--expect", "none"},
                              Strings{"--expect=none", "activate", "--json", "m.toml", "--store=/s"}}) {
    const Options options = Parsed(line);
    CHECK(options.words == Strings{"activate", "m.toml"});
    CHECK(options.store == "/s");
    CHECK(options.json);
    CHECK(options.expect == "none");
  }
}

TEST_CASE("options: a value that looks like a verb is a value") {
  CHECK(Parsed({"--store", "activate", "status"}).words == Strings{"status"});
  CHECK(Parsed({"generate", "-p", "status"}).prompt == "status");
  CHECK(Parsed({"-p", "log", "generate"}).prompt == "log");
}

TEST_CASE("options: short and long forms, with and without '=', are one option") {
  for (const Strings& line :
       {Strings{"generate", "-p", "x", "-n", "7", "-c", "50"}, Strings{"generate", "--prompt", "x", "--predict", "7", "--ctx", "50"},
        Strings{"generate", "--prompt=x", "--predict=7", "--ctx=50"}, Strings{"-px", "-n7", "-c50", "generate"}}) {
    const Options options = Parsed(line);
    CHECK(options.prompt == "x");
    CHECK(options.predict == 7);
    CHECK(options.context == 50U);
  }
}

TEST_CASE("options: an unknown option, one of another command, and one cut short are refused with the way to the help") {
  for (const Strings& line :
       {Strings{"status", "--no-such-option"}, Strings{"status", "--adapter", "x"}, Strings{"init", "--temp", "1"},
        Strings{"generate", "--promp", "x"}, Strings{"generate", "--prompt"}, Strings{"status", "--json=yes"}, Strings{"status", "-x"}}) {
    const Error error = Refused(line);
    CHECK(error.at == line[0]);
    CHECK(error.detail.find("veneer " + line[0] + " --help") != std::string::npos);
  }
}

TEST_CASE("options: what is no command is refused by its name") {
  CHECK(Refused({"frobnicate"}).at == "frobnicate");
  CHECK(Refused({"--json", "Activate"}).detail.find("veneer --help") != std::string::npos);
  CHECK(Parsed({}).words.empty());
  CHECK(Parsed({"--help"}).help);
  CHECK(Parsed({"generate", "-h"}).help);
  CHECK(Parsed({"--version"}).version);
}

TEST_CASE("options: bytes are a number, alone or with K, M or G, that fits 64 bits") {
  const auto bytes = [](const std::string& text) { return Parsed({"plan", "--memory-budget", text}).memory_budget; };
  CHECK(bytes("0") == 0);
  CHECK(bytes("1000") == 1000);
  CHECK(bytes("3K") == 3072);
  CHECK(bytes("512M") == 536870912);
  CHECK(bytes("2G") == 2147483648);
  CHECK(bytes("18446744073709551615") == UINT64_MAX);
  CHECK(bytes("17179869183G") == 17179869183ULL << 30);
  CHECK(Parsed({"plan"}).memory_budget == UINT64_MAX);
  for (const std::string text : {"", "K", "-1", "1.5G", "1k", "1GB", "1 G", "0x10", "18446744073709551616", "17179869184G", "G1"}) {
    CAPTURE(text);
    CHECK(Refused({"plan", "--memory-budget", text}).at == "--memory-budget");
  }
}

TEST_CASE("options: adapters and stops keep their order and their text, PATH=W included") {
  const Options options = Parsed(
      {"--adapter", "b=0.5", "generate", "--base", "m.gguf", "--adapter", "a", "--adapter=c=1=2", "--stop", "x", "--stop", "", "-p", "t"});
  CHECK(options.adapters == Strings{"b=0.5", "a", "c=1=2"});
  CHECK(options.stops == Strings{"x", ""});
  CHECK(options.base == "m.gguf");
}

TEST_CASE("options: plugins are NAME=PATH, split at the first '='") {
  const Options options = Parsed({"plugin", "list", "--plugin", "one=/a/b=c.so", "--plugin", "two=rel.so", "--plugin-dir", "/d"});
  REQUIRE(options.plugins.size() == 2);
  CHECK(options.plugins[0] == std::pair<std::string, std::filesystem::path>("one", "/a/b=c.so"));
  CHECK(options.plugins[1].first == "two");
  CHECK(options.plugin_dirs == std::vector<std::filesystem::path>{"/d"});
  CHECK(Refused({"plugin", "list", "--plugin", "path.so"}).detail.find("NAME=PATH") != std::string::npos);
  CHECK(Refused({"plugin", "list", "--plugin", "=path.so"}).at == "--plugin");
}

TEST_CASE("options: token ids are integers between commas, blanks around them do not count") {
  CHECK(Parsed({"logits", "--tokens", "1,2,3"}).tokens == std::vector<std::int32_t>{1, 2, 3});
  CHECK(Parsed({"logits", "--tokens", " 7 , 0"}).tokens == std::vector<std::int32_t>{7, 0});
  for (const std::string text : {"", "1,,2", "1;2", "a", "1.5", "2147483648"}) {
    CAPTURE(text);
    CHECK(Refused({"logits", "--tokens", text}).at == "--tokens");
  }
}

TEST_CASE("options: numbers out of range are refused with the option, the value and what is allowed") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"--threads", "0"},        {"--threads", "257"}, {"--threads", "two"},        {"--ctx", "0"},      {"--compute", "slow"},
      {"--kv", "bf16"},          {"--temp", "-0.1"},   {"--temp", "nan"},           {"--top-p", "1.01"}, {"--min-p", "-1"},
      {"--repeat-penalty", "0"}, {"--predict", "-1"},  {"--predict", "4294967296"}, {"--seed", "-1"},    {"--top-k", "1.5"}};
  for (const auto& [option, value] : cases) {
    CAPTURE(option, value);
    const Error error = Refused({"generate", "-p", "x", option + "=" + value});
    CHECK(error.at == option);
    CHECK_FALSE(error.detail.empty());
  }
  for (const std::string value : {"0", "4097"}) CHECK(Refused({"logits", "--batch", value}).detail.find("1..4096") != std::string::npos);
}

TEST_CASE("options: a manifest and a base together are refused, for nobody could say which is meant") {
  CHECK(Refused({"generate", "-p", "x", "--manifest", "m.toml", "--base", "b.gguf"}).at == "--manifest");
}

TEST_CASE("options: without options the documented defaults hold") {
  const Options options = Parsed({"generate"});
  CHECK(options.compute == "fast");
  CHECK_FALSE(options.kv);
  CHECK(options.predict == 128);
  CHECK_FALSE(options.json);
  CHECK(options.threads >= 1);
  CHECK(Parsed({"logits"}).batch == 256);
}

TEST_CASE("options: the store is --store, else VENEER_STORE, else the XDG data directory, else one below HOME") {
  // Restored below: other tests of this process read them too.
  const auto save = [](const char* name) {
    const char* value = getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  const std::string store = save("VENEER_STORE"), data = save("XDG_DATA_HOME"), home = save("HOME");
  setenv("VENEER_STORE", "/from/variable", 1);
  setenv("XDG_DATA_HOME", "/from/xdg", 1);
  setenv("HOME", "/from/home", 1);
  CHECK(Parsed({"status", "--store", "/given"}).store == "/given");
  CHECK(Parsed({"status"}).store == "/from/variable");
  setenv("VENEER_STORE", "", 1);
  CHECK(Parsed({"status"}).store == "/from/xdg/veneer");
  unsetenv("VENEER_STORE");
  unsetenv("XDG_DATA_HOME");
  CHECK(Parsed({"status"}).store == "/from/home/.local/share/veneer");
  const auto restore = [](const char* name, const std::string& value) { value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1); };
  restore("VENEER_STORE", store);
  restore("XDG_DATA_HOME", data);
  restore("HOME", home);
}

}  // namespace
}  // namespace veneer::cli
