#include "core/compose/store_source.h"

#include <errno.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "core/store/midstates.h"
#include "core/store/posix_sys.h"
#include "tests/support/catch.h"
#include "tests/support/crowd_sys.h"
#include "tests/support/sim_sys.h"
#include "tests/support/temp_dir.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

const std::string kBase(5000, 'b'), kWeights = "weights of an adapter", kConfig = "{\"r\": 8}", kOther = "{\"r\": 4}";

// A store with those four files.
struct Fixture {
  Fixture() {
    for (const std::string& bytes : {kBase, kWeights, kConfig, kOther})
      if (!store.PutBlob(bytes)) throw std::runtime_error("cannot store a blob");
  }
  // Names the weights, with a configuration or none.
  void Import(const std::string& name, const std::optional<std::string>& config) {
    AdapterRecord record;
    record.kind = "test.kind";
    record.format = "safetensors";
    record.file_hash = Sha256::Of(kWeights);
    record.file_size = kWeights.size();
    if (config) {
      record.config_hash = Sha256::Of(*config);
      record.config_size = config->size();
    }
    if (auto put = store.PutRef({RefKind::kAdapter, name, record.Print()}); !put) throw std::runtime_error(put.error().Text());
  }
  [[nodiscard]] fs::path Blob(const std::string& bytes) const { return dir.path() / "store/blobs/sha256" / Sha256::Of(bytes).Hex(); }
  static Store Make(Sys& sys, const fs::path& path) {
    auto made = Store::Init(sys, path.string());
    if (!made) throw std::runtime_error(made.error().Text());
    return *std::move(made);
  }

  TempDir dir;
  PosixSys posix;
  SimSys sys{posix};
  Store store = Make(sys, dir.path() / "store");
};

AuthoredAdapter Entry(const std::string& bytes = kWeights) {
  AuthoredAdapter entry;
  entry.name = "style";
  entry.file_hash = Sha256::Of(bytes);
  entry.at = "/adapters/3";
  return entry;
}

// Writes over a blob, whatever its mode, and leaves its size.
void Damage(const fs::path& blob) {
  fs::permissions(blob, fs::perms::owner_write, fs::perm_options::add);
  std::fstream(blob, std::ios::binary | std::ios::in | std::ios::out) << '?';
  fs::permissions(blob, fs::perms(0444));
}

template <class T>
void CheckRefused(const Result<T>& result, Code code, const std::string& at) {
  REQUIRE_FALSE(result);
  CAPTURE(result.error().Text());
  CHECK(result.error().code == code);
  CHECK(result.error().at == at);
}

TEST_CASE("store source: base and adapter come with the bytes and digests that the entry names") {
  Fixture f;
  StoreSource source(f.store);
  const auto base = source.OpenBase(Sha256::Of(kBase), std::nullopt);
  REQUIRE(base);
  CHECK(Sha256::Of(base->bytes()) == Sha256::Of(kBase));
  AuthoredAdapter entry = Entry();
  entry.config_hash = Sha256::Of(kConfig);
  entry.config_size = kConfig.size();
  const auto adapter = source.OpenAdapter(entry);
  REQUIRE(adapter);
  CHECK(adapter->file_hash == Sha256::Of(kWeights));
  CHECK(adapter->file_size == kWeights.size());
  CHECK(adapter->config_hash == Sha256::Of(kConfig));
  CHECK(adapter->config_size == kConfig.size());
  REQUIRE(adapter->files.config);
  CHECK(Sha256::Of(adapter->files.config->bytes()) == Sha256::Of(kConfig));
}

