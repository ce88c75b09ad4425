// Adapters in llama.cpp's layout that are refused: the code, the place and the reason of each (adapter-formats e.4, and what llama.cpp
// does not check).
#include <cmath>
#include <string>

#include "core/adapter/gguf_reader.h"
#include "tests/core/adapter/gguf_lora.h"
#include "tests/support/catch.h"

namespace {

const std::string kQa = "blk.0.attn_q.weight.lora_a", kQb = "blk.0.attn_q.weight.lora_b";
const std::string kQ = "model.layers.0.self_attn.q_proj";

struct Refusal {
  int code;
  std::string at, words;  // `at`: its end
};

// The error of the adapter that `breach` made, compared; the adapter before it reads.
template <class Breach>
void CheckRefused(const Refusal& wanted, const Breach& breach, const std::string& kind = "") {
  GgufLora adapter = QueryValue();
  REQUIRE(adapter.Read());
  breach(adapter.file);
  const auto read = adapter.Read(*TinyBase(), kind);
  INFO("wanted E" << wanted.code << " at " << wanted.at << " with '" << wanted.words << "'");
  CHECK_FALSE(read);
  if (read) return;
  CAPTURE(read.error().Text());
  CHECK(static_cast<int>(read.error().code) == wanted.code);
  CHECK(read.error().at.ends_with(wanted.at));
  CHECK(read.error().detail.find(wanted.words) != std::string::npos);
}

std::string Zeros(std::uint64_t n) { return std::string(n * 4, '\0'); }
std::string F32s(std::uint64_t n) { return Quantize(VNR_F32, GgufLora::Counted(n)); }

}  // namespace

TEST_CASE("gguf adapter: a base given as an adapter is refused with what it is") {
  CheckRefused({401, "adapter.gguf: general.type", "is 'model'"}, [](GgufWriter& file) { file.Set("general.type", "model"); });
  CheckRefused({401, "general.type", "is missing"}, [](GgufWriter& file) { file.Remove("general.type"); });
  CheckRefused({204, "general.type", "string"}, [](GgufWriter& file) { file.Set("general.type", std::uint32_t{1}); });
  const auto read = veneer::ReadAdapter({InMemory(TinyLlama().Bytes()), {}}, *TinyBase(), TestCatalog());
  REQUIRE_FALSE(read);
  CHECK(read.error().code == veneer::Code::FORMAT_UNSUPPORTED);
}

TEST_CASE("gguf adapter: another architecture is E414, none or a mistyped one is named") {
  CheckRefused({414, "general.architecture", "'qwen2', the base is 'llama'"},
               [](GgufWriter& file) { file.Set("general.architecture", "qwen2"); });
  CheckRefused({203, "general.architecture", ""}, [](GgufWriter& file) { file.Remove("general.architecture"); });
  CheckRefused({204, "general.architecture", ""}, [](GgufWriter& file) { file.Set("general.architecture", 1.0F); });
}

TEST_CASE("gguf adapter: a type that no plugin reads is E415 and lists those that are; --kind narrows") {
  CheckRefused({415, "adapter.type", "'control-vector'; there are: "},
               [](GgufWriter& file) { file.Set("adapter.type", "control-vector"); });
  CheckRefused({415, "adapter.type", "lora (lora)"}, [](GgufWriter& file) { file.Set("adapter.type", "LORA"); });
  CheckRefused({203, "adapter.type", ""}, [](GgufWriter& file) { file.Remove("adapter.type"); });
  CheckRefused({204, "adapter.type", "string"}, [](GgufWriter& file) { file.Set("adapter.type", true); });
  CheckRefused({415, "adapter.type", "of kind ia3"}, [](GgufWriter&) {}, "ia3");
  CHECK(QueryValue().Read(*TinyBase(), "lora"));
}

TEST_CASE("gguf adapter: a type that two kinds read is E416 until one is chosen") {
  // The C kind under another name, claiming the same type.
  static const vnr_kind& offset = *veneer_overlay_entry_v1_offset.kinds[0];
  static vnr_import_gguf import;
  import = *static_cast<const vnr_import_gguf*>(offset.get_extension(&offset, VNR_IMPORT_GGUF_ID));
  static vnr_kind other;
  other = offset;
  other.id = "test.other";
  other.get_extension = [](const vnr_kind*, const char* id) -> const void* {
    return std::string_view(id) == VNR_IMPORT_GGUF_ID ? &import : nullptr;
  };
  static const vnr_kind* const kinds[] = {&other};
  vnr_entry entry = veneer_overlay_entry_v1_offset;
  entry.name = "test-other";
  entry.kinds = kinds;
  const auto catalog =
      veneer::Catalog::Scan({.directories = {}, .overrides = {}, .static_entries = {&entry, &veneer_overlay_entry_v1_offset}});
  REQUIRE(catalog);
  GgufLora file;
  file.file.Set("adapter.type", "offset");
  file.file.Remove("adapter.lora.alpha");
  file.file.SetTensor("blk.0.attn_q.weight.offset", VNR_F32, {64}, F32s(64));
  const auto both = file.Read(*TinyBase(), "", *catalog);
  REQUIRE_FALSE(both);
  CHECK(both.error().code == veneer::Code::PLUGIN_REFUSED);
  CHECK(both.error().detail.find("--kind") != std::string::npos);
  const auto chosen = file.Read(*TinyBase(), "test.other", *catalog);
  if (!chosen) FAIL(chosen.error().Text());
  CHECK(chosen->kind == "test.other");
}

