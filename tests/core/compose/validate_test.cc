#include "core/compose/validate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/compose/path_source.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/peft_adapter.h"

namespace veneer {
namespace {

int opened = 0;  // artifacts that plugins were asked to open

// The kinds of TestCatalog, each counting how often it is opened.
template <std::size_t kSlot>
vnr_entry Counting(const vnr_entry& real) {
  static vnr_kind kind = *real.kinds[0];
  static const vnr_kind* const kinds[] = {&kind};
  static const auto real_open = kind.open;
  kind.open = [](const vnr_kind* self, const vnr_host* host, const vnr_source* shared, vnr_artifact** out, vnr_err* err) -> std::int32_t {
    ++opened;
    return real_open(self, host, shared, out, err);
  };
  vnr_entry entry = real;
  entry.kinds = kinds;
  entry.n_kinds = 1;
  return entry;
}

const Catalog& CountingCatalog() {
  static std::vector<vnr_entry> entries;
  static const Catalog catalog = [] {
    for (std::uint32_t i = 0; i < vnr_static_entry_count; ++i) {
      const std::string kind = vnr_static_entries[i]->kinds[0]->id;
      if (kind == "lora") entries.push_back(Counting<0>(*vnr_static_entries[i]));
      if (kind == "ia3") entries.push_back(Counting<1>(*vnr_static_entries[i]));
    }
    std::vector<const vnr_entry*> pointers;
    for (const vnr_entry& entry : entries) pointers.push_back(&entry);
    auto scanned = Catalog::Scan({.directories = {}, .overrides = {}, .static_entries = pointers});
    if (!scanned) throw std::runtime_error(scanned.error().Text());
    return *std::move(scanned);
  }();
  return catalog;
}

// Base and adapters in memory, by the digest under which a manifest asks for them.
class MemorySource final : public ArtifactSource {
 public:
  std::map<std::string, std::string> bases;     // digest -> bytes
  std::map<std::string, PeftAdapter> adapters;  // digest -> files
  Result<BaseFiles> OpenBase(const Digest& hash, const std::optional<Digest>&) override {
    const auto found = bases.find(hash.Text());
    if (found == bases.end()) return Fail(Code::BLOB_MISSING, "/base_model_hash", "no such base");
    return InMemory(found->second, "base.gguf");
  }
  Result<AdapterBlobs> OpenAdapter(const AuthoredAdapter& entry) override {
    const auto found = adapters.find(entry.file_hash.Text());
    if (found == adapters.end()) return Fail(Code::BLOB_MISSING, entry.at + "/file_hash", "no such adapter");
    const std::string weights = found->second.file.Bytes(), config = found->second.ConfigText();
    AdapterBlobs blobs;
    blobs.files = {InMemory(weights, "adapter_model.safetensors"), InMemory(config, "adapter_config.json")};
    blobs.file_hash = Sha256::Of(weights);
    blobs.file_size = weights.size();
    blobs.config_hash = Sha256::Of(config);
    blobs.config_size = config.size();
    return blobs;
  }
};

// A manifest over the tiny base with the files it names; tests make it wrong.
struct Case {
  explicit Case(const TinyModel& model = {}) {
    const std::string base = TinyLlama(model).Bytes();
    manifest.base_model_hash = Sha256::Of(base);
    manifest.timestamp_utc = "2026-01-02T03:04:05Z";
    source.bases[manifest.base_model_hash.Text()] = base;
  }
  AuthoredAdapter& Add(const std::string& name, const PeftAdapter& adapter, const std::string& strength = "1") {
    const Digest digest = Sha256::Of(adapter.file.Bytes());
    source.adapters[digest.Text()] = adapter;
    AuthoredAdapter& entry = manifest.adapters.emplace_back();
    entry.name = name;
    entry.file_hash = digest;
    entry.load_order = manifest.adapters.size() - 1;
    entry.at = "/adapters/" + std::to_string(entry.load_order);
    entry.merge_weight = *Decimal::FromAuthored(strength, "test");
    return entry;
  }
  Result<ValidatedComposition> Validate() { return SealAndValidate(manifest, source, CountingCatalog()); }
  // Runs the whole way to a staged composition, as activation does; refusals must come before any plugin is asked.
  void CheckRefused(Code code, const std::string& at) {
    opened = 0;
    const auto run = [this]() -> Status {
      VENEER_ASSIGN(const ValidatedComposition validated, Validate());
      VENEER_ASSIGN(BoundComposition bound, Bind(validated, CountingCatalog(), {}));
      VENEER_ASSIGN(const auto staged, std::move(bound).Stage());
      return {};
    };
    const Status result = run();
    REQUIRE_FALSE(result);
    CAPTURE(result.error().Text());
    CHECK(result.error().code == code);
    CHECK(result.error().at == at);
    CHECK_FALSE(result.error().detail.empty());
    CHECK(opened == 0);
  }

