#include "core/compose/path_source.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/peft_adapter.h"
#include "tests/support/temp_dir.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

std::string Stories() { return (RepoData() / "stories260k/stories260k-q8_0.gguf").string(); }
fs::path StoriesAdapter(const std::string& name) { return RepoData() / "stories260k/adapters" / name; }

Digest DigestOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return Sha256::Of(bytes);
}

AdapterPath Path(const fs::path& path, const std::string& strength = "1") {
  return {path, *Decimal::FromAuthored(strength, "test"), "", {}};
}

TEST_CASE("path source: the manifest names every file by its digest, in the order given, with the strengths given") {
  const auto source =
      PathSource::Open(Stories(), {Path(StoriesAdapter("lora-qv-r8"), "0.5"), Path(StoriesAdapter("ia3-default"), "-2")}, {});
  REQUIRE(source);
  const Manifest& manifest = source->manifest();
  CHECK(manifest.base_model_hash == DigestOf(Stories()));
  CHECK(CheckTimestamp(manifest.timestamp_utc, "test"));
  REQUIRE(manifest.adapters.size() == 2);
  const std::vector<std::pair<std::string, std::string>> expected{{"lora-qv-r8", "0.5"}, {"ia3-default", "-2"}};
  for (std::size_t i = 0; i < 2; ++i) {
    const AuthoredAdapter& entry = manifest.adapters[i];
    const fs::path folder = StoriesAdapter(expected[i].first);
    CHECK(entry.name == expected[i].first);
    CHECK(entry.merge_weight.text() == expected[i].second);
    CHECK(entry.load_order == i);
    CHECK(entry.file_hash == DigestOf(folder / "adapter_model.safetensors"));
    CHECK(entry.config_hash == DigestOf(folder / "adapter_config.json"));
    CHECK_FALSE(entry.kind);
    CHECK(entry.at == folder.string());
  }
}

TEST_CASE("path source: repeats of a name get the suffixes -2 and -3, one that is taken already is stepped over") {
  const TempDir dir;
  const auto copy = [&dir](const std::string& name) {
    fs::copy(StoriesAdapter("lora-qv-r8"), dir.path() / name);
    return dir.path() / name;
  };
  const auto names = [](const std::vector<AdapterPath>& paths) {
    const auto source = PathSource::Open(Stories(), paths, {});
    REQUIRE(source);
    std::vector<std::string> found;
    for (const AuthoredAdapter& entry : source->manifest().adapters) found.push_back(entry.name);
    return found;
  };
  const AdapterPath same = Path(copy("Style A"));
  CHECK(names({same, same, same}) == std::vector<std::string>{"style-a", "style-a-2", "style-a-3"});
  CHECK(names({Path(copy("style-a-2")), same, same}) == std::vector<std::string>{"style-a-2", "style-a", "style-a-3"});
}

TEST_CASE("path source: a name is cleaned to what the manifest's grammar accepts") {
  const std::vector<std::pair<std::string, std::string>> cases{{"/x/Bard", "bard"},
                                                               {"/x/bard/", "bard"},
                                                               {"/x/My Adapter.safetensors", "my-adapter"},
                                                               {"model.v2.gguf", "model.v2"},
                                                               {"/x/.hidden", "hidden"},
                                                               {"/x/--a--", "a"},
                                                               {"/x/\xC3\x9C"
                                                                "ber",
                                                                "ber"},
                                                               {"/x/...", "adapter"},
                                                               {"/x/\xC3\x9C", "adapter"},
                                                               {"", "adapter"},
                                                               {"/x/a_b.c", "a_b"},
                                                               {std::string(200, 'q'), std::string(60, 'q')}};
  for (const auto& [path, name] : cases) {
    CAPTURE(path);
    CHECK(CleanName(path) == name);
  }
}

TEST_CASE("path source: PATH=W splits at the last '=' unless a file has that very name; a bad strength is refused with its place") {
  const TempDir dir;
  const std::string plain = (dir.path() / "a").string(), odd = (dir.path() / "b=0.5").string();
  fs::create_directory(plain);
  fs::create_directory(odd);
  const auto parsed = [](const std::string& text) {
    const auto path = ParseAdapterPath(text);
    REQUIRE(path);
    return std::pair(path->path.string(), path->strength.text());
  };
  CHECK(parsed(plain) == std::pair(plain, std::string("1")));
  CHECK(parsed(plain + "=0.50") == std::pair(plain, std::string("0.5")));
  CHECK(parsed(plain + "=0") == std::pair(plain, std::string("0")));
  CHECK(parsed(odd) == std::pair(odd, std::string("1")));
  CHECK(parsed(odd + "=-1") == std::pair(odd, std::string("-1")));
  for (const std::string strength : {"", "much", "nan", "0.70000000000000001", "1,5"}) {
    CAPTURE(strength);
    const auto refused = ParseAdapterPath(plain + "=" + strength);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::WEIGHT_INVALID);
    CHECK(refused.error().at.find("--adapter " + plain) == 0);
  }
}

TEST_CASE("path source: files that are not there are E301 with their path") {
  const TempDir dir;
  const auto no_base = PathSource::Open(dir.path() / "absent.gguf", {}, {});
  REQUIRE_FALSE(no_base);
  CHECK(no_base.error().code == Code::BLOB_MISSING);
  CHECK(no_base.error().at.find("absent.gguf") != std::string::npos);
  fs::create_directory(dir.path() / "empty");
  for (const std::string name : {"absent", "empty"}) {
    const auto no_adapter = PathSource::Open(Stories(), {Path(dir.path() / name)}, {});
    REQUIRE_FALSE(no_adapter);
    CHECK(no_adapter.error().code == Code::BLOB_MISSING);
    CHECK(no_adapter.error().at.find(name) != std::string::npos);
  }
}

TEST_CASE("path source: it gives the base that it hashed, once, and no other") {
  auto source = PathSource::Open(Stories(), {}, {});
  REQUIRE(source);
  const auto other = source->OpenBase(Sha256::Of("another base"), std::nullopt);
  REQUIRE_FALSE(other);
  CHECK(other.error().code == Code::BLOB_MISSING);
  const auto base = source->OpenBase(source->manifest().base_model_hash, std::nullopt);
  REQUIRE(base);
  CHECK(Sha256::Of(base->bytes()) == DigestOf(Stories()));
  CHECK_FALSE(source->OpenBase(source->manifest().base_model_hash, std::nullopt));
}

TEST_CASE("path source: an adapter whose weights or configuration changed since they were hashed is E305") {
  for (const std::string file : {"adapter_model.safetensors", "adapter_config.json"}) {
    CAPTURE(file);
    const TempDir dir;
    const fs::path folder = dir.path() / "style";
    fs::copy(StoriesAdapter("lora-qv-r8"), folder);
    auto source = PathSource::Open(Stories(), {Path(folder)}, {});
    REQUIRE(source);
    CHECK(source->OpenAdapter(source->manifest().adapters[0]));
    fs::permissions(folder / file, fs::perms::owner_write, fs::perm_options::add);
    std::ofstream(folder / file, std::ios::binary | std::ios::app) << ' ';
    const auto changed = source->OpenAdapter(source->manifest().adapters[0]);
    REQUIRE_FALSE(changed);
    CHECK(changed.error().code == Code::BLOB_CHANGED);
    CHECK(changed.error().at == folder.string());
  }
}

}  // namespace
}  // namespace veneer
