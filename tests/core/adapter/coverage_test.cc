// Every tensor resolves, every target has its tensors, shapes are the base's: or the adapter is refused by name.
#include <string>

#include "tests/support/catch.h"
#include "tests/support/peft_adapter.h"

namespace {

const std::string kPrefix = "base_model.model.";
const std::string kA = "model.layers.0.self_attn.q_proj.lora_A.weight", kB = "model.layers.0.self_attn.q_proj.lora_B.weight";

bool Says(const PeftAdapter& adapter, const std::string& words) { return adapter.ErrorText().find(words) != std::string::npos; }
void RenameAll(PeftAdapter& adapter, const std::string& from, const std::string& to) {
  for (const std::string& name : adapter.file.Names())
    if (const auto at = name.find(from); at != std::string::npos) {
      std::string renamed = name;
      adapter.file.Rename(name, renamed.replace(at, from.size(), to));
    }
}

}  // namespace

TEST_CASE("coverage: a complete adapter reads, its sites sorted, its tensors in their own type and place") {
  PeftAdapter adapter = LowRank();
  adapter.file.Set(kPrefix + kB, "F16", {64, 4}, std::string(512, '\x01'));
  adapter.file.Set(kPrefix + kA, "BF16", {4, 64}, std::string(512, '\x02'));
  const auto read = adapter.Read();
  if (!read) FAIL(read.error().Text());
  CHECK(read->kind == "lora");
  CHECK(read->format == "safetensors");
  REQUIRE(read->sites.size() == 4);
  CHECK(read->sites[0].site == "model.layers.0.self_attn.q_proj");
  CHECK(read->sites[3].site == "model.layers.1.self_attn.v_proj");
  for (const veneer::RoleTensor& tensor : read->sites[0].source.tensors) {
    CHECK(tensor.tensor.dtype == (tensor.role == "A" ? VNR_BF16 : VNR_F16));
    CHECK(tensor.tensor.bytes.data() >= read->weights.bytes().data());
    CHECK(tensor.tensor.bytes.data() < read->weights.bytes().data() + read->weights.bytes().size());
  }
  CHECK(read->sites[1].rank == 4);
}

TEST_CASE("coverage: names without PEFT's prefix are read, a mixture is not") {
  PeftAdapter bare = LowRank();
  RenameAll(bare, kPrefix, "");
  CHECK(bare.CodeOf() == 0);
  PeftAdapter mixed = LowRank();
  mixed.file.Rename(kPrefix + kA, kA);
  CHECK(mixed.CodeOf() == 405);
}

TEST_CASE("coverage: one level of 'model.' too many or too few is E420 and shows the first names") {
  PeftAdapter more = LowRank();
  RenameAll(more, "model.layers", "model.model.layers");
  CHECK(more.CodeOf() == 420);
  CHECK(Says(more, "0 of 8 tensors"));
  CHECK(Says(more, "base_model.model.model.model.layers.0.self_attn.q_proj.lora_A.weight"));
  PeftAdapter less = LowRank();
  RenameAll(less, "model.layers", "layers");
  CHECK(less.CodeOf() == 420);
}

TEST_CASE("coverage: modules that the base does not have are E405 beside others, E420 alone") {
  PeftAdapter deeper = LowRank();
  deeper.AddLowRank(Layer(2, "self_attn.q_proj"), 64, 64, 4);
  CHECK(deeper.CodeOf() == 405);
  CHECK(Says(deeper, "model.layers.2.self_attn.q_proj"));
  PeftAdapter foreign;
  foreign.config = LowRank().config;
  foreign.AddLowRank("transformer.h.0.attn.c_attn", 64, 64, 4);
  CHECK(foreign.CodeOf() == 420);
  PeftAdapter empty;
  empty.config = LowRank().config;
  CHECK(empty.CodeOf() == 420);
}

TEST_CASE("coverage: a tensor that is nothing to the kind is E419; eleven of them list ten") {
  PeftAdapter adapter = LowRank();
  adapter.file.Fill(kPrefix + "rope_freqs.weight", {32}, 1);
  CHECK(adapter.CodeOf() == 419);
  CHECK(Says(adapter, "rope_freqs.weight"));
  for (int i = 0; i < 10; ++i) adapter.file.Fill(kPrefix + "zz" + std::to_string(i) + ".alpha", {1}, 1);
  CHECK(Says(adapter, "11 of 19 tensors"));
  CHECK(Says(adapter, "zz8.alpha"));
  CHECK_FALSE(Says(adapter, "zz9.alpha"));
}

