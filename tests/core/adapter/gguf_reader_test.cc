// Adapters in llama.cpp's layout: what they become (adapter-formats e.1 to e.3, e.6). What is refused: gguf_refusals_test.cc.
#include "core/adapter/gguf_reader.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/core/adapter/gguf_lora.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/gguf_adapter.h"

namespace {

namespace fs = std::filesystem;

const std::string kQ = "model.layers.0.self_attn.q_proj", kK = "model.layers.0.self_attn.k_proj", kV = "model.layers.0.self_attn.v_proj";

veneer::Adapter ReadOrFail(const GgufLora& adapter, const veneer::Base& base = *TinyBase()) {
  auto read = adapter.Read(base);
  if (!read) FAIL(read.error().Text());
  return *std::move(read);
}

// Elements of an f32, f16 or bf16 tensor.
std::vector<float> Values(const veneer::TensorView& tensor) {
  std::vector<float> values(tensor.elements());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    if (tensor.dtype == VNR_F32)
      std::memcpy(&values[i], tensor.bytes.data() + i * 4, 4);
    else
      std::memcpy(&half, tensor.bytes.data() + i * 2, 2);
    if (tensor.dtype == VNR_F16) values[i] = veneer::kernels::HalfToFloat(half);
    if (tensor.dtype == VNR_BF16) values[i] = veneer::kernels::Bf16ToFloat(half);
  }
  return values;
}

bool LiesInFile(const veneer::Adapter& adapter, const veneer::TensorView& tensor) {
  const auto file = adapter.weights.bytes();
  return tensor.bytes.data() >= file.data() && tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size();
}

// Same sites, and every tensor of the same role with the same type, shape and bytes.
void CheckSameTensors(const veneer::Adapter& gguf, const veneer::Adapter& peft) {
  CHECK(gguf.kind == peft.kind);
  CHECK(gguf.rank == peft.rank);
  REQUIRE(gguf.sites.size() == peft.sites.size());
  for (std::size_t i = 0; i < gguf.sites.size(); ++i) {
    CAPTURE(peft.sites[i].site);
    CHECK(gguf.sites[i].site == peft.sites[i].site);
    CHECK(gguf.sites[i].rank == peft.sites[i].rank);
    REQUIRE(gguf.sites[i].source.tensors.size() == peft.sites[i].source.tensors.size());
    for (const veneer::RoleTensor& wanted : peft.sites[i].source.tensors) {
      const veneer::TensorView& found = TensorOf(gguf, peft.sites[i].site, wanted.role);
      CHECK(found.dtype == wanted.tensor.dtype);
      CHECK(found.shape == wanted.tensor.shape);
      CHECK(std::ranges::equal(found.bytes, wanted.tensor.bytes));
    }
  }
}

}  // namespace

TEST_CASE("gguf adapter: a complete one reads without a configuration, its sites sorted, with the scale alpha over rank") {
  const veneer::Adapter adapter = ReadOrFail(QueryValue());
  CHECK(adapter.kind == "lora");
  CHECK(adapter.format == "gguf");
  CHECK(adapter.rank == 4);
  CHECK(adapter.notes.empty());
  REQUIRE(adapter.sites.size() == 4);
  CHECK(adapter.sites[0].site == kQ);
  CHECK(adapter.sites[3].site == "model.layers.1.self_attn.v_proj");
  for (const veneer::AdapterSite& site : adapter.sites) {
    CHECK(site.scale == 2.0);
    CHECK(site.rank == 4);
    REQUIRE(site.source.params.size() == 1);
    CHECK(site.source.params[0].path == "/scale");
    CHECK(site.source.params[0].d == 2.0);
  }
}

TEST_CASE("gguf adapter: factors that need no change stay in the file's bytes and in their own type") {
  for (const std::uint32_t type : {VNR_F32, VNR_F16, VNR_BF16}) {
    GgufLora file;
    file.Add("blk.0.attn_v.weight", 32, 64, 4, type).Add("blk.0.ffn_down.weight", 64, 96, 4, type);
    const veneer::Adapter adapter = ReadOrFail(file);
    CHECK(adapter.converted.empty());
    for (const veneer::AdapterSite& site : adapter.sites)
      for (const veneer::RoleTensor& tensor : site.source.tensors) {
        CHECK(tensor.tensor.dtype == type);
        CHECK(LiesInFile(adapter, tensor.tensor));
      }
  }
}