  Manifest manifest;
  MemorySource source;
};

const std::string kFirst = "model.layers.0.self_attn.q_proj";
const std::vector<std::string> kTargets{kFirst, "model.layers.0.self_attn.v_proj", "model.layers.1.self_attn.q_proj",
                                        "model.layers.1.self_attn.v_proj"};

TEST_CASE("validate: a right manifest is sealed with every claim filled in, and can be staged") {
  Case good;
  good.Add("style", LowRank(), "0.5");
  good.Add("scale", Scaling());
  const auto validated = good.Validate();
  REQUIRE(validated);
  const Composition& sealed = validated->composition();
  REQUIRE(sealed.adapters.size() == 2);
  CHECK(sealed.base_model_hash == good.manifest.base_model_hash);
  CHECK(sealed.base_format == "gguf");
  CHECK(sealed.base_model_size == good.source.bases.begin()->second.size());
  CHECK(sealed.quantization == QuantizationClaim{"q8_0", "symmetric", 32});
  const AdapterEntry& style = sealed.adapters[0];
  CHECK(style.name == "style");
  CHECK(style.format == "safetensors");
  CHECK(style.rank == 4);
  CHECK(style.sparsity.text() == "0");
  CHECK(style.merge_weight.text() == "0.5");
  CHECK(style.target_layers == kTargets);
  CHECK(style.config_hash == Sha256::Of(LowRank().ConfigText()));
  CHECK(sealed.adapters[1].rank == 0);
  CHECK(sealed.adapters[1].target_layers.size() == 6);
  CHECK(validated->adapters()[0].strength == 0.5);
  opened = 0;
  auto bound = Bind(*validated, CountingCatalog(), {});
  REQUIRE(bound);
  CHECK(std::move(*bound).Stage());
  CHECK(opened == 2);
}

TEST_CASE("validate: a base or an adapter that is not there is E301") {
  Case no_base;
  no_base.source.bases.clear();
  no_base.CheckRefused(Code::BLOB_MISSING, "/base_model_hash");
  Case no_adapter;
  no_adapter.Add("style", LowRank());
  no_adapter.source.adapters.clear();
  no_adapter.CheckRefused(Code::BLOB_MISSING, "/adapters/0/file_hash");
}

TEST_CASE("validate: files with another digest or size than the manifest says are E303 and E302, at the field") {
  Case other_file;
  other_file.Add("first", LowRank());
  AuthoredAdapter& entry = other_file.Add("second", LowRank(2));
  other_file.source.adapters[entry.file_hash.Text()] = LowRank(6);  // the source gives other bytes under that name
  other_file.CheckRefused(Code::HASH_MISMATCH, "/adapters/1/file_hash");
  Case other_config;
  other_config.Add("style", LowRank()).config_hash = Sha256::Of("another configuration");
  other_config.CheckRefused(Code::HASH_MISMATCH, "/adapters/0/config_hash");
  Case other_size;
  other_size.Add("style", LowRank()).file_size = 12;
  other_size.CheckRefused(Code::SIZE_MISMATCH, "/adapters/0/file_size");
  Case other_base_size;
  other_base_size.manifest.base_model_size = 12;
  other_base_size.CheckRefused(Code::SIZE_MISMATCH, "/base_model_size");
  Case other_tokenizer;
  other_tokenizer.manifest.tokenizer_hash = Sha256::Of("another tokenizer");
  other_tokenizer.CheckRefused(Code::HASH_MISMATCH, "/tokenizer_hash");
}

TEST_CASE("validate: a claim about the base that its file contradicts is refused at the claim") {
  const auto check = [](const std::function<void(Manifest&)>& claim, Code code, const std::string& at) {
    Case wrong;
    wrong.Add("style", LowRank());
    claim(wrong.manifest);
    wrong.CheckRefused(code, at);
  };
  check([](Manifest& m) { m.base_format = "hf"; }, Code::BASE_MISMATCH, "/base_format");
  check([](Manifest& m) { m.tokenizer_id = "gpt-2"; }, Code::TOKENIZER_MISMATCH, "/tokenizer_id");
  check([](Manifest& m) { m.quantization = QuantizationClaim{"q4_0", "symmetric", 32}; }, Code::QUANT_MISMATCH, "/quantization");
  check([](Manifest& m) { m.runtime = std::pair("veneer", "2"); }, Code::RUNTIME_UNSUPPORTED, "/runtime");
}

TEST_CASE("validate: a claim about an adapter that its files contradict is refused at the claim") {
  const auto check = [](const std::function<void(AuthoredAdapter&)>& claim, Code code, const std::string& field) {
    Case wrong;
    wrong.Add("right", Scaling());
    claim(wrong.Add("style", LowRank()));
    wrong.CheckRefused(code, "/adapters/1" + field);
  };
  check([](AuthoredAdapter& a) { a.rank = 8; }, Code::RANK_MISMATCH, "/rank");
  check([](AuthoredAdapter& a) { a.format = "gguf"; }, Code::FORMAT_UNSUPPORTED, "/format");
  check([](AuthoredAdapter& a) { a.sparsity = *Decimal::FromAuthored("0.5", "test"); }, Code::SPARSITY_MISMATCH, "/sparsity");
  check([](AuthoredAdapter& a) { a.target_layers = {kFirst}; }, Code::TARGET_UNKNOWN, "/target_layers");
  check([](AuthoredAdapter& a) { a.target_layers = {kFirst, "model.layers.9.mlp.up_proj"}; }, Code::TARGET_UNKNOWN, "/target_layers/1");
}

TEST_CASE("validate: targets claimed under their GGUF names, in any order, are the same claim") {
  Case plain, renamed;
  plain.Add("style", LowRank());
  renamed.Add("style", LowRank()).target_layers = {"blk.1.attn_v", "blk.1.attn_q", "blk.0.attn_v.weight", kFirst};
  const auto a = plain.Validate(), b = renamed.Validate();
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->composition().Id() == b->composition().Id());
}

TEST_CASE("validate: a kind that no plugin offers is E415, one that policy does not mean is E416") {
  Case unknown;
  unknown.Add("style", LowRank().Key("peft_type", "\"VERA\""));
  unknown.CheckRefused(Code::KIND_UNKNOWN, "style: adapter_config.json: /peft_type");
  Case pinned;
  pinned.Add("style", LowRank()).plugin = PluginPin{"somebody-elses", "", std::nullopt};
  opened = 0;
  const auto refused = pinned.Validate();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::PLUGIN_REFUSED);
  CHECK(opened == 0);
}