TEST_CASE("coverage: a scale stored as a tensor is not skipped") {
  PeftAdapter adapter = LowRank();
  adapter.file.Fill(kPrefix + Layer(0, "self_attn.q_proj.alpha"), {1}, 4);
  CHECK(adapter.CodeOf() == 419);
}

TEST_CASE("coverage: magnitudes in the file without use_dora in the configuration are E419") {
  PeftAdapter adapter = LowRank();
  adapter.file.Fill(kPrefix + Layer(0, "self_attn.q_proj.lora_magnitude_vector"), {64}, 1);
  CHECK(adapter.CodeOf() == 419);
}

TEST_CASE("coverage: half a pair is E419 and the missing half is named with its shape") {
  PeftAdapter adapter = LowRank();
  adapter.file.Remove(kPrefix + kB);
  CHECK(adapter.CodeOf() == 419);
  CHECK(Says(adapter, "model.layers.0.self_attn.q_proj: B is missing"));
  CHECK(Says(adapter, "[out, r]"));
}

TEST_CASE("coverage: a wrong shape is E404 with both shapes") {
  PeftAdapter adapter = LowRank();
  adapter.file.Fill(kPrefix + kA, {4, 65}, 1);
  CHECK(adapter.CodeOf() == 404);
  CHECK(Says(adapter, "[4, 65]"));
  CHECK(Says(adapter, "in = 64"));
  PeftAdapter transposed = LowRank();
  transposed.file.Fill(kPrefix + kB, {4, 64}, 1);
  CHECK(transposed.CodeOf() == 404);
  PeftAdapter ranks = LowRank();
  ranks.file.Fill(kPrefix + kB, {64, 3}, 1);
  CHECK(ranks.CodeOf() == 404);
}

TEST_CASE("coverage: NaN is E411, an integer type is E401") {
  PeftAdapter adapter = LowRank();
  adapter.file.Fill(kPrefix + kA, {4, 64}, __builtin_nanf(""));
  CHECK(adapter.CodeOf() == 411);
  PeftAdapter integers = LowRank();
  integers.file.Set(kPrefix + kA, "I32", {4, 64}, std::string(1024, '\0'));
  CHECK(integers.CodeOf() == 401);
}

TEST_CASE("coverage: a target without tensors and tensors without a target are errors that name the module") {
  PeftAdapter missing = LowRank();
  missing.Key("target_modules", R"(["q_proj","v_proj","o_proj"])");
  CHECK(missing.CodeOf() == 405);
  CHECK(Says(missing, "model.layers.0.self_attn.o_proj"));
  PeftAdapter untargeted = LowRank();
  untargeted.Key("target_modules", R"(["q_proj"])");
  CHECK(untargeted.CodeOf() == 405);
  CHECK(Says(untargeted, "model.layers.0.self_attn.v_proj"));
}

TEST_CASE("coverage: an adapter whose every edit is zero reads with a note; one that has an effect has no such note") {
  const auto notes_zero = [](const PeftAdapter& adapter) {
    const auto read = adapter.Read();
    REQUIRE(read);
    return std::ranges::any_of(read->notes, [](const std::string& note) { return note.find("zero") != std::string::npos; });
  };
  PeftAdapter zero = LowRank();
  CHECK_FALSE(notes_zero(zero));
  for (const int layer : {0, 1}) {
    zero.file.Fill(kPrefix + Layer(layer, "self_attn.q_proj.lora_B.weight"), {64, 4}, 0);
    zero.file.Fill(kPrefix + Layer(layer, "self_attn.v_proj.lora_B.weight"), {32, 4}, 0);
  }
  CHECK(notes_zero(zero));
}

TEST_CASE("coverage: factors on the embedding have the other orientation, and the tied head is a site of its own") {
  PeftAdapter adapter = LowRank();
  adapter.Key("target_modules", R"(["q_proj","v_proj","embed_tokens","lm_head"])");
  adapter.file.Fill(kPrefix + "model.embed_tokens.lora_embedding_A", {4, 320}, 1);
  adapter.file.Fill(kPrefix + "model.embed_tokens.lora_embedding_B", {64, 4}, 1);
  adapter.AddLowRank("lm_head", 320, 64, 4);
  const auto read = adapter.Read();
  if (!read) FAIL(read.error().Text());
  CHECK(read->sites.size() == 6);
  CHECK(SiteOf(*read, "lm_head").source.tensors.size() == 2);
  CHECK(SiteOf(*read, "model.embed_tokens").rank == 4);
  adapter.file.Fill(kPrefix + "model.embed_tokens.lora_embedding_A", {4, 321}, 1);  // a vocabulary of another size
  CHECK(adapter.CodeOf() == 404);
  CHECK(Says(adapter, "[4, 321]"));
}