TEST_CASE("gguf adapter: an alpha of another type or not finite is refused; llama.cpp would abort or go on") {
  const std::string alpha = "adapter.lora.alpha";
  CheckRefused({204, alpha, "u32"}, [&](GgufWriter& file) { file.Set(alpha, std::uint32_t{16}); });
  CheckRefused({204, alpha, "string"}, [&](GgufWriter& file) { file.Set(alpha, "16"); });
  CheckRefused({204, alpha, "array"}, [&](GgufWriter& file) { file.Set(alpha, std::vector<float>{16}); });
  CheckRefused({411, alpha, ""}, [&](GgufWriter& file) { file.Set(alpha, std::nanf("")); });
  CheckRefused({411, alpha, ""}, [&](GgufWriter& file) { file.Set(alpha, INFINITY); });
}

TEST_CASE("gguf adapter: an activated one and keys that nobody knows are refused with the reason") {
  const std::string tokens = "adapter.alora.invocation_tokens";
  CheckRefused({401, tokens, "invocation sequence"}, [&](GgufWriter& file) { file.Set(tokens, std::vector<std::int32_t>{1, 2}); });
  CheckRefused({401, tokens, "invocation sequence"}, [&](GgufWriter& file) { file.Set(tokens, "not a list"); });
  CheckRefused({401, "adapter.lora.rank_rule", "newer plugin"}, [](GgufWriter& file) { file.Set("adapter.lora.rank_rule", "sqrt"); });
  CheckRefused({401, "adapter.lora.flag", ""}, [](GgufWriter& file) { file.Set("adapter.lora.flag", true); });
  CheckRefused({401, "adapter.lora.number", ""}, [](GgufWriter& file) { file.Set("adapter.lora.number", std::uint32_t{0}); });
}

TEST_CASE("gguf adapter: every tensor must resolve; what llama.cpp ignores silently is E419 by name") {
  const auto with = [](const std::string& name) { return [name](GgufWriter& file) { file.SetTensor(name, VNR_F32, {64}, F32s(64)); }; };
  CheckRefused({419, "blk.0.attn_norm.weight", "llama.cpp ignores"}, with("blk.0.attn_norm.weight"));
  CheckRefused({419, "output_norm.weight", "llama.cpp ignores"}, with("output_norm.weight"));
  CheckRefused({419, "blk.0.attn_q.weight", "llama.cpp ignores"}, with("blk.0.attn_q.weight"));
  CheckRefused({419, "rope_freqs.weight", "rope_freqs.weight"}, with("rope_freqs.weight"));
  CheckRefused({419, "blk.0.attn_q.weight.lora_c", ""}, with("blk.0.attn_q.weight.lora_c"));
  CheckRefused({419, "blk.0.attn_norm.weight.lora_a", ""}, with("blk.0.attn_norm.weight.lora_a"));
  CheckRefused({405, "blk.2.attn_q.weight.lora_a", "the base (llama, 2 layers)"}, with("blk.2.attn_q.weight.lora_a"));
  CheckRefused({405, "blk.1.attn_q.lora_a", ""}, with("blk.1.attn_q.lora_a"));  // llama.cpp finds no tensor of that name either
  CheckRefused({405, "blk.1.attn_q.bias.lora_a", ""}, with("blk.1.attn_q.bias.lora_a"));
  CheckRefused({405, kQ + ".weight.lora_a", ""}, with(kQ + ".weight.lora_a"));  // whose row order would be anybody's guess
}

TEST_CASE("gguf adapter: when nothing matches it is E420 and shows the names") {
  const auto only = [](const std::string& name) {
    GgufLora adapter;
    if (!name.empty()) adapter.Add(name, 64, 64, 4);
    const auto read = adapter.Read();
    REQUIRE_FALSE(read);
    CHECK(read.error().code == veneer::Code::NOTHING_MATCHED);
    CHECK(read.error().at == "adapter.gguf");
    CHECK(read.error().detail.find(name) != std::string::npos);
  };
  only("layers.0.wq.weight");
  only("blk.9.attn_q.weight");
  only("");
}

TEST_CASE("gguf adapter: half of a pair is E419 and says which is missing") {
  CheckRefused({419, kQ + ": B", "is missing"}, [](GgufWriter& file) { file.RemoveTensor(kQb); });
  CheckRefused({419, kQ + ": A", "is missing"}, [](GgufWriter& file) { file.RemoveTensor(kQa); });
}

