// Failures that users of other loaders met when adapters were read, mapped to modules or scaled: each is a rule here.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/peft_adapter.h"

namespace {

const std::string kPrefix = "base_model.model.";
const std::string kEmbedding = "model.embed_tokens", kHead = "lm_head";
const std::string kRows = kPrefix + kEmbedding + ".token_adapter.trainable_tokens_delta";

using Shape = std::vector<std::uint64_t>;

veneer::Adapter MustRead(const PeftAdapter& adapter, const veneer::Base& base = *TinyBase()) {
  auto read = adapter.Read(base);
  if (!read) FAIL(read.error().Text());
  return *std::move(read);
}
bool Says(const PeftAdapter& adapter, const std::string& words) { return adapter.ErrorText().find(words) != std::string::npos; }
std::vector<std::string> Replaced(const veneer::Adapter& adapter) {
  std::vector<std::string> sites;
  for (const veneer::Replacement& one : adapter.replacements) sites.push_back(one.site);
  return sites;
}
double ScaleOf(const PeftAdapter& adapter, const std::string& site) { return SiteOf(MustRead(adapter), site).scale.value(); }

PeftAdapter WithRows(const std::string& tokens) {
  PeftAdapter adapter = LowRank().Key("trainable_token_indices", tokens);
  adapter.file.Fill(kRows, {2, 64}, 0.5F);
  return adapter;
}
std::vector<float> BaseRows(const std::string& id) {
  const veneer::Site& site = *TinyBase()->sites().Find(id);
  std::vector<float> values(site.out * site.in);
  veneer::ReadRows(site, 0, site.out, values.data(), site.in);
  return values;
}

}  // namespace

TEST_CASE("adapter: a module in modules_to_save is no target, whatever target_modules says of it") {
  for (const char* targets : {R"(["q_proj","v_proj","lm_head"])", R"x(".*(q_proj|v_proj|head)")x"}) {
    CAPTURE(targets);
    PeftAdapter adapter = LowRank().Key("target_modules", targets).Key("modules_to_save", R"(["lm_head"])");
    adapter.file.Fill(kPrefix + "lm_head.weight", {320, 64}, 1);
    const veneer::Adapter read = MustRead(adapter);
    CHECK(read.sites.size() == 4);
    CHECK(Replaced(read) == std::vector<std::string>{kHead});
    adapter.AddLowRank(kHead, 320, 64, 4);  // what is saved whole has no factors beside it
    CHECK(adapter.CodeOf() == 405);
    CHECK(Says(adapter, kHead));
  }
}

TEST_CASE("adapter: an entry of modules_to_save is the end of a path, not of a name, so 'norm' is every norm") {
  PeftAdapter adapter = LowRank().Key("modules_to_save", R"(["norm"])");
  std::vector<std::string> norms{"model.norm"};
  for (const int layer : {0, 1})
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) norms.push_back(Layer(layer, name));
  std::ranges::sort(norms);
  for (const std::string& norm : norms) adapter.file.Fill(kPrefix + norm + ".weight", {64}, 2);
  CHECK(Replaced(MustRead(adapter)) == norms);
  CHECK(LowRank().Key("modules_to_save", R"(["norm"])").CodeOf() == 405);  // none of them in the file
}

TEST_CASE("adapter: a saved module brings its bias along") {
  const auto biased = OpenTiny({.biases = true});
  PeftAdapter adapter = LowRank().Key("modules_to_save", R"(["k_proj"])");
  for (const int layer : {0, 1}) {
    adapter.file.Fill(kPrefix + Layer(layer, "self_attn.k_proj.weight"), {32, 64}, 1);
    adapter.file.Fill(kPrefix + Layer(layer, "self_attn.k_proj.bias"), {32}, 1);
  }
  CHECK(Replaced(MustRead(adapter, *biased)).size() == 4);
  adapter.file.Fill(kPrefix + Layer(0, "self_attn.q_proj.bias"), {64}, 1);  // of a module that is not saved
  const auto stray = adapter.Read(*biased);
  REQUIRE_FALSE(stray);
  CHECK(stray.error().code == veneer::Code::TENSOR_UNMATCHED);
  CHECK(stray.error().Text().find("q_proj.bias") != std::string::npos);
}

