// Differences of compositions, put together by hand.
#include <string>
#include <string_view>
#include <vector>

#include "core/cli/inspect_composition.h"
#include "core/cli/inspect_text.h"
#include "tests/support/catch.h"

namespace veneer::cli {
namespace {

Decimal Strength(std::string_view text) { return *Decimal::FromAuthored(text, ""); }

AdapterEntry Entry(const std::string& name, std::string_view strength = "1") {
  AdapterEntry entry;
  entry.name = name;
  entry.kind = "k";
  entry.format = "safetensors";
  entry.file_hash = Sha256::Of("file of " + name);
  entry.file_size = 100;
  entry.config_hash = Sha256::Of("configuration of " + name);
  entry.config_size = 10;
  entry.merge_weight = Strength(strength);
  entry.rank = 4;
  entry.target_layers = {"model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"};
  return entry;
}

Composition Of(std::vector<AdapterEntry> adapters) {
  Composition composition;
  composition.base_model_hash = Sha256::Of("base");
  composition.base_model_size = 1000;
  composition.base_format = "gguf";
  composition.tokenizer_id = "gguf-llama";
  composition.tokenizer_hash = Sha256::Of("tokenizer");
  composition.tokenizer_size = 50;
  composition.quantization = {"q4_0", "symmetric", 32};
  composition.runtime_name = "veneer";
  composition.runtime_version = "1";
  composition.tied_weights = "separate";
  composition.adapters = std::move(adapters);
  return composition;
}

bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("inspect diff: equal compositions say so, and no member tells a difference") {
  const Composition a = Of({Entry("one"), Entry("two", "0.5")});
  const OutJson diff = DiffJson(a, a);
  CHECK(diff.at("what") == "diff");
  CHECK(diff.at("equal") == true);
  CHECK(diff.at("a") == a.Id().Text());
  for (const char* part : {"base", "tokenizer", "quantization", "runtime", "tied_weights"}) CHECK(diff.at(part).is_null());
  for (const char* part : {"removed", "added", "changed"}) CHECK(diff.at("adapters").at(part) == OutJson::array());
  CHECK(diff.at("adapters").at("order").is_null());
  CHECK(FactsText(diff) == "equal: both are " + a.Id().Text() + "\n");
}

TEST_CASE("inspect diff: what comes before the adapters is told part by part, and only what differs") {
  const Composition a = Of({Entry("one")});
  Composition b = a;
  b.base_model_hash = Sha256::Of("other base");
  b.quantization.dtype = "q8_0";
  const OutJson diff = DiffJson(a, b);
  CHECK(diff.at("equal") == false);
  CHECK(diff.at("base").at("a").at("hash") == Sha256::Of("base").Text());
  CHECK(diff.at("base").at("b").at("hash") == Sha256::Of("other base").Text());
  CHECK(diff.at("quantization").at("b").at("dtype") == "q8_0");
  CHECK(diff.at("tokenizer").is_null());
  const std::string text = FactsText(diff);
  CHECK(Has(text, "base hash "));
  CHECK(Has(text, "quantization dtype  q4_0"));
  CHECK_FALSE(Has(text, "base size"));
  CHECK_FALSE(Has(text, "tokenizer"));
  b = a;
  b.tokenizer_id = "gguf-gpt2";
  b.runtime_version = "2";
  b.tied_weights = "forbid";
  const OutJson other = DiffJson(a, b);
  CHECK(other.at("tokenizer").at("b").at("id") == "gguf-gpt2");
  CHECK(other.at("runtime").at("b").at("version") == "2");
  CHECK(other.at("tied_weights") == OutJson{{"a", "separate"}, {"b", "forbid"}});
  CHECK(other.at("base").is_null());
}

TEST_CASE("inspect diff: added and removed adapters come with their place and all that is known of them") {
  const OutJson diff = DiffJson(Of({Entry("old"), Entry("kept")}), Of({Entry("kept"), Entry("new", "-0.25")}));
  const OutJson& adapters = diff.at("adapters");
  REQUIRE(adapters.at("removed").size() == 1);
  CHECK(adapters.at("removed")[0].at("name") == "old");
  CHECK(adapters.at("removed")[0].at("load_order") == 0);
  REQUIRE(adapters.at("added").size() == 1);
  CHECK(adapters.at("added")[0].at("name") == "new");
  CHECK(adapters.at("added")[0].at("load_order") == 1);
  CHECK(adapters.at("added")[0].at("strength") == "-0.25");
  CHECK(adapters.at("changed").empty());
  CHECK(adapters.at("order").is_null());  // the one in both stands where it stood
  CHECK(Has(FactsText(diff), "old (k) strength 1"));
  CHECK(Has(FactsText(diff), "new (k) strength -0.25"));
}

TEST_CASE("inspect diff: another strength, file, parameter, plugin or target of the same name is a change of that field alone") {
  const AdapterEntry before = Entry("one");
  AdapterEntry after = Entry("one", "0.5");
  const auto change_of = [&before](const AdapterEntry& entry) {
    const OutJson diff = DiffJson(Of({before}), Of({entry}));
    CHECK(diff.at("adapters").at("added").empty());
    REQUIRE(diff.at("adapters").at("changed").size() == 1);
    CHECK(diff.at("adapters").at("changed")[0].at("name") == "one");
    return diff.at("adapters").at("changed")[0].at("differs");
  };
  CHECK(change_of(after) == OutJson{{"strength", {{"a", "1"}, {"b", "0.5"}}}});
  after = before;
  after.file_hash = Sha256::Of("retrained");
  CHECK(change_of(after).size() == 1);
  CHECK(change_of(after).at("file_hash").at("b") == Sha256::Of("retrained").Text());
  after = before;
  after.config_hash.reset();
  after.config_size = 0;
  CHECK(change_of(after).at("config_hash").at("b").is_null());
  after = before;
  after.params = {{"scale", std::string("2")}};
  CHECK(change_of(after) == OutJson{{"params", {{"a", OutJson::object()}, {"b", {{"scale", "2"}}}}}});
  after = before;
  after.plugin = PluginPin{"p", "1.0", std::nullopt};
  CHECK(change_of(after).at("plugin").at("b").at("name") == "p");
  after = before;
  after.target_layers = {"model.layers.1.mlp.up_proj", "model.layers.2.mlp.up_proj"};
  CHECK(change_of(after) == OutJson{{"targets", {{"a", {"model.layers.0.mlp.up_proj"}}, {"b", {"model.layers.2.mlp.up_proj"}}}}});
}

TEST_CASE("inspect diff: two adapters in the other order are a difference of order and of nothing else") {
  const OutJson diff = DiffJson(Of({Entry("one"), Entry("two"), Entry("three")}), Of({Entry("three"), Entry("one"), Entry("two")}));
  const OutJson& adapters = diff.at("adapters");
  CHECK(diff.at("equal") == false);
  CHECK(adapters.at("order") == OutJson{{"a", {"one", "two", "three"}}, {"b", {"three", "one", "two"}}});
  for (const char* part : {"removed", "added", "changed"}) CHECK(adapters.at(part).empty());
  CHECK(Has(FactsText(diff), "one, two, three"));
}

TEST_CASE("inspect diff: the same file under another name is renamed, but a name that both have comes first") {
  AdapterEntry renamed = Entry("one");
  renamed.name = "uno";
  const OutJson diff = DiffJson(Of({Entry("one")}), Of({renamed}));
  REQUIRE(diff.at("adapters").at("changed").size() == 1);
  CHECK(diff.at("adapters").at("changed")[0].at("differs") == OutJson{{"name", {{"a", "one"}, {"b", "uno"}}}});
  CHECK(diff.at("adapters").at("added").empty());
  CHECK(diff.at("adapters").at("order").is_null());

  AdapterEntry twin = Entry("two");  // the file of one, under the name two
  twin.file_hash = Entry("one").file_hash;
  twin.config_hash = Entry("one").config_hash;
  const OutJson both = DiffJson(Of({Entry("one"), Entry("two")}), Of({twin}));
  REQUIRE(both.at("adapters").at("removed").size() == 1);
  CHECK(both.at("adapters").at("removed")[0].at("name") == "one");
  CHECK(both.at("adapters").at("changed")[0].at("name") == "two");
}

TEST_CASE("inspect diff: exchanged sides give the exchanged report") {
  const Composition a = Of({Entry("one"), Entry("two")}), b = Of({Entry("two", "0.5"), Entry("three")});
  const OutJson there = DiffJson(a, b), back = DiffJson(b, a);
  CHECK(there.at("adapters").at("removed") == back.at("adapters").at("added"));
  CHECK(there.at("adapters").at("added") == back.at("adapters").at("removed"));
  CHECK(there.at("adapters").at("changed")[0].at("differs").at("strength").at("a") ==
        back.at("adapters").at("changed")[0].at("differs").at("strength").at("b"));
}

}  // namespace
}  // namespace veneer::cli