TEST_CASE("validate: an adapter for a module that the base lacks is E405, one of another shape E404, both with the adapter's name") {
  Case no_site;
  PeftAdapter deep = LowRank();
  deep.AddLowRank(Layer(2, "self_attn.q_proj"), 64, 64, 4);
  no_site.Add("style", deep);
  opened = 0;
  const auto site = no_site.Validate();
  REQUIRE_FALSE(site);
  CHECK(site.error().code == Code::TARGET_UNKNOWN);
  CHECK(site.error().at.find("style: ") == 0);
  CHECK(site.error().Text().find("layers.2.self_attn.q_proj") != std::string::npos);
  Case no_fit;
  PeftAdapter wide = LowRank();
  wide.AddLowRank(Layer(1, "self_attn.v_proj"), 64, 64, 4);  // the base has [32, 64]
  no_fit.Add("style", wide);
  const auto shape = no_fit.Validate();
  REQUIRE_FALSE(shape);
  CHECK(shape.error().code == Code::SHAPE_MISMATCH);
  CHECK(shape.error().at.find("style: ") == 0);
  CHECK(shape.error().Text().find("model.layers.1.self_attn.v_proj") != std::string::npos);
  CHECK(opened == 0);
}

TEST_CASE("validate: an adapter that was made for a base of other shapes is refused, whatever it says about itself") {
  Case other(TinyModel{.hidden = 128, .ffn = 160});
  other.Add("style", LowRank());
  const auto refused = other.Validate();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::SHAPE_MISMATCH);
}