TEST_CASE("store source: what is missing, of another size or damaged is refused at the field that names it") {
  Fixture f;
  StoreSource source(f.store);
  CheckRefused(source.OpenBase(Sha256::Of("no such base"), std::nullopt), Code::BLOB_MISSING, "/base_model_hash");
  CheckRefused(source.OpenAdapter(Entry("no such weights")), Code::BLOB_MISSING, "/adapters/3/file_hash");
  AuthoredAdapter entry = Entry();
  entry.config_hash = Sha256::Of("no such configuration");
  CheckRefused(source.OpenAdapter(entry), Code::BLOB_MISSING, "/adapters/3/config_hash");
  entry.config_hash = Sha256::Of(kConfig);
  entry.config_size = kConfig.size() + 1;
  CheckRefused(source.OpenAdapter(entry), Code::SIZE_MISMATCH, "/adapters/3/config_hash");
  entry.file_size = kWeights.size() - 1;
  CheckRefused(source.OpenAdapter(entry), Code::SIZE_MISMATCH, "/adapters/3/file_hash");
  Damage(f.Blob(kBase));
  CheckRefused(source.OpenBase(Sha256::Of(kBase), std::nullopt), Code::HASH_MISMATCH, "/base_model_hash");
  Damage(f.Blob(kConfig));
  entry = Entry();
  entry.config_hash = Sha256::Of(kConfig);
  CheckRefused(source.OpenAdapter(entry), Code::HASH_MISMATCH, "/adapters/3/config_hash");
  Damage(f.Blob(kWeights));
  CheckRefused(source.OpenAdapter(entry), Code::HASH_MISMATCH, "/adapters/3/file_hash");
}

TEST_CASE("store source: an entry without a configuration gets the one that was imported with the file") {
  Fixture f;
  StoreSource source(f.store);
  const auto config_of = [&source](const AuthoredAdapter& entry) {
    const auto adapter = source.OpenAdapter(entry);
    REQUIRE(adapter);
    return adapter->config_hash;
  };
  CHECK_FALSE(config_of(Entry()));  // nobody imported one
  f.Import("other-name", kConfig);
  CHECK(config_of(Entry()) == Sha256::Of(kConfig));
  f.Import("third", kConfig);
  CHECK(config_of(Entry()) == Sha256::Of(kConfig));
  f.Import("style", kOther);  // the entry's own name decides
  CHECK(config_of(Entry()) == Sha256::Of(kOther));
  AuthoredAdapter elsewhere = Entry();
  elsewhere.name = "unheard-of";
  CheckRefused(source.OpenAdapter(elsewhere), Code::FIELD_MISSING, "/adapters/3/config_hash");
  elsewhere.config_hash = Sha256::Of(kOther);
  CHECK(config_of(elsewhere) == Sha256::Of(kOther));
}

TEST_CASE("store source: a read error of the disk is E603, and the next try works") {
  Fixture f;
  StoreSource source(f.store);
  bool failed = false;
  for (std::uint64_t at = 1; at < 200; ++at) {
    CAPTURE(at);
    f.sys.Reset();
    f.sys.FailAt(at, EIO);
    const auto base = source.OpenBase(Sha256::Of(kBase), std::nullopt);
    const bool was_reached = f.sys.calls() >= at;
    if (!base) CHECK(base.error().code == Code::IO);
    if (base) CHECK(Sha256::Of(base->bytes()) == Sha256::Of(kBase));
    failed = failed || !base;
    if (!was_reached) break;
  }
  CHECK(failed);
  f.sys.Reset();
  f.sys.FailAt(UINT64_MAX, EIO);
  CHECK(source.OpenBase(Sha256::Of(kBase), std::nullopt));
}

TEST_CASE("store source: records are canonical JSON and read back as they were") {
  AdapterRecord record{
      "some.kind", "safetensors", Sha256::Of(kWeights), 21, Sha256::Of(kConfig), 8, {{"a", std::string("x\"y")}, {"b", std::uint64_t{7}}}};
  CHECK(record.Print() == "{\"config_hash\":\"" + Sha256::Of(kConfig).Text() + "\",\"config_size\":8,\"file_hash\":\"" +
                              Sha256::Of(kWeights).Text() +
                              R"(","file_size":21,"format":"safetensors","kind":"some.kind","params":{"a":"x\"y","b":7}})");
  const auto again = AdapterRecord::Parse({RefKind::kAdapter, "style", record.Print()});
  REQUIRE(again);
  CHECK(again->Print() == record.Print());
  CHECK(again->params == record.params);
  const BaseRecord base{Sha256::Of(kBase), kBase.size(), "gguf", Sha256::Of("tokenizer")};
  const auto base_again = BaseRecord::Parse({RefKind::kBase, "tiny", base.Print()});
  REQUIRE(base_again);
  CHECK(base_again->Print() == base.Print());
  CHECK(base_again->size == 5000);
}