TEST_CASE("adapter: a copy of a projection's base weight that nobody asked for is refused by name") {
  PeftAdapter adapter = LowRank();
  adapter.file.Fill(kPrefix + Layer(0, "self_attn.q_proj.base_layer.weight"), {64, 64}, 1);
  CHECK(adapter.CodeOf() == 419);
  CHECK(Says(adapter, "self_attn.q_proj.base_layer.weight"));
}

TEST_CASE("adapter: a saved copy of the embedding beside a regular expression that targets it is known for a copy") {
  PeftAdapter adapter = LowRank().Key("target_modules", R"x(".*(q_proj|v_proj|embed_tokens)")x");
  adapter.file.Fill(kPrefix + kEmbedding + ".lora_embedding_A", {4, 320}, 1);
  adapter.file.Fill(kPrefix + kEmbedding + ".lora_embedding_B", {64, 4}, 1);
  adapter.file.SetF32(kPrefix + kEmbedding + ".base_layer.weight", {320, 64}, BaseRows(kEmbedding));
  const veneer::Adapter read = MustRead(adapter);
  CHECK(read.sites.size() == 5);
  CHECK(read.replacements.empty());
  CHECK(Ignores(read, "equals the base's tensor bit for bit"));
}

TEST_CASE("adapter: trained token rows are the head's rows too where base and training tie the two, and the embedding's alone elsewhere") {
  for (const char* tokens : {"[300, 7]", R"({"embed_tokens": [300, 7]})", R"({"embed_tokens": [300, 7], "lm_head": [300, 7]})"}) {
    CAPTURE(tokens);
    const veneer::Adapter tied = MustRead(WithRows(tokens));
    REQUIRE(Replaced(tied) == std::vector<std::string>{kHead, kEmbedding});
    for (const veneer::Replacement& one : tied.replacements) {
      REQUIRE(one.rows.size() == 2);
      CHECK((one.rows[0].lane == 7 && one.rows[0].index == 1));
      CHECK((one.rows[1].lane == 300 && one.rows[1].index == 0));
    }
    CHECK(Notes(tied, "2 rows of lm_head"));
  }
  CHECK(Replaced(MustRead(WithRows("[300, 7]"), *OpenTiny({.tied = false}))) == std::vector<std::string>{kEmbedding});
  // The head's own rows are never the embedding's.
  PeftAdapter own = WithRows(R"({"embed_tokens": [300, 7], "lm_head": [5]})");
  own.file.Fill(kPrefix + "lm_head.token_adapter.trainable_tokens_delta", {1, 64}, 0.25F);
  const veneer::Adapter read = MustRead(own);
  REQUIRE(Replaced(read) == std::vector<std::string>{kHead, kEmbedding});
  CHECK(read.replacements[0].rows.size() == 1);
}

TEST_CASE("adapter: every list of trained tokens has its rows in the file, under each spelling of the key") {
  CHECK(WithRows(R"({"embed_tokens": [300, 7], "lm_head": [5, 6]})").CodeOf() == 405);
  CHECK(Says(WithRows(R"({"embed_tokens": [300, 7], "lm_head": [5, 6]})"), "lm_head"));
  CHECK(WithRows(R"({"embed_tokens": [300, 7], "score": [5]})").CodeOf() == 405);
  CHECK(LowRank().Key("trainable_token_indices", R"({"embed_tokens": [1]})").CodeOf() == 405);
}

TEST_CASE(
    "adapter: rows and a whole tensor for one site in one file are a conflict, in whatever order they lie, unless the whole is the "
    "base's") {
  for (const char* name : {"base_layer.weight", "weight"}) {  // one sorts before the rows, one after
    CAPTURE(name);
    PeftAdapter adapter = WithRows("[300, 7]");
    adapter.file.Fill(kPrefix + kEmbedding + "." + name, {320, 64}, 1);
    CHECK(adapter.CodeOf() == 216);
    CHECK(Says(adapter, kEmbedding));
    adapter.file.SetF32(kPrefix + kEmbedding + "." + name, {320, 64}, BaseRows(kEmbedding));
    const veneer::Adapter read = MustRead(adapter);
    CHECK(Replaced(read) == std::vector<std::string>{kHead, kEmbedding});
    CHECK(read.replacements[1].rows.size() == 2);
  }
}