TEST_CASE("validate: an adapter of which nothing matches is E420, numbers that are not finite are E411") {
  Case none;
  PeftAdapter empty = LowRank();
  for (const std::string& name : empty.file.Names()) empty.file.Remove(name);
  none.Add("style", empty);
  none.CheckRefused(Code::NOTHING_MATCHED, "style: adapter_model.safetensors");
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Case broken;
    PeftAdapter adapter = LowRank();
    adapter.file.Fill(adapter.prefix + kFirst + ".lora_A.weight", {4, 64}, bad);
    broken.Add("style", adapter);
    opened = 0;
    const auto refused = broken.Validate();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::NOT_FINITE);
    CHECK(refused.error().Text().find(kFirst) != std::string::npos);
    CHECK(opened == 0);
  }
}

TEST_CASE("validate: one name twice is E206 with another file and E215 with the same; one file under two names is accepted") {
  Case names;
  names.Add("style", LowRank());
  names.Add("style", LowRank(2));
  names.CheckRefused(Code::NAME_DUPLICATE, "/adapters/1/name");
  Case twice;
  twice.Add("style", LowRank());
  twice.Add("style", LowRank());
  twice.CheckRefused(Code::ADAPTER_DUPLICATE, "/adapters/1");
  Case aliases;
  aliases.Add("style", LowRank());
  aliases.Add("style-2", LowRank());
  CHECK(aliases.Validate());
}

TEST_CASE("validate: a tied tensor is refused under tied_weights forbid and two sites otherwise") {
  PeftAdapter embedding = LowRank();
  embedding.Key("target_modules", R"(["q_proj","v_proj","embed_tokens"])");
  embedding.file.Fill(embedding.prefix + "model.embed_tokens.lora_embedding_A", {4, 320}, 0.5F);
  embedding.file.Fill(embedding.prefix + "model.embed_tokens.lora_embedding_B", {64, 4}, 0.5F);
  Case forbid;
  forbid.Add("style", embedding);
  forbid.manifest.tied_weights = "forbid";
  forbid.CheckRefused(Code::TIED_WEIGHTS, "/adapters/0/target_layers");
  Case separate;
  separate.Add("style", embedding);
  CHECK(separate.Validate());
}

TEST_CASE("validate: strength 0 is accepted, warned of in the manifest's own words, and reaches no plugin") {
  Case zero;
  zero.Add("style", LowRank());
  zero.Add("quiet", Scaling(), "0");
  const auto validated = zero.Validate();
  REQUIRE(validated);
  const std::vector<std::string> warnings = Warnings(zero.manifest);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("W3 ZERO_WEIGHT at=/adapters/1/merge_weight "));
  CHECK(std::ranges::count_if(validated->notes(), [](const std::string& note) { return note.starts_with("W3"); }) == 1);
  CHECK(std::ranges::count(validated->notes(), warnings[0]) == 1);
  opened = 0;
  auto bound = Bind(*validated, CountingCatalog(), {});
  REQUIRE(bound);
  CHECK(std::move(*bound).Stage());
  CHECK(opened == 1);
}