TEST_CASE("gguf adapter: rows of q and k come back to Hugging Face lanes, everything else stays") {
  // Head dim 16: the file's row h*16 + i is lane h*16 + (i mod 2)*8 + i div 2.
  for (const std::uint32_t type : {VNR_F32, VNR_F16, VNR_BF16}) {
    CAPTURE(type);
    GgufLora file;
    file.Add("blk.0.attn_q.weight", 64, 64, 4, type)
        .Add("blk.0.attn_k.weight", 32, 64, 4, type)
        .Add("blk.0.attn_v.weight", 32, 64, 4, type);
    const veneer::Adapter adapter = ReadOrFail(file);
    for (const std::string& site : {kQ, kK}) {
      CAPTURE(site);
      CHECK(TensorOf(adapter, site, "B").dtype == type);
      const std::vector<float> b = Values(TensorOf(adapter, site, "B"));
      const std::vector<float> stored = GgufLora::Counted(b.size());
      REQUIRE(b.size() == (site == kQ ? 256U : 128U));
      std::size_t wrong = 0;
      for (std::size_t row = 0; row < b.size() / 4; ++row) {
        const std::size_t lane = row / 16 * 16 + row % 2 * 8 + row % 16 / 2;
        for (std::size_t u = 0; u < 4; ++u) wrong += b[lane * 4 + u] != stored[row * 4 + u];
      }
      CHECK(wrong == 0);
      CHECK(LiesInFile(adapter, TensorOf(adapter, site, "A")));
    }
    CHECK(Values(TensorOf(adapter, kV, "B")) == GgufLora::Counted(128));
    CHECK(adapter.converted.size() == 2);
  }
}

TEST_CASE("gguf adapter: a role of one dimension is reordered too, for any kind that declares GGUF") {
  GgufLora file;
  file.file.Set("adapter.type", "offset");
  file.file.Remove("adapter.lora.alpha");
  file.file.SetTensor("blk.0.attn_q.weight.offset", VNR_F32, {64}, Quantize(VNR_F32, GgufLora::Counted(64)));
  const veneer::Adapter adapter = ReadOrFail(file);
  CHECK(adapter.kind == "org.example.offset");
  CHECK(adapter.rank == 0);
  CHECK_FALSE(adapter.sites.at(0).scale);
  CHECK(adapter.sites[0].source.params.empty());
  const std::vector<float> v = Values(TensorOf(adapter, kQ, "v"));
  CHECK(v[0] == 1 / 8.0F);
  CHECK(v[8] == 2 / 8.0F);    // row 1 holds lane 8
  CHECK(v[1] == 3 / 8.0F);    // row 2 holds lane 1
  CHECK(v[16] == 17 / 8.0F);  // the next head
}

TEST_CASE("gguf adapter: no alpha, or 0, means a scale of 1 and says so; the rank is each tensor's own") {
  GgufLora file = QueryValue();
  file.Add("blk.1.attn_v.weight", 32, 64, 2);
  file.file.Set("adapter.lora.alpha", 6.0F);
  veneer::Adapter adapter = ReadOrFail(file);
  CHECK(SiteOf(adapter, kQ).scale == 1.5);
  CHECK(SiteOf(adapter, "model.layers.1.self_attn.v_proj").scale == 3.0);
  CHECK(adapter.rank == 4);
  file.file.Set("adapter.lora.alpha", -6.0F);
  CHECK(SiteOf(ReadOrFail(file), kQ).scale == -1.5);
  file.file.Set("adapter.lora.alpha", 0.0F);
  adapter = ReadOrFail(file);
  CHECK(SiteOf(adapter, kQ).scale == 1.0);
  CHECK(Notes(adapter, "adapter.lora.alpha is 0"));
  file.file.Remove("adapter.lora.alpha");
  adapter = ReadOrFail(file);
  CHECK(SiteOf(adapter, "model.layers.1.self_attn.v_proj").scale == 1.0);
  CHECK(Notes(adapter, "adapter.lora.alpha is missing"));
}

TEST_CASE("gguf adapter: token_embd's A lies token by token there, and edits the embedding alone where the head is tied") {
  // 320 tokens, width 64, rank 4: lora_a is stored [vocab, r].
  GgufLora file;
  file.file.SetTensor("token_embd.weight.lora_a", VNR_F16, {320, 4}, Quantize(VNR_F16, GgufLora::Counted(1280)));
  file.file.SetTensor("token_embd.weight.lora_b", VNR_F16, {64, 4}, Quantize(VNR_F16, GgufLora::Counted(256)));
  const veneer::Adapter adapter = ReadOrFail(file);
  REQUIRE(adapter.sites.size() == 1);
  CHECK(adapter.sites[0].site == "model.embed_tokens");
  const veneer::TensorView& a = TensorOf(adapter, "model.embed_tokens", "embedding_A");
  CHECK(a.shape == std::vector<std::uint64_t>{4, 320});
  CHECK(a.dtype == VNR_F16);
  const std::vector<float> values = Values(a),
                           stored = Values({"", VNR_F16, {320, 4}, adapter.weights.bytes().last(1280 * 2 + 512).first(2560)});
  for (const std::size_t token : {0, 1, 17, 319})
    for (std::size_t u = 0; u < 4; ++u) CHECK(values[u * 320 + token] == stored[token * 4 + u]);
  CHECK(stored[4] == 5 / 8.0F);
  CHECK(LiesInFile(adapter, TensorOf(adapter, "model.embed_tokens", "embedding_B")));
  CHECK(Notes(adapter, "edits the embedding only"));
  const auto untied = OpenTiny(TinyModel{.tied = false});
  CHECK_FALSE(Notes(ReadOrFail(file, *untied), "edits the embedding only"));
}