TEST_CASE("adapter: rank and alpha patterns are matched against a module's saved name, not its tensors' names or the wrapper's") {
  const std::string q = Layer(0, "self_attn.q_proj"), other = Layer(1, "self_attn.q_proj");
  for (const std::string key : {"q_proj", "self_attn.q_proj", "model.layers.0.self_attn.q_proj", "^model.layers.0.self_attn.q_proj"})
    CHECK(ScaleOf(LowRank().Key("alpha_pattern", "{\"" + key + "\": 64}"), q) == 16.0);
  CHECK(ScaleOf(LowRank().Key("alpha_pattern", R"({"layers.0.self_attn.q_proj": 64})"), other) == 2.0);
  for (const std::string& key :
       std::vector<std::string>{"q_proj.lora_A", "q_proj.lora_A.weight", "q_proj.weight", "q", "proj", kPrefix + q}) {
    CAPTURE(key);
    PeftAdapter adapter = LowRank().Key("alpha_pattern", "{\"" + key + "\": 64}").Key("rank_pattern", "{\"" + key + "\": 2}");
    CHECK(ScaleOf(adapter, q) == 2.0);
    CHECK(SiteOf(MustRead(adapter), q).rank == 4);
  }
}

TEST_CASE("adapter: a pattern for rank or alpha that matches none of the edited modules is noted, one that matches is not") {
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    CAPTURE(key);
    const veneer::Adapter read = MustRead(LowRank().Key(key, R"({"transformer.h.0.attn": 4, "v_proj": 4})"));
    CHECK(Notes(read, std::string(key) + ": 'transformer.h.0.attn' matches none of the modules"));
    CHECK_FALSE(Notes(read, "'v_proj'"));
  }
}

TEST_CASE("adapter: without an alpha each module is scaled by its own rank") {
  PeftAdapter adapter = LowRank(4).Key("rank_pattern", R"({"q_proj": 16})");
  for (const int layer : {0, 1}) adapter.AddLowRank(Layer(layer, "self_attn.q_proj"), 64, 64, 16);
  adapter.config.erase("lora_alpha");
  CHECK(ScaleOf(adapter, Layer(0, "self_attn.q_proj")) == 0.5);
  CHECK(ScaleOf(adapter, Layer(0, "self_attn.v_proj")) == 2.0);
  adapter.Key("use_rslora", "true");
  CHECK(ScaleOf(adapter, Layer(0, "self_attn.q_proj")) == 2.0);
  CHECK(ScaleOf(adapter, Layer(0, "self_attn.v_proj")) == 4.0);
}

TEST_CASE("adapter: the saved adapter name is dropped where it stands as a whole segment before the end, and no other word is touched") {
  PeftAdapter named = LowRank();
  for (const std::string& name : named.file.Names()) {
    std::string with = name;
    named.file.Rename(name, with.insert(with.rfind(".weight"), ".default"));
  }
  const veneer::Adapter read = MustRead(named), plain = MustRead(LowRank());
  REQUIRE(read.sites.size() == plain.sites.size());
  for (std::size_t i = 0; i < read.sites.size(); ++i) CHECK(read.sites[i].site == plain.sites[i].site);
  // Names that occur inside other words of the key, and one that nobody says is an adapter's: refused as they are written.
  for (const std::string segment : {"lora", "model", "q", "weight"}) {
    CAPTURE(segment);
    PeftAdapter other = LowRank();
    const std::string before = kPrefix + Layer(0, "self_attn.q_proj.lora_A.weight");
    const std::string after = kPrefix + Layer(0, "self_attn.q_proj.lora_A." + segment + ".weight");
    other.file.Rename(before, after);
    CHECK(other.CodeOf() == 419);
    CHECK(Says(other, after));
  }
}