TEST_CASE("validate: what an adapter's files have that is not used is noted under the adapter's name") {
  Case named;
  named.Add("style", LowRank().Key("base_model_name_or_path", "\"somebody/some-model\"").Key("inference_mode", "true"));
  const auto validated = named.Validate();
  REQUIRE(validated);
  for (const std::string& note : validated->notes()) CHECK(note.starts_with("style: "));
}

TEST_CASE("validate: a stored composition is valid exactly when sealing its files again gives its own bytes") {
  Case good;
  good.Add("style", LowRank(), "0.5");
  good.Add("scale", Scaling());
  const auto sealed = good.Validate();
  REQUIRE(sealed);
  const Composition composition = sealed->composition();
  const auto again = ValidateComposition(composition, good.source, CountingCatalog());
  REQUIRE(again);
  CHECK(again->composition().Canonical() == composition.Canonical());

  Composition spelled = composition;  // the same sites, in names that no sealed composition has
  spelled.adapters[0].target_layers[0] = "blk.0.attn_q";
  const auto other = ValidateComposition(spelled, good.source, CountingCatalog());
  REQUIRE_FALSE(other);
  CHECK(other.error().code == Code::IDENTITY_MISMATCH);
  CHECK(other.error().at == spelled.Id().Text());

  Composition claims = composition;
  claims.adapters[1].rank = 4;
  const auto rank = ValidateComposition(claims, good.source, CountingCatalog());
  REQUIRE_FALSE(rank);
  CHECK(rank.error().code == Code::RANK_MISMATCH);
  CHECK(rank.error().at == "/adapters/1/rank");
}

TEST_CASE("validate: a manifest made of a composition claims everything in it") {
  Case good;
  good.Add("style", LowRank(), "0.5");
  const auto sealed = good.Validate();
  REQUIRE(sealed);
  const Manifest manifest = ManifestOf(sealed->composition());
  CHECK(manifest.base_model_size == sealed->composition().base_model_size);
  CHECK(manifest.tokenizer_hash == sealed->composition().tokenizer_hash);
  CHECK(manifest.runtime == std::pair<std::string, std::string>("veneer", "1"));
  REQUIRE(manifest.adapters.size() == 1);
  const AuthoredAdapter& entry = manifest.adapters[0];
  CHECK(entry.rank == 4U);
  CHECK(entry.kind == sealed->composition().adapters[0].kind);
  CHECK(entry.target_layers == kTargets);
  CHECK(entry.config_size == LowRank().ConfigText().size());
}

TEST_CASE("validate: the adapters of the demo load over its base, in the order and at the strengths of the command line") {
  const std::filesystem::path data = DemoData();
  const auto path = [&data](const std::string& text) { return *ParseAdapterPath((data / "adapters" / text).string()); };
  auto source = PathSource::Open(data / "fable-q4_0.gguf", {path("bard=0.7"), path("lexicon"), path("bard=0")}, {});
  REQUIRE(source);
  const auto validated = SealAndValidate(source->manifest(), *source, CountingCatalog());
  REQUIRE(validated);
  const Composition& sealed = validated->composition();
  REQUIRE(sealed.adapters.size() == 3);
  CHECK(sealed.adapters[0].name == "bard");
  CHECK(sealed.adapters[0].rank == 16);
  CHECK(sealed.adapters[0].target_layers.size() == 28);
  CHECK(sealed.adapters[1].name == "lexicon");
  CHECK(sealed.adapters[1].rank == 0);
  CHECK(sealed.adapters[1].target_layers.size() == 12);
  CHECK(sealed.adapters[2].name == "bard-2");
  CHECK(sealed.adapters[2].merge_weight.text() == "0");
}

}  // namespace
}  // namespace veneer
