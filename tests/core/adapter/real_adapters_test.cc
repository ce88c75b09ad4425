// Adapters that PEFT wrote, over the bases that they were trained on: which load, and with which code the others are refused.
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/peft_adapter.h"

namespace {

namespace fs = std::filesystem;

struct Expected {
  int code;           // 0: it loads
  std::size_t sites;  // of a loaded one
  std::uint64_t rank;
};

void CheckAll(const fs::path& adapters, const veneer::Base& base, const std::map<std::string, Expected>& expected) {
  std::size_t seen = 0;
  for (const auto& directory : fs::directory_iterator(adapters)) {
    if (!directory.is_directory()) continue;
    const std::string name = directory.path().filename().string();
    CAPTURE(name);
    REQUIRE(expected.contains(name));  // a new adapter needs a decision here
    const Expected& wanted = expected.at(name);
    ++seen;
    const auto adapter = ReadPath(directory.path(), base);
    if (!adapter) {
      CAPTURE(adapter.error().Text());
      CHECK(static_cast<int>(adapter.error().code) == wanted.code);
      continue;
    }
    CHECK(wanted.code == 0);
    CHECK(adapter->sites.size() == wanted.sites);
    CHECK(adapter->rank == wanted.rank);
  }
  CHECK(seen > 0);
}

const std::map<std::string, Expected> kStories = {
    {"lora-qv-r8", {0, 10, 8}},       {"lora-all-r4", {0, 35, 4}}, {"lora-rslora-r16", {0, 35, 16}}, {"lora-patterns", {0, 35, 6}},
    {"lora-embed", {0, 6, 4}},        {"ia3-default", {0, 15, 0}}, {"copies-embed-lora", {0, 6, 4}}, {"lora-mts-head", {0, 5, 4}},
    {"thirdparty-dora", {415, 0, 0}}, {"shira-r4", {415, 0, 0}},   {"refuse-pissa", {418, 0, 0}}};

}  // namespace

TEST_CASE("real adapters: those in the repository load or are refused as decided") {
  CheckAll(RepoData() / "stories260k/adapters", *OpenBase(RepoData() / "stories260k/stories260k-q8_0.gguf"), kStories);
  CheckAll(DemoData() / "adapters", *OpenBase(DemoData() / "fable-q4_0.gguf"),
           {{"bard", {0, 28, 16}}, {"hacker", {0, 28, 8}}, {"lexicon", {0, 12, 0}}});
}

TEST_CASE("real adapters: all of the larger data set load or are refused as decided") {
  const auto data = ExternalData();
  if (!data) return;
  CheckAll(*data / "stories260k/adapters", *OpenBase(*data / "stories260k/stories260k-q4_0.gguf"), kStories);
  CheckAll(*data / "fable/adapters", *OpenBase(*data / "fable/fable-q8_0.gguf"),
           {{"bard", {0, 28, 16}}, {"hacker", {0, 28, 8}}, {"lexicon", {0, 12, 0}}, {"verse", {415, 0, 0}}});
}

TEST_CASE("real adapters: scales are those of PEFT's rules") {
  const auto base = OpenBase(RepoData() / "stories260k/stories260k-q8_0.gguf");
  const auto scale = [&base](const std::string& name, const std::string& site) {
    const auto adapter = ReadPath(RepoData() / "stories260k/adapters" / name, *base);
    if (!adapter) FAIL(adapter.error().Text());
    return SiteOf(*adapter, site).scale.value();
  };
  CHECK(scale("lora-qv-r8", "model.layers.0.self_attn.q_proj") == 16.0 / 8);
  CHECK(scale("lora-rslora-r16", "model.layers.4.mlp.up_proj") == 8.0 / 4);
  CHECK(scale("lora-embed", "model.embed_tokens") == 8.0 / 4);
  // alpha_pattern {down_proj: 12, v_proj: 3}, rank_pattern {layers.1.mlp.down_proj: 6, q_proj: 2}, r 4, alpha 8
  CHECK(scale("lora-patterns", "model.layers.0.self_attn.q_proj") == 8.0 / 2);
  CHECK(scale("lora-patterns", "model.layers.0.self_attn.v_proj") == 3.0 / 4);
  CHECK(scale("lora-patterns", "model.layers.0.mlp.down_proj") == 12.0 / 4);
  CHECK(scale("lora-patterns", "model.layers.1.mlp.down_proj") == 12.0 / 6);
  CHECK(scale("lora-patterns", "model.layers.1.mlp.up_proj") == 8.0 / 4);
}

TEST_CASE("real adapters: an adapter of one base is refused by another, and says where they differ") {
  const auto base = OpenBase(RepoData() / "stories260k/stories260k-q8_0.gguf");
  const auto adapter = ReadPath(DemoData() / "adapters/bard", *base);
  REQUIRE_FALSE(adapter);
  CHECK(adapter.error().code == veneer::Code::SHAPE_MISMATCH);
  CHECK(adapter.error().detail.find("[16, 768]") != std::string::npos);
}