TEST_CASE("store source: a record without its digests is E602 and names the reference") {
  for (const std::string text : {"{}", R"({"file_hash":7})", R"({"file_hash":"sha256:12"})"}) {
    CAPTURE(text);
    CheckRefused(AdapterRecord::Parse({RefKind::kAdapter, "style", text}), Code::STATE_CORRUPT, "refs/adapter/style");
  }
  const std::string no_tokenizer = R"({"hash":")" + Sha256::Of(kBase).Text() + R"("})";
  CheckRefused(BaseRecord::Parse({RefKind::kBase, "tiny", no_tokenizer}), Code::STATE_CORRUPT, "refs/base/tiny");
}

// Four parts for several threads (core/store/midstates.h).
std::string LargeWeights() {
  std::string bytes(13 << 20, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
  return bytes;
}

TEST_CASE("store source: the private copy of a large adapter is hashed by all threads of the store, its changed bytes are refused") {
  Fixture f;
  const std::string bytes = LargeWeights();
  REQUIRE(f.store.PutBlob(bytes));
  OpenedComposition opened;  // proven already, so that nothing but the copy is hashed below
  auto blob = f.store.OpenBlob(Sha256::Of(bytes));
  REQUIRE(blob);
  opened.blobs.push_back(*std::move(blob));
  const fs::path midstates = f.dir.path() / "store/veneer/verified" / (Sha256::Of(bytes).Hex() + ".midstates");
  REQUIRE(fs::exists(midstates));
  for (const std::uint32_t threads : {1U, 3U}) {
    CAPTURE(threads);
    CrowdSys crowd(f.posix, threads);
    const auto store = Store::Open(crowd, (f.dir.path() / "store").string(), {.threads = threads});
    REQUIRE(store);
    const auto adapter = StoreSource(*store, &opened).OpenAdapter(Entry(bytes));
    REQUIRE(adapter);
    CHECK(crowd.most() == threads);
    CHECK(adapter->file_hash == Sha256::Of(adapter->files.weights.bytes()));
    CHECK(adapter->file_size == bytes.size());
  }
  Damage(f.Blob(bytes));  // through the same inode, which is open
  CheckRefused(StoreSource(f.store, &opened).OpenAdapter(Entry(bytes)), Code::BLOB_CHANGED, "/adapters/3/file_hash");
  fs::remove(midstates);
  CheckRefused(StoreSource(f.store, &opened).OpenAdapter(Entry(bytes)), Code::BLOB_CHANGED, "/adapters/3/file_hash");
}

TEST_CASE("store source: a large adapter without midstates, or with those of other bytes, is proven all the same") {
  Fixture f;
  const std::string bytes = LargeWeights();
  REQUIRE(f.store.PutBlob(bytes));
  const fs::path midstates = f.dir.path() / "store/veneer/verified" / (Sha256::Of(bytes).Hex() + ".midstates");
  OpenedComposition opened;
  auto blob = f.store.OpenBlob(Sha256::Of(bytes));
  REQUIRE(blob);
  opened.blobs.push_back(*std::move(blob));
  std::ofstream(midstates, std::ios::trunc) << PrintMidstates(Sha256::Of(bytes), bytes.size(), Midstates(3));
  CHECK(StoreSource(f.store, &opened).OpenAdapter(Entry(bytes)));
  fs::remove(midstates);
  CHECK(StoreSource(f.store, &opened).OpenAdapter(Entry(bytes)));
}

}  // namespace
}  // namespace veneer