TEST_CASE("gguf adapter: output.weight is the head") {
  GgufLora file;
  file.Add("output.weight", 320, 64, 4);
  const auto untied = OpenTiny(TinyModel{.tied = false});
  const veneer::Adapter adapter = ReadOrFail(file, *untied);
  REQUIRE(adapter.sites.size() == 1);
  CHECK(adapter.sites[0].site == "lm_head");
  CHECK(Values(TensorOf(adapter, "lm_head", "B")) == GgufLora::Counted(1280));
}

TEST_CASE("gguf adapter: factors of a block type become f32 of the same values, rows of q in lane order") {
  // Q8_0: blocks of 32, half-precision d then 32 int8; B of rank 32 has one block a row.
  GgufLora file;
  file.Add("blk.0.attn_q.weight", 64, 64, 32, VNR_Q8_0).Add("blk.0.attn_v.weight", 32, 64, 32, VNR_Q8_0);
  const veneer::Adapter adapter = ReadOrFail(file);
  const std::string blocks = Quantize(VNR_Q8_0, GgufLora::Counted(64 * 32));
  const auto stored = [&blocks](std::size_t row, std::size_t i) {
    std::uint16_t d = 0;
    std::memcpy(&d, blocks.data() + row * 34, 2);
    return veneer::kernels::HalfToFloat(d) * static_cast<float>(static_cast<signed char>(blocks[row * 34 + 2 + i]));
  };
  for (const std::string& site : {kQ, kV}) {
    CAPTURE(site);
    const veneer::TensorView& b = TensorOf(adapter, site, "B");
    REQUIRE(b.dtype == VNR_F32);
    const std::vector<float> values = Values(b);
    std::size_t wrong = 0;
    for (std::size_t row = 0; row < values.size() / 32; ++row) {
      const std::size_t lane = site == kQ ? row / 16 * 16 + row % 2 * 8 + row % 16 / 2 : row;
      for (std::size_t u = 0; u < 32; ++u) wrong += values[lane * 32 + u] != stored(row, u);
    }
    CHECK(wrong == 0);
  }
  CHECK(adapter.converted.size() == 4);  // one copy a factor, not one a step
}

TEST_CASE("gguf adapter: every block type that has a kernel is read, the others are refused by name") {
  const auto& table = *veneer::kernels::Runnable().tables[0];
  // ffn 768 and hidden 512: both hold whole blocks of 256.
  const auto base = OpenTiny(TinyModel{.n_layers = 1, .hidden = 512, .ffn = 768});
  for (const std::uint32_t type : {VNR_Q4_0, VNR_Q4_1, VNR_Q5_0, VNR_Q5_1, VNR_Q8_0, VNR_Q2_K, VNR_Q3_K, VNR_Q4_K, VNR_Q5_K, VNR_Q6_K}) {
    CAPTURE(type);
    GgufLora file;
    file.Add("blk.0.ffn_down.weight", 512, 768, 2);
    file.file.SetTensor("blk.0.ffn_down.weight.lora_a", type, {2, 768}, RandomBlocks(type, 1536, 1, 5));
    const auto read = file.Read(*base);
    if (table.dequantize[type] == nullptr) {
      REQUIRE_FALSE(read);
      CHECK(read.error().code == veneer::Code::FORMAT_UNSUPPORTED);
      CHECK(read.error().detail.find(veneer::InfoOf(type).name) != std::string::npos);
    } else {
      if (!read) FAIL(read.error().Text());
      CHECK(TensorOf(*read, "model.layers.0.mlp.down_proj", "A").dtype == VNR_F32);
    }
  }
}

