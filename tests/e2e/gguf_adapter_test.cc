// Adapters in llama.cpp's layout through the command line: the same logits as the PEFT directory of the same adapter.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/gguf_adapter.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/vectors.h"

namespace {

namespace fs = std::filesystem;

const fs::path kStories = RepoData() / "stories260k";
const fs::path kBase = kStories / "stories260k-q8_0.gguf";
const std::string kTokens = "1,20,300,41,500,7,9,77";

Matrix Logits(const fs::path& base, const std::vector<std::string>& adapters) {
  const TempDir dir;
  const std::string out = (dir.path() / "logits.npy").string();
  std::vector<std::string> arguments{"logits", "--tokens",   "1,20,300,41,500,7,9,77", "--out", out, "--compute", "exact",
                                     "--base", base.string()};
  for (const std::string& adapter : adapters) arguments.insert(arguments.end(), {"--adapter", adapter});
  const ProcessResult result = Veneer(arguments);
  CAPTURE(arguments, result.err);
  REQUIRE(result.status == 0);
  return ReadNpy(out);
}

// llama.cpp's conversion of a PEFT directory, as a file.
std::string Converted(const TempDir& dir, const fs::path& peft, std::uint32_t head_dim, std::uint32_t type = VNR_F32) {
  const fs::path path = dir.path() / (peft.filename().string() + ".gguf");
  std::ofstream(path, std::ios::binary) << GgufFromPeft(peft, head_dim, type).Bytes();
  return path.string();
}

// A store with the stories base, ready for adapters.
class Shop : public ProgramStore {
 public:
  Shop() { Must({"import", "base", kBase.string(), "--name", "stories"}); }
  // Imports, composes, seals and activates; the logits of what is active then. The authored manifest is at Path("m.toml").
  Matrix Activated(const std::string& adapter, const std::vector<std::string>& options) {
    std::vector<std::string> import{"import", "adapter", adapter, "--name", "one"};
    import.insert(import.end(), options.begin(), options.end());
    Must(import);
    Must({"activate", MustJson({"seal", Compose("m", "stories", {"one"})}).at("composition")});
    Must({"logits", "--tokens", kTokens, "--out", Path("logits.npy"), "--compute", "exact"});
    return ReadNpy(Path("logits.npy"));
  }
};

nlohmann::json Json(const std::vector<std::string>& arguments) {
  const ProcessResult result = Veneer(arguments);
  CAPTURE(arguments, result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out);
}

}  // namespace

TEST_CASE("gguf adapter: llama.cpp's f32 file gives the logits of its PEFT directory, bit for bit, at any strength") {
  const std::string gguf = (kStories / "adapters/lora-all-r4.gguf").string(), peft = (kStories / "adapters/lora-all-r4").string();
  const Matrix base = Logits(kBase, {});
  for (const std::string strength : {"", "=0.7", "=-0.25"}) {
    const Matrix logits = Logits(kBase, {gguf + strength});
    CHECK(MaxDifference(logits, Logits(kBase, {peft + strength})) == 0);
    CHECK(MaxDifference(logits, base) > 0.1);
  }
}

TEST_CASE("gguf adapter: converted adapters give the logits of their PEFT directories, embedding and q/k rows included") {
  const TempDir dir;
  for (const std::string name : {"lora-qv-r8", "lora-all-r4", "lora-embed"}) {
    CAPTURE(name);
    const fs::path peft = kStories / "adapters" / name;
    CHECK(MaxDifference(Logits(kBase, {Converted(dir, peft, 8)}), Logits(kBase, {peft.string()})) == 0);
  }
  const fs::path fable = DemoData() / "fable-q4_0.gguf", bard = DemoData() / "adapters/bard";
  CHECK(MaxDifference(Logits(fable, {Converted(dir, bard, 32)}), Logits(fable, {bard.string()})) == 0);
}

TEST_CASE("gguf adapter: of an rslora training the format leaves out the factor sqrt(r), and nothing else") {
  const TempDir dir;
  const fs::path peft = kStories / "adapters/lora-rslora-r16";
  const std::string gguf = Converted(dir, peft, 8);
  const Matrix wanted = Logits(kBase, {peft.string()});
  CHECK(MaxDifference(Logits(kBase, {gguf}), wanted) > 0.1);
  CHECK(MaxDifference(Logits(kBase, {gguf + "=4"}), wanted) == 0);  // sqrt(16); strength and scale multiply
}

TEST_CASE("gguf adapter: factors in f16 agree with the golden vector, in q8_0 they come near it") {
  const TempDir dir;
  for (const VectorCase& one : ReadVectors(kStories / "vectors-q8_0")) {
    if (one.name != "lora-qv-r8" && one.name != "lora-all-r4") continue;
    CAPTURE(one.name);
    const bool is_f16 = one.name == "lora-qv-r8";
    const std::string adapter =
        is_f16 ? (kStories / "adapters/lora-qv-r8-f16.gguf").string() : Converted(dir, kStories / "adapters/lora-all-r4", 8, VNR_Q8_0);
    const std::string out = (dir.path() / "logits.npy").string();
    const ProcessResult result = Veneer(
        {"logits", "--tokens", JoinTokens(one.prompt), "--out", out, "--compute", "exact", "--base", kBase.string(), "--adapter", adapter});
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    // A q8_0 value is within 1/254 of its block's largest; the edit is a part of the logits' spread: 1 % of that spread is ample.
    CHECK(MaxDifference(ReadNpy(out), one.logits) <= (is_f16 ? one.tolerance() : 0.01 * one.logit_std));
  }
}

