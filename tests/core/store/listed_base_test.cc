// A base that is a list of files: every file it names is needed wherever the base is.
#include <algorithm>
#include <string>

#include "core/manifest/base_list.h"
#include "core/store/gc.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;
namespace fs = std::filesystem;

namespace {

const std::string kShard(5000, 's'), kConfig = "{\"model_type\":\"test\"}\n";

std::string List() {
  return PrintBaseList({{"config.json", Sha256::Of(kConfig), kConfig.size()}, {"model.safetensors", Sha256::Of(kShard), kShard.size()}});
}

// A composition of the fixture over the list instead of the fixture's base.
std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("the composition has no " + from);
  return text.replace(at, from.size(), to);
}
std::string Listed(const std::string& list) {
  std::string text = Replaced(CompositionText({"style"}), R"("base_format":"gguf")", R"("base_format":"hf")");
  text = Replaced(text, Sha256::Of(kBaseBytes).Text(), Sha256::Of(list).Text());
  return Replaced(text, R"("base_model_size":4096)", R"("base_model_size":)" + std::to_string(list.size()));
}

Digest Import(StoreFixture& store, const std::string& list) {
  Store open = store.Open();
  std::vector<StagedBlob> blobs;
  for (const std::string& bytes : {kShard, kConfig, list, Listed(list)}) blobs.push_back(Must(open.StageBytes(bytes)));
  Must(open.Import(blobs));
  return Sha256::Of(Listed(list));
}

}  // namespace

TEST_CASE("store: a base that lists its files is active with every one of them open, and collection leaves them") {
  StoreFixture store;
  const Digest id = Import(store, List());
  Must(store.Activate(id));
  Must(store.Open().CollectGarbage({.grace = std::chrono::seconds(0)}));
  for (const std::string& bytes : {kShard, kConfig, List()}) CHECK(fs::exists(store.blob(bytes)));
  CHECK_FALSE(fs::exists(store.blob(kSafetyBytes)));
  const Store open = store.Open();
  const auto active = Must(open.OpenActive());
  for (const std::string& bytes : {kShard, kConfig, List()}) CHECK(active.opened.Find(Sha256::Of(bytes)) != nullptr);
  CHECK(store.Fsck().findings.empty());
}

TEST_CASE("store: a base that lists its files is refused when one is missing or damaged, by its name, and nothing changes") {
  const auto refused = [](Code code, auto spoil) {
    StoreFixture store;
    const Digest id = Import(store, List());
    spoil(store);
    const auto activation = store.Activate(id);
    REQUIRE_FALSE(activation.has_value());
    CAPTURE(activation.error().Text());
    CHECK(activation.error().code == code);
    CHECK(activation.error().at.find("model.safetensors") != std::string::npos);
    CHECK(store.Current().composition == std::nullopt);
  };
  refused(Code::BLOB_MISSING, [](StoreFixture& store) { fs::remove(store.blob(kShard)); });
  refused(Code::SIZE_MISMATCH, [](StoreFixture& store) {
    WriteFile(store.blob(kShard), kShard + "x");
    fs::permissions(store.blob(kShard), fs::perms(0444));
  });
  refused(Code::HASH_MISMATCH, [](StoreFixture& store) {
    WriteFile(store.blob(kShard), std::string(kShard.size(), 't'));
    fs::permissions(store.blob(kShard), fs::perms(0444));
  });
}

TEST_CASE("store: a base that lists its files has none of them missing unseen by fsck, and what is no list is refused") {
  StoreFixture store;
  Must(store.Activate(Import(store, List())));
  fs::remove(store.blob(kConfig));
  const FsckReport report = store.Fsck();
  CHECK(std::ranges::any_of(report.findings, [&](const auto& one) { return one.at.find(Sha256::Of(kConfig).Hex()) != std::string::npos; }));
  StoreFixture other;
  const auto activation = other.Activate(Import(other, "no list at all"));
  REQUIRE_FALSE(activation.has_value());
  CHECK(activation.error().at.starts_with("/base_model_hash"));
}