TEST_CASE("gguf adapter: rank 1 may come without its dimension of 1, as ggml counts dimensions") {
  GgufLora file;
  file.Add("blk.0.attn_v.weight", 32, 64, 1);
  const veneer::Adapter whole = ReadOrFail(file);
  file.file.SetTensor("blk.0.attn_v.weight.lora_a", VNR_F32, {64}, Quantize(VNR_F32, Uniform(64, 0.5F, 7)));
  file.file.SetTensor("blk.0.attn_v.weight.lora_b", VNR_F32, {1, 32, 1}, Quantize(VNR_F32, GgufLora::Counted(32)));
  CheckSameTensors(ReadOrFail(file), whole);
}

TEST_CASE("gguf adapter: keys that say nothing about the edit are read over; all-zero factors are noted") {
  GgufLora file = QueryValue();
  file.file.Set("general.name", "x");
  file.file.Set("general.base_model.count", std::uint32_t{1});
  file.file.Set("adapter.lora.task_name", "summarise");
  file.file.Set("adapter.lora.prompt_prefix", "Q: ");
  file.file.Set("adapter.alora.invocation_tokens", std::vector<std::int32_t>{});  // an activated adapter without an activation is none
  file.file.Set("adapter.lora.something", false);
  CHECK(ReadOrFail(file).notes.empty());
  GgufLora zero;
  zero.Add("blk.0.attn_v.weight", 32, 64, 4);
  zero.file.SetTensor("blk.0.attn_v.weight.lora_b", VNR_F32, {32, 4}, std::string(512, '\0'));
  CHECK(Notes(ReadOrFail(zero), "all its edits are zero"));
}

TEST_CASE("gguf adapter: llama.cpp's own files are what the converter of these tests writes") {
  const fs::path folder = RepoData() / "stories260k/adapters";
  for (const auto& [name, directory, type] :
       {std::tuple{"lora-all-r4.gguf", "lora-all-r4", VNR_F32}, std::tuple{"lora-qv-r8-f16.gguf", "lora-qv-r8", VNR_F16}}) {
    CAPTURE(name);
    const auto theirs = veneer::FileBytes::Map(folder / name);
    REQUIRE(theirs);
    const std::string ours = GgufFromPeft(folder / directory, 8, static_cast<std::uint32_t>(type)).Bytes();
    const auto a = veneer::GgufFile::Parse(theirs->bytes()), b = veneer::GgufFile::Parse(std::as_bytes(std::span(ours)));
    REQUIRE(a);
    REQUIRE(b);
    CHECK(a->F64("adapter.lora.alpha").value() == b->F64("adapter.lora.alpha").value());
    REQUIRE(a->tensors().size() == b->tensors().size());
    for (const veneer::TensorView& tensor : a->tensors()) {
      CAPTURE(tensor.name);
      const veneer::TensorView* other = b->FindTensor(tensor.name);
      REQUIRE(other != nullptr);
      CHECK(other->shape == tensor.shape);
      CHECK(std::ranges::equal(other->bytes, tensor.bytes));
    }
  }
}

TEST_CASE("gguf adapter: a converted PEFT adapter has the factors of its directory, bit for bit") {
  const fs::path folder = RepoData() / "stories260k/adapters";
  const auto base = OpenBase(RepoData() / "stories260k/stories260k-q8_0.gguf");
  for (const std::string name : {"lora-all-r4", "lora-qv-r8", "lora-rslora-r16", "lora-patterns", "lora-embed"}) {
    CAPTURE(name);
    const auto peft = ReadPath(folder / name, *base);
    REQUIRE(peft);
    GgufLora file;
    file.file = GgufFromPeft(folder / name, 8);
    const veneer::Adapter gguf = ReadOrFail(file, *base);
    CheckSameTensors(gguf, *peft);
    // What the format loses: the square root of rslora (a factor sqrt(16)), alpha_pattern {down_proj: 12, v_proj: 3} beside alpha 8.
    for (std::size_t i = 0; i < gguf.sites.size(); ++i) {
      CAPTURE(gguf.sites[i].site);
      double factor = name == "lora-rslora-r16" ? 4 : 1;
      if (name == "lora-patterns" && gguf.sites[i].site.ends_with("down_proj")) factor = 12 / 8.0;
      if (name == "lora-patterns" && gguf.sites[i].site.ends_with("v_proj")) factor = 3 / 8.0;
      CHECK(gguf.sites[i].scale.value() * factor == peft->sites[i].scale.value());
    }
  }
  const auto real = ReadPath(folder / "lora-all-r4.gguf", *base), peft = ReadPath(folder / "lora-all-r4", *base);
  REQUIRE(real);
  REQUIRE(peft);
  CheckSameTensors(*real, *peft);
  CHECK(real->sites[0].scale == peft->sites[0].scale);
}