TEST_CASE("gguf adapter: every one of the larger data set agrees with its PEFT directory on every base") {
  const auto data = ExternalData();
  if (!data) return;
  int checked = 0;
  for (const char* family : {"stories260k", "fable"})
    for (const auto& file : fs::directory_iterator(*data / family / "adapters")) {
      if (file.path().extension() != ".gguf") continue;
      const bool is_f16 = file.path().stem().string().ends_with("-f16");
      const std::string stem = file.path().stem().string();
      const fs::path peft = *data / family / "adapters" / stem.substr(0, stem.size() - (is_f16 ? 4 : 0));
      REQUIRE(fs::is_directory(peft));
      for (const char* quant : {"f32", "q4_0", "q5_1", "q8_0"}) {
        const fs::path base = *data / family / (family + std::string("-") + quant + ".gguf");
        if (!fs::exists(base)) continue;
        CAPTURE(file.path().string(), base.string());
        // Rounding the factors to f16 changes each by 2^-11 of itself, so the edit by about a thousandth.
        CHECK(MaxDifference(Logits(base, {file.path().string()}), Logits(base, {peft.string()})) <= (is_f16 ? 5e-3 : 0));
        ++checked;
      }
    }
  CHECK(checked >= 8);
}

TEST_CASE("gguf adapter: imported, sealed and activated it is what it was beside the store") {
  Shop shop;
  const std::string gguf = (kStories / "adapters/lora-all-r4.gguf").string();
  CHECK(MaxDifference(shop.Activated(gguf, {}), Logits(kBase, {gguf})) == 0);
  shop.Must({"seal", shop.Path("m.toml"), "-o", shop.Path("sealed.json")});
  std::ifstream text(shop.Path("sealed.json"));
  const auto sealed = nlohmann::json::parse(text).at("adapters").at(0);
  CHECK(sealed.at("format") == "gguf");
  CHECK(sealed.at("kind") == "lora");
  CHECK_FALSE(sealed.contains("config_hash"));
  shop.Must({"fsck", "--full"});
  // A base is no adapter, and nothing of it stays.
  const ProcessResult refused = shop.Run({"import", "adapter", kBase.string()});
  CHECK(refused.status == 3);
  CHECK(refused.err.find("E401") != std::string::npos);
  CHECK(refused.err.find("general.type") != std::string::npos);
}

TEST_CASE("gguf adapter: --params scale= at import gives back the scale that the format lost") {
  // r 16, alpha 8, rslora: 8 / sqrt(16) = 2, where the file says 8 / 16.
  Shop shop;
  const TempDir dir;
  const fs::path peft = kStories / "adapters/lora-rslora-r16";
  const Matrix logits = shop.Activated(Converted(dir, peft, 8), {"--params", "scale=2"});
  CHECK(MaxDifference(logits, Logits(kBase, {peft.string()})) == 0);
}

TEST_CASE("gguf adapter: inspect tells an adapter from a base, lists its tensors, and with a base its sites and scales") {
  const std::string gguf = (kStories / "adapters/lora-all-r4.gguf").string();
  const auto alone = Json({"inspect", gguf, "--json"});
  CHECK(alone.at("what") == "adapter");
  CHECK(alone.at("format") == "gguf");
  CHECK(alone.at("tensors").size() == 70);
  CHECK(alone.at("tensors")[0].at("shape") == nlohmann::json::array({4, 172}));
  const auto placed = Json({"inspect", gguf, "--base", kBase.string(), "--json"});
  CHECK(placed.at("kind") == "lora");
  CHECK(placed.at("format") == "gguf");
  CHECK(placed.at("rank") == 4);
  REQUIRE(placed.at("sites").size() == 35);
  CHECK(placed.at("sites")[0].at("scale") == 1.0);
  CHECK(Json({"inspect", kBase.string(), "--json"}).at("what") == "base");
}

TEST_CASE("inspect: --params reads an adapter with another scale, from its files and from the store alike, and what it refuses is named") {
  const std::string file = (kStories / "adapters/lora-qv-r8-f16.gguf").string(), base = kBase.string();
  const auto scales = [](const nlohmann::json& facts) {
    std::set<double> found;
    for (const nlohmann::json& site : facts.at("sites")) found.insert(site.at("scale").get<double>());
    return found;
  };
  const ProgramStore store;
  CHECK(scales(store.MustJson({"inspect", file, "--base", base, "--params", "scale=0.5"})) == std::set{0.5});
  store.Must({"import", "adapter", file, "--name", "style", "--params", "scale=3"});
  CHECK(scales(store.MustJson({"inspect", "style", "--base", base})) == std::set{3.0});
  CHECK(scales(store.MustJson({"inspect", "style", "--base", base, "--params", "scale=0.5"})) == std::set{0.5});
  const ProcessResult refused = store.Run({"inspect", file, "--base", base, "--params", "colour=red"});
  CHECK(refused.status == 3);
  CHECK(refused.err.find("/params/colour") != std::string::npos);
}