TEST_CASE("coverage: linear factors on the embedding, and embedding factors on a layer, are nothing to the kind") {
  PeftAdapter adapter = LowRank();
  adapter.Key("target_modules", R"(["q_proj","v_proj","embed_tokens"])");
  adapter.AddLowRank("model.embed_tokens", 320, 64, 4);
  CHECK(adapter.CodeOf() == 419);
}

TEST_CASE("coverage: a trained bias of a factor belongs to the kind") {
  PeftAdapter adapter = LowRank();
  adapter.Key("lora_bias", "true");
  for (const int layer : {0, 1}) {
    adapter.file.Fill(kPrefix + Layer(layer, "self_attn.q_proj.lora_B.bias"), {64}, 1);
    adapter.file.Fill(kPrefix + Layer(layer, "self_attn.v_proj.lora_B.bias"), {32}, 1);
  }
  const auto read = adapter.Read();
  if (!read) FAIL(read.error().Text());
  CHECK(read->sites[0].source.tensors.size() == 3);
  // The configuration that was saved with the file says that there are none: PEFT would leave them out without a word.
  for (const char* const off : {"false", "null"}) CHECK(adapter.Key("lora_bias", off).CodeOf() == 419);
}

TEST_CASE("coverage: a scaling vector's form comes from the configuration and its shape must agree") {
  const auto read = Scaling().Read();
  if (!read) FAIL(read.error().Text());
  CHECK(read->kind == "ia3");
  CHECK(read->rank == 0);
  CHECK_FALSE(read->sites[0].scale);
  CHECK(SiteOf(*read, "model.layers.0.mlp.down_proj").source.tensors[0].role == "l_in");
  CHECK(SiteOf(*read, "model.layers.0.self_attn.k_proj").source.tensors[0].role == "l_out");
  PeftAdapter output = Scaling();  // the configuration says input, the shape says output
  output.file.Fill(kPrefix + Layer(0, "mlp.down_proj.ia3_l"), {64, 1}, 1);
  CHECK(output.CodeOf() == 404);
  PeftAdapter input = Scaling();  // and the other way round
  input.file.Fill(kPrefix + Layer(0, "self_attn.k_proj.ia3_l"), {1, 64}, 1);
  CHECK(input.CodeOf() == 404);
}

TEST_CASE("coverage: feedforward_modules as list is a plain suffix, as string a full match, absent the architecture's default") {
  CHECK(Scaling().Key("feedforward_modules", R"(["n_proj"])").CodeOf() == 0);  // no dot needed
  CHECK(Scaling().Key("feedforward_modules", R"(".*\\.down_proj")").CodeOf() == 0);
  CHECK(Scaling().Key("feedforward_modules", R"("down_proj")").CodeOf() == 404);  // matches no whole path: all are output vectors
  CHECK(Scaling().Key("feedforward_modules", "[]").CodeOf() == 404);
  PeftAdapter absent = Scaling();
  absent.config.erase("feedforward_modules");
  CHECK(absent.CodeOf() == 0);
}

TEST_CASE("coverage: a kind of a third party reads its files through its declaration alone") {
  PeftAdapter adapter;
  adapter.config = {{"peft_type", "\"OFFSET\""}, {"target_modules", "null"}, {"offset_scale", "3"}};
  for (const int layer : {0, 1}) adapter.file.Fill(kPrefix + Layer(layer, "self_attn.q_proj.offset"), {64}, 1);
  const auto read = adapter.Read();
  if (!read) FAIL(read.error().Text());
  CHECK(read->kind == "org.example.offset");
  REQUIRE(read->sites.size() == 2);
  CHECK(read->sites[0].source.params.at(0).d == 3.0);
  adapter.config.erase("offset_scale");
  CHECK(adapter.Read()->sites[0].source.params.at(0).d == 1.0);
  adapter.Key("offset_scale", "\"3\"");
  CHECK(adapter.CodeOf() == 213);
}

TEST_CASE("coverage: a module whose name contains 'weight' or 'lora' is taken from the right end only") {
  PeftAdapter adapter = LowRank();
  adapter.AddLowRank("model.lora_A.weight_proj", 64, 64, 4);
  CHECK(adapter.CodeOf() == 405);
  CHECK(Says(adapter, "model.lora_A.weight_proj.lora_A.weight"));
}
