// inspect through the command line. What is expected comes from adapter_config.json and the tensor headers, read here.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/gguf_adapter.h"
#include "tests/support/process.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kStories = RepoData() / "stories260k";
const std::string kBase = (kStories / "stories260k-q8_0.gguf").string(), kFable = (DemoData() / "fable-q4_0.gguf").string();
const std::string kNoStore = "/nonexistent/veneer-store";

json Parsed(const ProcessResult& result) {
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}
// Without any store, so that no active composition lends its base.
ProcessResult Inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "inspect");
  arguments.insert(arguments.end(), {"--store", kNoStore});
  return Veneer(arguments);
}
json InspectJson(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  return Parsed(Inspect(std::move(arguments)));
}

// The header of a safetensors file: eight bytes of length, then JSON.
json HeaderOf(const fs::path& file) {
  const std::string bytes = ReadAll(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  json header = json::parse(bytes.substr(8, length));
  header.erase("__metadata__");
  return header;
}
std::uint64_t BytesOf(const json& tensor) {
  return tensor.at("data_offsets")[1].get<std::uint64_t>() - tensor.at("data_offsets")[0].get<std::uint64_t>();
}

// The module of a tensor of a PEFT file.
std::string ModuleOf(const std::string& tensor) {
  const std::string prefix = "base_model.model.";
  for (const char* const part : {".lora_A", ".lora_B", ".lora_embedding_", ".ia3_l", ".shira_"})
    if (const auto at = tensor.find(part); at != std::string::npos) return tensor.substr(prefix.size(), at - prefix.size());
  return "";
}

// PEFT's rule for rank_pattern and alpha_pattern: the first key that the module ends with, at a dot.
double Patterned(const json& config, const char* pattern, const char* key, const std::string& module) {
  if (config.contains(pattern) && config.at(pattern).is_object())
    for (const auto& [suffix, value] : config.at(pattern).items())
      if (module == suffix || module.ends_with("." + suffix)) return value.get<double>();
  return config.at(key).get<double>();
}

// Each site of the report against configuration and header; returns how many there were.
std::size_t CheckLora(const fs::path& adapter, const std::string& base) {
  CAPTURE(adapter.string(), base);
  const json config = json::parse(ReadAll(adapter / "adapter_config.json")), header = HeaderOf(adapter / "adapter_model.safetensors");
  const json facts = InspectJson({adapter.string(), "--base", base});
  CHECK(facts.at("what") == "adapter");
  CHECK(facts.at("kind") == "lora");
  CHECK(facts.at("format") == "safetensors");
  CHECK(facts.at("file_size") == fs::file_size(adapter / "adapter_model.safetensors"));
  CHECK(facts.at("config_size") == fs::file_size(adapter / "adapter_config.json"));
  CHECK(facts.at("configuration") == config);
  CHECK(facts.at("base") == base);
  std::set<std::string> modules, seen;
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : header.items()) {
    bytes += BytesOf(tensor);
    if (const std::string module = ModuleOf(name); !module.empty()) modules.insert(module);
  }
  CHECK(facts.at("tensor_bytes") == bytes);
  const bool is_root = config.value("use_rslora", false);
  double largest = 0;
  for (const json& site : facts.at("sites")) {
    const std::string module = site.at("site");
    CAPTURE(module);
    CHECK(seen.insert(module).second);
    const double rank = Patterned(config, "rank_pattern", "r", module), alpha = Patterned(config, "alpha_pattern", "lora_alpha", module);
    largest = std::max(largest, rank);
    CHECK(site.at("rank") == rank);
    CHECK(site.at("scale") == alpha / (is_root ? std::sqrt(rank) : rank));
    std::uint64_t sum = 0;
    for (const json& tensor : site.at("tensors")) {
      const json& stored = header.at(tensor.at("tensor").get<std::string>());
      CHECK(ModuleOf(tensor.at("tensor")) == module);
      CHECK(tensor.at("shape") == stored.at("shape"));
      CHECK(tensor.at("bytes") == BytesOf(stored));
      const std::map<std::string, std::string> names{{"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}};
      CHECK(tensor.at("dtype") == names.at(stored.at("dtype")));
      sum += BytesOf(stored);
    }
    CHECK(site.at("tensors").size() >= 2);
    CHECK(site.at("bytes") == sum);
  }
  CHECK(seen == modules);
  CHECK(facts.at("rank") == largest);
  return seen.size();
}

bool IsLora(const fs::path& adapter) {
  if (!fs::exists(adapter / "adapter_config.json")) return false;
  const json config = json::parse(ReadAll(adapter / "adapter_config.json"));
  return config.at("peft_type") == "LORA" && !config.value("use_dora", false) && config.value("init_lora_weights", json()) != "pissa";
}

// A store with the fable base and its three adapters; `tuned` names the composition lexicon=0.5, bard=0.7.
class Shop : public ProgramStore {
 public:
  Shop() {
    Must({"import", "base", kFable, "--name", "fable"});
    for (const char* adapter : {"bard", "hacker", "lexicon"})
      Must({"import", "adapter", (DemoData() / "adapters" / adapter).string(), "--name", adapter});
    Must({"seal", Compose("tuned", "fable", {"lexicon=0.5", "bard=0.7"}), "--name", "tuned"});
  }
};

// lora-qv-r8 with more in its configuration and its file, as a directory of its own.
std::string Changed(const TempDir& dir, const std::string& key, const json& value, const SafetensorsWriter& more) {
  const fs::path from = kStories / "adapters/lora-qv-r8";
  json config = json::parse(ReadAll(from / "adapter_config.json"));
  config[key] = value;
  SafetensorsWriter file = more;
  const std::string bytes = ReadAll(from / "adapter_model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const json header = HeaderOf(from / "adapter_model.safetensors");
  for (const auto& [name, tensor] : header.items())
    file.Set(name, tensor.at("dtype"), tensor.at("shape"),
             bytes.substr(8 + length + tensor.at("data_offsets")[0].get<std::uint64_t>(), BytesOf(tensor)));
  WriteAll(dir.path() / key / "adapter_config.json", config.dump());
  WriteAll(dir.path() / key / "adapter_model.safetensors", file.Bytes());
  return (dir.path() / key).string();
}

// The cells after the first of the line that begins with it: columns are two blanks apart.
std::vector<std::string> CellsOf(const std::string& text, const std::string& first) {
  std::vector<std::string> cells;
  const auto begin = text.find("\n" + first + " ");
  if (begin == std::string::npos) return cells;
  std::string line = text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1) + "  ";
  for (std::size_t end = 0; (end = line.find("  ")) != std::string::npos; line.erase(0, line.find_first_not_of(' ', end)))
    cells.push_back(line.substr(0, end));
  cells.erase(cells.begin());
  return cells;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("inspect: every LoRA's ranks, final scales, types, shapes and bytes are those of its configuration and its header") {
  std::size_t adapters = 0, sites = 0;
  for (const auto& entry : fs::directory_iterator(kStories / "adapters")) {
    if (!IsLora(entry.path())) continue;
    sites += CheckLora(entry.path(), kBase);
    ++adapters;
  }
  for (const char* name : {"bard", "hacker"}) sites += CheckLora(DemoData() / "adapters" / name, kFable);
  CHECK((adapters >= 6 && sites > 100));
}

TEST_CASE("inspect: the same holds for the LoRAs of the larger data set") {
  const auto data = ExternalData();
  if (!data) return;
  std::size_t adapters = 0;
  for (const auto& entry : fs::directory_iterator(*data / "stories260k/adapters"))
    if (IsLora(entry.path())) adapters += CheckLora(entry.path(), (*data / "stories260k/stories260k-f32.gguf").string()) > 0 ? 1 : 0;
  for (const auto& entry : fs::directory_iterator(*data / "fable/adapters"))
    if (IsLora(entry.path())) adapters += CheckLora(entry.path(), (*data / "fable/fable-q8_0.gguf").string()) > 0 ? 1 : 0;
  CHECK(adapters >= 9);
}

TEST_CASE("inspect: a GGUF adapter has the scales of the PEFT directory it was made from, and the types of its own file") {
  const json config = json::parse(ReadAll(kStories / "adapters/lora-qv-r8/adapter_config.json"));
  const json header = HeaderOf(kStories / "adapters/lora-qv-r8/adapter_model.safetensors");
  const json facts = InspectJson({(kStories / "adapters/lora-qv-r8-f16.gguf").string(), "--base", kBase});
  CHECK(facts.at("kind") == "lora");
  CHECK(facts.at("format") == "gguf");
  CHECK(facts.at("metadata").at("adapter.lora.alpha") == config.at("lora_alpha"));
  CHECK_FALSE(facts.contains("configuration"));
  CHECK(facts.at("sites").size() * 2 == header.size());
  for (const json& site : facts.at("sites")) {
    CHECK(site.at("rank") == config.at("r"));
    CHECK(site.at("scale") == config.at("lora_alpha").get<double>() / config.at("r").get<double>());
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : header.items())
      if (ModuleOf(name) == site.at("site")) bytes += BytesOf(tensor) / 2;  // f32 there, f16 here
    CHECK(site.at("bytes") == bytes);
    for (const json& tensor : site.at("tensors")) CHECK(tensor.at("dtype") == "f16");
  }
}

TEST_CASE("inspect: a block type is told as the file stores it, with what it becomes in memory") {
  const TempDir dir;
  const std::string path = (dir.path() / "quantized.gguf").string();
  WriteAll(path, GgufFromPeft(kStories / "adapters/lora-all-r4", 8, VNR_Q8_0).Bytes());
  const json facts = InspectJson({path, "--base", kBase});
  int quantized = 0;
  for (const json& site : facts.at("sites"))
    for (const json& tensor : site.at("tensors")) {
      if (tensor.at("dtype") != "q8_0") continue;
      CHECK(tensor.at("shape") == json::array({4, 64}));  // rank 4 rows of two blocks of 32, 34 bytes each
      CHECK(tensor.at("bytes") == 4 * 2 * 34);
      CHECK(tensor.at("held_as") == json{{"dtype", "f32"}, {"bytes", 4 * 64 * 4}});
      ++quantized;
    }
  CHECK(quantized == 5 * 6);  // down_proj's rows of 172 are no whole blocks
  CHECK(Has(Inspect({path, "--base", kBase}).out, "q8_0 (as f32)"));
}

TEST_CASE("inspect: kinds without rank and scale have none, and keys that compute nothing are told apart from those that count") {
  const fs::path ia3 = kStories / "adapters/ia3-default";
  const json header = HeaderOf(ia3 / "adapter_model.safetensors"), facts = InspectJson({ia3.string(), "--base", kBase});
  CHECK(facts.at("kind") == "ia3");
  CHECK(facts.at("rank") == 0);
  CHECK(facts.at("sites").size() == header.size());
  for (const json& site : facts.at("sites")) {
    CHECK(site.at("scale").is_null());
    REQUIRE(site.at("tensors").size() == 1);
    CHECK(site.at("tensors")[0].at("shape") == header.at(site.at("tensors")[0].at("tensor").get<std::string>()).at("shape"));
  }
  CHECK(facts.at("ignored_keys") == json{{"init_ia3_weights", true}});
  const json shira = InspectJson({(kStories / "adapters/shira-r4").string(), "--base", kBase});
  CHECK(shira.at("kind") == "sparse-delta");
  CHECK(shira.at("ignored_keys") == json{{"init_weights", true}, {"mask_type", "random"}, {"r", 4}, {"random_seed", 3}});
}

TEST_CASE("inspect: replacements are told whole or by rows, with the type and bytes of the file") {
  const fs::path head = kStories / "adapters/lora-mts-head";
  const json header = HeaderOf(head / "adapter_model.safetensors");
  const json facts = InspectJson({head.string(), "--base", kBase});
  REQUIRE(facts.at("replacements").size() == 1);
  const json& whole = facts.at("replacements")[0];
  CHECK(whole.at("site") == "lm_head");
  CHECK(whole.at("by").at("whole") == true);
  const json& stored = header.at(whole.at("by").at("tensor").get<std::string>());
  CHECK(whole.at("by").at("rows") == stored.at("shape")[0]);
  CHECK(whole.at("by").at("bytes") == BytesOf(stored));
  CHECK(whole.at("by").at("dtype") == "f32");
  CHECK(facts.at("ignored") == json::array());

  const TempDir dir;
  SafetensorsWriter rows;
  rows.SetF32("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta", {2, 64}, std::vector<float>(128, 0.5F));
  const std::string path = Changed(dir, "trainable_token_indices", json::array({9, 5}), rows);
  const json some = InspectJson({path, "--base", kBase}).at("replacements");
  REQUIRE(some.size() == 2);  // the base's head is tied, so the trained rows are the head's too
  CHECK(some[0].at("site") == "lm_head");
  CHECK(some[1].at("site") == "model.embed_tokens");
  for (const json& one : some) {
    CHECK(one.at("by").at("whole") == false);
    CHECK(one.at("by").at("rows") == 2);
    CHECK(one.at("by").at("bytes") == 2 * 64 * 4);
  }
  CHECK(Has(Inspect({path, "--base", kBase}).out, "2 of 512"));
}

TEST_CASE("inspect: copies that equal the base are listed as ignored, each with the reason") {
  const auto data = ExternalData();
  if (!data) return;
  const std::string path = (*data / "stories260k/adapters/copies-embed-lora").string();
  const json header = HeaderOf(fs::path(path) / "adapter_model.safetensors");
  const json facts = InspectJson({path, "--base", (*data / "stories260k/stories260k-f32.gguf").string()});
  std::set<std::string> copies, ignored;
  for (const auto& [name, tensor] : header.items())
    if (ModuleOf(name).empty()) copies.insert(name);
  for (const json& one : facts.at("ignored")) {
    ignored.insert(one.at("tensor"));
    CHECK(Has(one.at("why"), "equals the base's tensor bit for bit"));
    CHECK(one.at("bytes") == BytesOf(header.at(one.at("tensor").get<std::string>())));
  }
  CHECK_FALSE(copies.empty());
  CHECK(ignored == copies);
}

TEST_CASE("inspect: files that describe themselves and dense residuals have their kind, scale and types") {
  const auto data = ExternalData();
  if (!data) return;
  const fs::path folder = *data / "stories260k/residual-sparse";
  const std::string base = (*data / "stories260k/stories260k-f32.gguf").string();
  for (const char* name : {"sparse-coo.safetensors", "sparse-csr.safetensors"}) {
    const json facts = InspectJson({(folder / name).string(), "--base", base});
    CHECK(facts.at("kind") == "sparse-delta");
    CHECK(facts.at("sites").size() == 10);
    for (const json& site : facts.at("sites")) CHECK(site.at("scale") == std::stod(facts.at("metadata").at("scale").get<std::string>()));
  }
  const json header = HeaderOf(folder / "snapshot/merged_deltas.safetensors");
  const json merged = InspectJson({(folder / "snapshot/merged_deltas.safetensors").string(), "--base", base});
  CHECK(merged.at("kind") == "residual");
  CHECK(merged.at("sites").size() == header.size());
  for (const json& site : merged.at("sites")) CHECK(site.at("tensors")[0].at("dtype") == "bf16");
  const json snapshot = InspectJson({(folder / "snapshot").string(), "--base", base});
  CHECK(snapshot.at("what") == "snapshot");
  CHECK(snapshot.at("residual") == merged);
  CHECK(snapshot.at("active").at("kind") == "lora");
}

TEST_CASE("inspect: without a base it tells the kind, configuration and tensors, and what a base would add") {
  const fs::path adapter = kStories / "adapters/lora-patterns";
  const json header = HeaderOf(adapter / "adapter_model.safetensors"), facts = InspectJson({adapter.string()});
  CHECK(facts.at("kind") == "lora");
  CHECK(facts.at("base").is_null());
  CHECK_FALSE(facts.contains("sites"));
  REQUIRE(facts.at("tensors").size() == header.size());
  for (const json& tensor : facts.at("tensors")) {
    const json& stored = header.at(tensor.at("tensor").get<std::string>());
    CHECK(tensor.at("shape") == stored.at("shape"));
    CHECK(tensor.at("bytes") == BytesOf(stored));
  }
  CHECK(facts.at("configuration").at("rank_pattern") == json{{"layers.1.mlp.down_proj", 6}, {"q_proj", 2}});
  CHECK(Has(facts.at("notes").back(), "--base FILE adds"));
  const std::string text = Inspect({adapter.string()}).out;
  CHECK(Has(text, "lora_alpha = 8"));
  CHECK(Has(text, "note: without a base; --base FILE adds"));
}

TEST_CASE("inspect: an adapter that is refused is described with the reason; on a base asked for it is an error") {
  const std::string pissa = (kStories / "adapters/refuse-pissa").string();
  const json facts = InspectJson({pissa});
  CHECK(facts.at("kind").is_null());
  CHECK(Has(facts.at("refused"), "E418"));
  CHECK_FALSE(facts.at("tensors").empty());
  const ProcessResult refused = Inspect({pissa, "--base", kBase});
  CHECK(refused.status == 3);
  CHECK(refused.err.starts_with("ERR INSPECT E418 BASE_CHANGED_BY_INIT at="));
  const ProcessResult misfit = Inspect({(DemoData() / "adapters/bard").string(), "--base", kBase});
  CHECK(misfit.status == 3);
  CHECK(Has(misfit.err, "E404"));
}

TEST_CASE("inspect: tables put equal layers on one line and layers that differ apart") {
  const std::string text = Inspect({(kStories / "adapters/lora-patterns").string(), "--base", kBase}).out;
  // alpha 12; rank 4, but the pattern gives layer 1 rank 6.
  CHECK(CellsOf(text, "model.layers.{0,2-4}.mlp.down_proj") == std::vector<std::string>{"4", "[64, 172]", "4", "3", "f32", "14.8 KiB"});
  CHECK(CellsOf(text, "model.layers.1.mlp.down_proj") == std::vector<std::string>{"1", "[64, 172]", "6", "2", "f32", "5.5 KiB"});
  CHECK(Has(text, "model.layers.{0-4}.self_attn.q_proj"));
  CHECK_FALSE(Has(text, "model.layers.3."));
  const std::string base = Inspect({kBase}).out;
  CHECK(Has(base, "model.layers.{0-4}.mlp.up_proj"));
  CHECK(Has(base, "model.embed_tokens"));
}

TEST_CASE("inspect: a base lists every site with shape and type, as an error message promises") {
  const json facts = InspectJson({kBase});
  CHECK(facts.at("what") == "base");
  CHECK(facts.at("file_size") == fs::file_size(kBase));
  CHECK(facts.at("layers") == 5);
  std::map<std::string, json> sites;
  for (const json& site : facts.at("sites")) sites[site.at("site")] = site;
  CHECK(sites.at("model.layers.4.mlp.down_proj").at("shape") == json::array({64, 172}));  // hidden 64, ffn 172
  CHECK(sites.at("model.embed_tokens").at("class") == "embedding");
  CHECK(sites.at("model.norm").at("shape") == json::array({64}));
}

TEST_CASE("inspect: in a store an adapter is placed on the active composition's base when it fits, and says so when it does not") {
  Shop shop;
  CHECK(shop.MustJson({"inspect", "bard"}).at("base").is_null());  // nothing is active yet
  shop.Must({"activate", "tuned"});
  const json composition = shop.MustJson({"inspect"});
  const json placed = shop.MustJson({"inspect", "bard"});
  CHECK(placed.at("base") == composition.at("base").at("hash"));
  CHECK(placed.at("sites") == InspectJson({(DemoData() / "adapters/bard").string(), "--base", kFable}).at("sites"));
  CHECK(shop.MustJson({"inspect", "adapter/bard", "--base", "fable"}).at("sites") == placed.at("sites"));
  const json other = shop.MustJson({"inspect", (kStories / "adapters/lora-qv-r8").string()});
  CHECK(other.at("base").is_null());
  CHECK_FALSE(other.contains("sites"));
  CHECK(Has(other.at("notes")[other.at("notes").size() - 2], "does not take it: E405"));
}

TEST_CASE("inspect: a composition tells its base, its adapters in order, and each site's stack with strength times scale") {
  Shop shop;
  const json facts = shop.MustJson({"inspect", "tuned"});
  CHECK(facts.at("what") == "composition");
  CHECK(facts.at("base").at("size") == fs::file_size(kFable));
  CHECK(facts.at("runtime").at("name") == "veneer");
  REQUIRE(facts.at("adapters").size() == 2);
  const json& first = facts.at("adapters")[0];
  CHECK(first.at("name") == "lexicon");
  CHECK(first.at("kind") == "ia3");
  CHECK(first.at("strength") == "0.5");
  CHECK(first.at("file_size") == fs::file_size(DemoData() / "adapters/lexicon/adapter_model.safetensors"));
  const json bard = json::parse(ReadAll(DemoData() / "adapters/bard/adapter_config.json"));
  const double scale = bard.at("lora_alpha").get<double>() / bard.at("r").get<double>();
  std::set<std::string> lexicon, both;
  const json header = HeaderOf(DemoData() / "adapters/lexicon/adapter_model.safetensors");
  for (const auto& [name, tensor] : header.items()) lexicon.insert(ModuleOf(name));
  for (const json& site : facts.at("sites")) {
    const json& last = site.at("stack").back();
    CHECK(last.at("adapter") == "bard");
    CHECK(last.at("rank") == bard.at("r"));
    CHECK(last.at("scale") == scale);
    CHECK(last.at("effective_scale") == 0.7 * scale);
    for (const json& tensor : last.at("tensors")) CHECK(tensor.at("dtype") == "f32");
    if (site.at("stack").size() == 1) continue;
    both.insert(site.at("site").get<std::string>());
    CHECK(site.at("stack")[0].at("adapter") == "lexicon");
    CHECK(site.at("stack")[0].at("scale").is_null());
    CHECK(site.at("stack")[0].at("effective_scale") == 0.5);
  }
  CHECK(both == lexicon);
  CHECK(shop.MustJson({"inspect", facts.at("composition")}) == facts);
  CHECK(shop.MustJson({"inspect", "composition/tuned"}) == facts);
  CHECK(shop.MustJson({"inspect", shop.Path("tuned.toml")}).at("sites") == facts.at("sites"));
  const std::string text = shop.Must({"inspect", "tuned"});
  CHECK(Has(text, "1.4"));
  CHECK_FALSE(Has(text, "model.layers.0."));
}

TEST_CASE("inspect: --base and --adapter show the stack that they would run") {
  const json facts = InspectJson({"--base", kBase, "--adapter", (kStories / "adapters/lora-mts-head").string() + "=-0.5"});
  REQUIRE(facts.at("adapters").size() == 1);
  CHECK(facts.at("adapters")[0].at("strength") == "-0.5");
  for (const json& site : facts.at("sites")) {
    if (site.at("site") != "lm_head") continue;
    CHECK(site.at("stack")[0].at("replaces").at("whole") == true);
    return;
  }
  FAIL("lm_head is not among the sites");
}

TEST_CASE("inspect: --diff tells strength, order, added and removed; a manifest equals the composition it seals to") {
  Shop shop;
  shop.Compose("weaker", "fable", {"lexicon=0.5", "bard=0.25"});
  shop.Compose("turned", "fable", {"bard=0.7", "lexicon=0.5"});
  shop.Compose("other", "fable", {"bard=0.7", "hacker"});
  const auto diff = [&shop](const std::string& a, const std::string& b) { return shop.MustJson({"inspect", "--diff", a, b}); };
  const json equal = diff(shop.Path("tuned.toml"), "tuned");
  CHECK(equal.at("equal") == true);
  CHECK(equal.at("a") == equal.at("b"));
  CHECK(shop.Must({"inspect", "--diff", "tuned", shop.Path("tuned.toml")}).starts_with("equal: both are sha256:"));
  const json weaker = diff("tuned", shop.Path("weaker.toml"));
  CHECK(weaker.at("equal") == false);
  CHECK(weaker.at("base").is_null());
  CHECK(weaker.at("adapters").at("changed") == json::parse(R"([{"name":"bard","differs":{"strength":{"a":"0.7","b":"0.25"}}}])"));
  const json turned = diff("tuned", shop.Path("turned.toml")).at("adapters");
  CHECK(turned.at("order") == json::parse(R"({"a":["lexicon","bard"],"b":["bard","lexicon"]})"));
  CHECK(turned.at("changed").empty());
  const json other = diff("composition/tuned", shop.Path("other.toml")).at("adapters");
  CHECK(other.at("removed")[0].at("name") == "lexicon");
  CHECK(other.at("added")[0].at("name") == "hacker");
}

TEST_CASE("inspect: a word that is nothing, a name of two things and a wrong number of words are answered with what to write") {
  Shop shop;
  const ProcessResult unknown = shop.Run({"inspect", "nobody"});
  CHECK(unknown.status == 3);
  CHECK(Has(unknown.err, "ERR INSPECT E301 BLOB_MISSING at=nobody "));
  CHECK(Has(Inspect({"missing"}).err, "E301 BLOB_MISSING at=missing is no file, no id"));
  CHECK(Has(Inspect({"missing/model.gguf"}).err, "E301 BLOB_MISSING at=missing/model.gguf no such file"));
  CHECK(Has(shop.Run({"inspect", "bard", "--base", "nobody"}).err, "E301 BLOB_MISSING at=--base "));
  CHECK(shop.Run({"inspect", "--diff", "tuned"}).status == 2);
  CHECK(shop.Run({"inspect", "tuned", "tuned"}).status == 2);
  CHECK(Has(shop.Run({"inspect", "--diff", "tuned", "nobody"}).err, "E301 BLOB_MISSING at=nobody "));
  shop.Must({"seal", shop.Path("tuned.toml"), "--name", "bard"});
  const ProcessResult twice = shop.Run({"inspect", "bard", "--json"});
  CHECK(Parsed(twice).at("what") == "composition");
  CHECK(Has(twice.err, "adapter/bard"));
  CHECK(shop.MustJson({"inspect", "adapter/bard"}).at("what") == "adapter");
  CHECK(shop.MustJson({"inspect", "fable"}).at("what") == "base");
}