TEST_CASE("gguf adapter: shapes are the site's, the ranks of a pair agree, and an exchanged factor is called so") {
  CheckRefused({404, kQ + ": A", "[4, 32]"}, [](GgufWriter& file) { file.SetTensor(kQa, VNR_F32, {4, 32}, F32s(128)); });
  CheckRefused({404, kQ + ": B", "[32, 4]"}, [](GgufWriter& file) { file.SetTensor(kQb, VNR_F32, {32, 4}, F32s(128)); });
  CheckRefused({404, kQ + ": B", "r = 4"}, [](GgufWriter& file) { file.SetTensor(kQb, VNR_F32, {64, 2}, F32s(128)); });
  CheckRefused({404, kQ + ": A", "looks transposed"}, [](GgufWriter& file) { file.SetTensor(kQa, VNR_F32, {64, 4}, F32s(256)); });
  CheckRefused({404, kQ + ": B", "looks transposed"}, [](GgufWriter& file) { file.SetTensor(kQb, VNR_F32, {4, 64}, F32s(256)); });
  CheckRefused({404, kQ + ": A", ""}, [](GgufWriter& file) { file.SetTensor(kQa, VNR_F32, {2, 2, 64}, F32s(256)); });
  CheckRefused({404, kQ + ": A", ""}, [](GgufWriter& file) { file.SetTensor(kQa, VNR_F32, {4, 0}, ""); });
  CheckRefused({404, kQ + ": A", ""}, [](GgufWriter& file) { file.SetTensor(kQa, VNR_F32, {0, 64}, ""); });
  CheckRefused({406, kQ, "rank 65"}, [](GgufWriter& file) {
    file.SetTensor(kQa, VNR_F32, {65, 64}, F32s(65 * 64));
    file.SetTensor(kQb, VNR_F32, {64, 65}, F32s(65 * 64));
  });
  // The embedding the PEFT way round: [r, vocab] instead of [vocab, r].
  CheckRefused({404, "model.embed_tokens: embedding_A", "looks transposed"}, [](GgufWriter& file) {
    file.SetTensor("token_embd.weight.lora_a", VNR_F32, {4, 320}, F32s(1280));
    file.SetTensor("token_embd.weight.lora_b", VNR_F32, {64, 4}, F32s(256));
  });
}

TEST_CASE("gguf adapter: a value that is not finite is E411 in every type, a type that holds no values is E401") {
  CheckRefused({411, kQ + ": A", ""},
               [](GgufWriter& file) { file.SetTensor(kQa, VNR_F32, {4, 64}, Zeros(255) + std::string("\x00\x00\xC0\x7F", 4)); });
  CheckRefused({411, kQ + ": B", ""},
               [](GgufWriter& file) { file.SetTensor(kQb, VNR_F16, {64, 4}, std::string("\x00\x7C", 2) + std::string(510, '\0')); });
  CheckRefused({411, kQ + ": B", ""},
               [](GgufWriter& file) { file.SetTensor(kQb, VNR_BF16, {64, 4}, std::string("\x80\xFF", 2) + std::string(510, '\0')); });
  CheckRefused({411, kQ + ": A", ""}, [](GgufWriter& file) {  // Q8_0 whose first scale is infinite
    std::string blocks = Quantize(VNR_Q8_0, GgufLora::Counted(256));
    blocks.replace(0, 2, std::string("\x00\x7C", 2));
    file.SetTensor(kQa, VNR_Q8_0, {4, 64}, blocks);
  });
  CheckRefused({401, kQ + ": A", "i32"}, [](GgufWriter& file) { file.SetTensor(kQa, VNR_I32, {4, 64}, F32s(256)); });
  CheckRefused({401, kQ + ": A", "f64"}, [](GgufWriter& file) { file.SetTensor(kQa, VNR_F64, {4, 64}, std::string(2048, '\0')); });
}

TEST_CASE("gguf adapter: what can be known without a base is refused when it is identified") {
  const auto identify = [](const GgufLora& adapter, const std::string& kind = "") {
    return veneer::IdentifyAdapter(adapter.Files(), TestCatalog(), kind);
  };
  CHECK(identify(QueryValue()) == std::string("lora"));
  CHECK(identify(QueryValue(), "ia3").error().code == veneer::Code::KIND_UNKNOWN);
  GgufLora model = QueryValue();
  model.file.Set("general.type", "model");
  CHECK(identify(model).error().code == veneer::Code::FORMAT_UNSUPPORTED);
  GgufLora activated = QueryValue();
  activated.file.Set("adapter.alora.invocation_tokens", std::vector<std::int32_t>{7});
  CHECK(identify(activated).error().code == veneer::Code::FORMAT_UNSUPPORTED);
  GgufLora mistyped = QueryValue();
  mistyped.file.Set("adapter.lora.alpha", std::int32_t{8});
  CHECK(identify(mistyped).error().code == veneer::Code::FIELD_TYPE);
}

TEST_CASE("gguf adapter: a file cut at any place is an error, never a smaller adapter") {
  GgufLora adapter;
  adapter.Add("blk.0.attn_q.weight", 64, 64, 1);
  const std::string whole = adapter.file.Bytes();
  for (std::size_t size = 4; size < whole.size(); size += 13) {
    veneer::AdapterFiles files{InMemory(whole.substr(0, size)), {}};
    CHECK_FALSE(veneer::ReadAdapter(std::move(files), *TinyBase(), TestCatalog()));
  }
}
