#include "core/model/architecture.h"

#include <string>

#include "tests/support/catch.h"

namespace veneer {
namespace {

// adapter-formats e.6: only files of architecture `llama` are interleaved; qwen2 has biases on q, k and v; qwen3 norms the heads.
TEST_CASE("architecture: llama, qwen2 and qwen3 are read, each with the traits of its family and no others") {
  struct Expected {
    const char* name;
    bool interleaved, biases, norms;
  };
  for (const auto& [name, interleaved, biases, norms] :
       {Expected{"llama", true, false, false}, {"qwen2", false, true, false}, {"qwen3", false, false, true}}) {
    CAPTURE(name);
    const auto architecture = FindArchitecture(name);
    REQUIRE(architecture);
    CHECK((*architecture)->name == name);
    CHECK((*architecture)->has_interleaved_heads == interleaved);
    CHECK((*architecture)->has_qkv_biases == biases);
    CHECK((*architecture)->has_head_norms == norms);
  }
}

TEST_CASE("architecture: any other name is refused with the list of those that are read, near misses too") {
  for (const char* const name : {"qwen3moe", "qwen2vl", "qwen", "Llama", "llama4", "gemma2", "phi3", ""}) {
    const auto architecture = FindArchitecture(name);
    REQUIRE_FALSE(architecture);
    CHECK(architecture.error().code == Code::FORMAT_UNSUPPORTED);
    CHECK(architecture.error().at == "general.architecture");
    for (const std::string& word : {std::string(name), std::string("\"llama\""), std::string("\"qwen2\""), std::string("\"qwen3\"")})
      CHECK(architecture.error().detail.find(word) != std::string::npos);
  }
}

}  // namespace
}  // namespace veneer
