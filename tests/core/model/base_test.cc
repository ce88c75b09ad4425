#include "core/model/base.h"

#include <string>

#include "core/base/digest.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

std::shared_ptr<const Base> OpenFile(const std::filesystem::path& path) {
  auto file = FileBytes::Map(path);
  if (!file) FAIL(file.error().Text());
  auto base = Base::OpenGguf(*std::move(file));
  if (!base) FAIL(base.error().Text());
  return *std::move(base);
}

TEST_CASE("base: the demo base opens with the shape its documentation states") {
  const auto base = OpenFile(DemoData() / "fable-q4_0.gguf");
  const ModelConfig& config = base->config();
  CHECK(config.n_layers == 4);
  CHECK(config.hidden == 256);
  CHECK(config.ffn == 768);
  CHECK(config.n_heads == 8);
  CHECK(config.n_kv_heads == 4);
  CHECK(config.vocab == 2048);
  CHECK(config.tied_head);
  CHECK(base->sites().sites().size() == 4 * 9 + 3);
  CHECK(base->quantization() == Quantization{.dtype = "q4_0", .scheme = "symmetric", .block_size = 32});
  CHECK(InfoOf(base->sites().Find("lm_head")->weight.dtype).name == "q6_k");
  CHECK(base->format() == "gguf");
}

TEST_CASE("base: opening and reading leave the mapped bytes as they are, and the views lie inside them") {
  const auto base = OpenFile(RepoData() / "stories260k/stories260k-q8_0.gguf");
  const Digest before = Sha256::Of(base->bytes());
  for (const Site& site : base->sites().sites()) {
    CHECK(site.weight.bytes.data() >= base->bytes().data());
    CHECK(site.weight.bytes.data() + site.weight.bytes.size() <= base->bytes().data() + base->bytes().size());
    std::vector<float> row(std::max(site.in, site.out));
    ReadRows(site, 0, 1, row.data(), row.size());
  }
  CHECK(Sha256::Of(base->bytes()) == before);
}

TEST_CASE("base: every error names the file") {
  const auto base = Base::OpenGguf(InMemory("not a model at all", "models/x.gguf"));
  REQUIRE_FALSE(base.has_value());
  CHECK(base.error().at.starts_with("models/x.gguf: "));
}

TEST_CASE("base: a vocabulary that is not read does not keep the base from opening, only text from being used") {
  GgufWriter writer = TinyLlama();
  writer.Set("tokenizer.ggml.model", "gpt2");
  writer.Set("tokenizer.ggml.pre", "llama-bpe");
  const auto base = OpenTiny(writer);
  CHECK(base->tokenizer().id == "gguf-gpt2-llama-bpe");
  const auto tokenizer = OpenTokenizer(*base);
  REQUIRE_FALSE(tokenizer.has_value());
  CHECK(tokenizer.error().code == Code::FORMAT_UNSUPPORTED);
  for (const char* const word : {"byte-level BPE", "--tokens"}) CHECK(tokenizer.error().detail.find(word) != std::string::npos);
}

TEST_CASE("base: the tokenizer of a base outlives it") {
  auto base = OpenTiny();
  auto tokenizer = OpenTokenizer(*base);
  REQUIRE(tokenizer);
  base.reset();
  CHECK(tokenizer->Decode(tokenizer->Encode("the hello world")) == "the hello world");
  CHECK(tokenizer->Encode("hello", {.add_special = false}).size() == 2);
}

TEST_CASE("base: a tiny model of every supported type opens and states it") {
  const std::pair<std::uint32_t, const char*> types[] = {{VNR_F32, "f32"},   {VNR_F16, "f16"},      {VNR_BF16, "bf16"}, {VNR_Q4_0, "q4_0"},
                                                         {VNR_Q4_1, "q4_1"}, {VNR_Q5_0, "q5_0"},    {VNR_Q5_1, "q5_1"}, {VNR_Q8_0, "q8_0"},
                                                         {VNR_Q2_K, "q2_k"}, {VNR_Q3_K, "q3_k"},    {VNR_Q4_K, "q4_k"}, {VNR_Q5_K, "q5_k"},
                                                         {VNR_Q6_K, "q6_k"}, {VNR_IQ4_NL, "iq4_nl"}};
  for (const auto& [type, name] : types) {
    const auto base = OpenTiny({.n_layers = 1, .hidden = 256, .ffn = 256, .matrix_type = type, .embedding_type = type});
    CHECK(base->quantization().dtype == name);
  }
}

TEST_CASE("base: overhead counts the tables beside the mapping and not the mapping") {
  const auto base = OpenTiny();
  CHECK(base->overhead_bytes() > base->tokenizer().bytes.size());
  CHECK(base->overhead_bytes() < 100'000);
}

TEST_CASE("base: all bases of the data set open, or are refused as a vocabulary") {
  const auto data = ExternalData();
  if (!data) return;
  std::size_t opened = 0, refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*data)) {
    if (entry.path().extension() != ".gguf" || entry.path().string().find("adapters") != std::string::npos) continue;
    auto file = FileBytes::Map(entry.path());
    if (!file) FAIL(file.error().Text());
    const auto base = Base::OpenGguf(*std::move(file));
    CAPTURE(entry.path().string());
    if (base) {
      ++opened;
      continue;
    }
    ++refused;
    CAPTURE(base.error().Text());
    const std::string name = entry.path().filename().string();
    CHECK(name.find("vocab") != std::string::npos);
  }
  CHECK(opened >= 20);
  CHECK(opened + refused >= 20);
}

}  // namespace
}  // namespace veneer