TEST_CASE("adapter: one that was trained with another vocabulary, larger or smaller, is refused with both sizes, however it holds it") {
  for (const std::uint64_t vocab : {std::uint64_t{319}, std::uint64_t{321}}) {
    const std::string size = std::to_string(vocab);
    CAPTURE(vocab);
    const auto check = [&](const std::string& tensor, const Shape& shape, const std::string& targets, const Shape& pair_shape) {
      CAPTURE(tensor);
      PeftAdapter adapter = LowRank();
      if (!targets.empty()) adapter.Key("target_modules", R"(["q_proj","v_proj",")" + targets + "\"]");
      adapter.file.Fill(kPrefix + tensor, shape, 1);
      if (tensor.ends_with("embedding_A")) adapter.file.Fill(kPrefix + kEmbedding + ".lora_embedding_B", pair_shape, 1);
      if (tensor.ends_with("lora_B.weight")) adapter.file.Fill(kPrefix + kHead + ".lora_A.weight", pair_shape, 1);
      CHECK(adapter.CodeOf() == 404);
      CHECK(Says(adapter, size));
      CHECK(Says(adapter, "320"));
    };
    check("lm_head.weight", {vocab, 64}, "", {});
    check(kEmbedding + ".weight", {vocab, 64}, "", {});
    check(kEmbedding + ".base_layer.weight", {vocab, 64}, "", {});
    check(kEmbedding + ".lora_embedding_A", {4, vocab}, "embed_tokens", {64, 4});
    check("lm_head.lora_B.weight", {vocab, 4}, "lm_head", {4, 64});
  }
}

TEST_CASE("adapter: shapes are the modules', not those of the base's stored blocks, so one adapter reads over every weight type") {
  for (const std::uint32_t type : {VNR_F32, VNR_F16, VNR_BF16, VNR_Q8_0, VNR_Q4_0, VNR_Q4_1, VNR_Q5_0, VNR_Q5_1}) {
    CAPTURE(type);
    const auto base = OpenTiny({.matrix_type = type, .embedding_type = type});
    const veneer::Adapter read = MustRead(LowRank(), *base);
    REQUIRE(read.sites.size() == 4);
    for (const veneer::AdapterSite& site : read.sites) CHECK((site.rank == 4 && site.scale == 2.0));
    PeftAdapter packed = LowRank();  // as wide as a row of blocks of 18 bytes
    packed.file.Fill(kPrefix + Layer(0, "self_attn.q_proj.lora_A.weight"), {4, 36}, 1);
    const auto refused = packed.Read(*base);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == veneer::Code::SHAPE_MISMATCH);
  }
}

TEST_CASE("adapter: any rank up to the smaller dimension reads, odd ones and 255 too, and one above is refused without harm to the next") {
  const auto wide = OpenTiny({.n_layers = 1, .hidden = 512, .ffn = 96, .n_heads = 4, .n_kv_heads = 2});
  const auto of_rank = [](std::uint64_t rank) {
    PeftAdapter adapter;
    adapter.config = LowRank(rank).config;
    adapter.Key("target_modules", R"(["q_proj","v_proj"])");
    adapter.AddLowRank(Layer(0, "self_attn.q_proj"), 512, 512, rank);
    adapter.AddLowRank(Layer(0, "self_attn.v_proj"), 256, 512, rank);
    return adapter;
  };
  for (const std::uint64_t rank : {1U, 3U, 7U, 8U, 255U, 256U}) {
    CAPTURE(rank);
    const veneer::Adapter read = MustRead(of_rank(rank), *wide);
    CHECK(read.rank == rank);
    CHECK(SiteOf(read, Layer(0, "self_attn.v_proj")).scale == 8.0 / static_cast<double>(rank));
    const auto above = of_rank(257).Read(*wide);
    REQUIRE_FALSE(above);
    CHECK(above.error().code == veneer::Code::RANK_MISMATCH);
  }
}
