#include "core/compose/base_directory.h"

#include <string>

#include "core/compose/path_source.h"
#include "core/model/hf_tensors.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_base.h"
#include "tests/support/tiny_hf.h"

namespace veneer {
namespace {

Error Refused(const std::filesystem::path& directory) {
  const auto base = OpenBaseFiles(directory, {});
  REQUIRE_FALSE(base.has_value());
  return base.error();
}

TEST_CASE("base directory: its identity is the SHA-256 of the canonical list of config, index and shards, and of nothing else") {
  const TempDir dir;
  const std::string index = R"({"weight_map":{"x":"b.safetensors","y":"a.safetensors"}})";
  ::WriteAll(dir.path() / "config.json", "{}");
  ::WriteAll(dir.path() / "model.safetensors.index.json", index);
  ::WriteAll(dir.path() / "a.safetensors", "first");
  ::WriteAll(dir.path() / "b.safetensors", "second one");
  const std::string expected = R"({"files":[{"name":"a.safetensors","sha256":")" + Sha256::Of("first").Text() +
                               R"(","size":5},{"name":"b.safetensors","sha256":")" + Sha256::Of("second one").Text() +
                               R"(","size":10},{"name":"config.json","sha256":")" + Sha256::Of("{}").Text() +
                               R"(","size":2},{"name":"model.safetensors.index.json","sha256":")" + Sha256::Of(index).Text() +
                               R"(","size":)" + std::to_string(index.size()) + "}]}";
  for (const bool with_others : {false, true}) {
    if (with_others) {
      ::WriteAll(dir.path() / "generation_config.json", "{}");
      ::WriteAll(dir.path() / "tokenizer.model", "\n");
    }
    const auto base = OpenBaseFiles(dir.path(), {});
    REQUIRE(base.has_value());
    CHECK(base->list == expected);
    CHECK(base->tokenizer.id == (with_others ? "hf-sentencepiece" : "hf-none"));
  }
}

TEST_CASE("base directory: what is missing or twofold is named, and pickles are refused") {
  const TempDir dir;
  CHECK(Refused(dir.path()).code == Code::BLOB_MISSING);
  CHECK(Refused(dir.path()).at.ends_with("config.json"));
  ::WriteAll(dir.path() / "config.json", "{}");
  CHECK(Refused(dir.path()).code == Code::BLOB_MISSING);
  CHECK(Refused(dir.path()).at.ends_with("model.safetensors"));
  ::WriteAll(dir.path() / "pytorch_model.bin", "x");
  CHECK(Refused(dir.path()).code == Code::FORMAT_UNSUPPORTED);
  CHECK(Refused(dir.path()).at.ends_with("pytorch_model.bin"));
  ::WriteAll(dir.path() / "model.safetensors.index.json", R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors"}})");
  ::WriteAll(dir.path() / "a.safetensors", "x");
  CHECK(Refused(dir.path()).code == Code::BLOB_MISSING);
  CHECK(Refused(dir.path()).at.ends_with("b.safetensors"));
  ::WriteAll(dir.path() / "model.safetensors", "x");
  CHECK(Refused(dir.path()).code == Code::FORMAT_UNSUPPORTED);
  CHECK(Refused(dir.path()).at == dir.path().string());
  ::WriteAll(dir.path() / "model.safetensors.index.json", R"({"weight_map":{"x":"../a.safetensors"}})");
  std::filesystem::remove(dir.path() / "model.safetensors");
  CHECK(Refused(dir.path()).code == Code::NAME_INVALID);
}

TEST_CASE("base directory: a composition over one says so, and a file that is written to afterwards is noticed") {
  const TempDir dir;
  TinyHf(*OpenTiny(TinyLlama())).Write(dir.path());
  auto source = PathSource::Open(dir.path(), {}, {});
  REQUIRE(source.has_value());
  const Digest hash = source->manifest().base_model_hash;
  auto files = source->OpenBase(hash, std::nullopt);
  REQUIRE(files.has_value());
  CHECK(Sha256::Of(files->list) == hash);
  const auto base = Base::Open(*std::move(files));
  REQUIRE(base.has_value());
  CHECK((*base)->format() == "hf");
  CHECK((*base)->CheckUnchanged(hash).has_value());
  ::WriteAll(dir.path() / "model.safetensors", std::string((*base)->file_bytes(), 'x'));
  const Status changed = (*base)->CheckUnchanged(hash);
  REQUIRE_FALSE(changed.has_value());
  CHECK(changed.error().code == Code::BLOB_CHANGED);
}

}  // namespace
}  // namespace veneer
