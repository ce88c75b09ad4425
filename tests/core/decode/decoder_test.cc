#include "core/decode/decoder.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <thread>

#include "core/base/digest.h"
#include "tests/core/decode/oracle_check.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

void* Counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Every C++ allocation of this test program is counted.
void* operator new(std::size_t size) { return Counted(size); }
void* operator new[](std::size_t size) { return Counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept { return operator new(size, nothrow); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace veneer {
namespace {

const Decoder::LogitsSink kIgnore = [](std::size_t, std::span<const float>) -> Status { return {}; };

TEST_CASE("decoder: exact logits agree with the f64 oracle for every shape of the architecture") {
  CheckAgainstOracle(Stack(OpenTiny()), 12);
  CheckAgainstOracle(Stack(OpenTiny({.tied = false, .biases = true, .rope_factors = true})), 12);
  CheckAgainstOracle(Stack(OpenTiny({.n_heads = 4, .n_kv_heads = 4, .matrix_type = VNR_Q4_0})), 8);
  CheckAgainstOracle(Stack(OpenTiny({.hidden = 64, .n_heads = 12, .n_kv_heads = 2, .head_dim = 32, .rope_base = 500000})), 8);
  CheckAgainstOracle(Stack(OpenTiny({.n_heads = 4, .n_kv_heads = 1, .matrix_type = VNR_F16, .embedding_type = VNR_F32})), 8);
}

TEST_CASE("decoder: exact logits of a base of every block type agree with the f64 oracle") {
  for (const std::uint32_t type :
       {VNR_Q4_0, VNR_Q4_1, VNR_Q5_0, VNR_Q5_1, VNR_Q8_0, VNR_Q2_K, VNR_Q3_K, VNR_Q4_K, VNR_Q5_K, VNR_Q6_K, VNR_IQ4_NL}) {
    CAPTURE(type);
    CheckAgainstOracle(Stack(OpenTiny({.hidden = 256, .ffn = 512, .matrix_type = type, .embedding_type = type})), 6);
  }
}

TEST_CASE("decoder: exact logits of Qwen2 and Qwen3 agree with the f64 oracle") {
  CheckAgainstOracle(Stack(OpenTiny({.arch = "qwen2", .rope_base = 1000000})), 12);
  CheckAgainstOracle(Stack(OpenTiny({.arch = "qwen2", .n_heads = 8, .n_kv_heads = 1, .matrix_type = VNR_Q4_0, .tied = false})), 8);
  CheckAgainstOracle(Stack(OpenTiny({.arch = "qwen3", .rope_base = 1000000})), 12);
  // A head that is no multiple of the kernels' lanes, and heads that are wider in all than the model.
  CheckAgainstOracle(Stack(OpenTiny({.arch = "qwen3", .n_heads = 8, .n_kv_heads = 4, .head_dim = 12, .biases = true})), 8);
  CheckAgainstOracle(Stack(OpenTiny({.arch = "qwen3", .n_heads = 8, .n_kv_heads = 2, .head_dim = 48, .tied = false})), 40);
}

// The same weights in Hugging Face order: a file of architecture `llama` holds the rows of q and k interleaved, one of `qwen2` as they are.
TEST_CASE("decoder: a Llama with biases and a Qwen2 of the same weights give the same bits") {
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    const Stack llama(OpenTiny({.arch = "llama", .biases = true})), qwen(OpenTiny({.arch = "qwen2"}));
    REQUIRE(Sha256::Of(llama.base().bytes()) != Sha256::Of(qwen.base().bytes()));
    const std::vector<TokenId> tokens = SomeTokens(20, llama.base().config().vocab);
    CHECK(LogitsOf(*MakeDecoder(llama.Stage(mode)), tokens) == LogitsOf(*MakeDecoder(qwen.Stage(mode)), tokens));
  }
}

TEST_CASE("decoder: a stack over a Qwen's sites, its biases and the norms of its heads agrees with f64") {
  const std::string layer = "model.layers.1.self_attn.";
  Stack biased(OpenTiny({.arch = "qwen2"}));
  biased.LowRank(layer + "q_proj", 4, 0.5, true).Rescale(layer + "k_proj", Scales::kOutput).Rescale(layer + "v_proj", Scales::kOutput);
  biased.Replace("model.layers.0.self_attn.k_proj.bias");
  CheckAgainstOracle(biased, 10);
  Stack normed(OpenTiny({.arch = "qwen3", .head_dim = 32}));
  normed.LowRank(layer + "q_proj", 4, 0.5, true).Rescale(layer + "k_proj", Scales::kOutput);
  normed.Replace(layer + "q_norm").Replace("model.layers.0.self_attn.k_norm");
  CheckAgainstOracle(normed, 10);
}

TEST_CASE("decoder: replacing the norm of q's or of k's heads changes every token but the first, and only with the replacement") {
  const auto base = OpenTiny({.arch = "qwen3"});
  const std::vector<TokenId> tokens = SomeTokens(3, base->config().vocab);
  const auto vocab = static_cast<std::ptrdiff_t>(base->config().vocab);
  const std::vector<float> plain = LogitsOf(*MakeDecoder(Stack(base).Stage(ComputeMode::kExact)), tokens);
  for (const char* const name : {"model.layers.0.self_attn.q_norm", "model.layers.1.self_attn.k_norm"}) {
    Stack stack(base);
    const std::vector<float> replaced = LogitsOf(*MakeDecoder(stack.Replace(name).Stage(ComputeMode::kExact)), tokens);
    // One position alone gets all the attention, whatever its score.
    CHECK(std::equal(plain.begin(), plain.begin() + vocab, replaced.begin()));
    for (std::ptrdiff_t t = 1; t < 3; ++t)
      CHECK_FALSE(std::equal(plain.begin() + t * vocab, plain.begin() + (t + 1) * vocab, replaced.begin() + t * vocab));
    CHECK(LogitsOf(*MakeDecoder(Stack(base).Stage(ComputeMode::kExact)), tokens) == plain);
  }
}

TEST_CASE("decoder: logits of a Qwen3 are the same bits for any threads in both modes, and for any batch in exact mode") {
  const Stack stack(OpenTiny({.arch = "qwen3", .n_heads = 8, .n_kv_heads = 2, .head_dim = 24, .matrix_type = VNR_F16}));
  const std::vector<TokenId> tokens = SomeTokens(40, stack.base().config().vocab);
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    const auto staged = stack.Stage(mode);
    const std::vector<float> expected = LogitsOf(*MakeDecoder(staged), tokens);
    for (const std::uint32_t threads : {2U, 3U, 8U}) CHECK(LogitsOf(*MakeDecoder(staged, {.threads = threads}), tokens) == expected);
    if (mode == ComputeMode::kExact) CHECK(LogitsOf(*MakeDecoder(staged, {.threads = 2, .max_batch = 3}), tokens, {1, 2, 30}) == expected);
  }
}

TEST_CASE("decoder: a stack over every site agrees with weights edited in f64") {
  Stack stack(OpenTiny({.tied = false, .biases = true}));
  for (const char* const layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* const name :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj"})
      stack.LowRank(std::string(layer) + name, 4, 0.5);
    stack.Rescale(std::string(layer) + "mlp.down_proj", Scales::kInput).Rescale(std::string(layer) + "self_attn.k_proj", Scales::kOutput);
    stack.LowRank(std::string(layer) + "mlp.down_proj", 3, -0.5, true);
  }
  stack.LowRank("model.embed_tokens", 4, 1).LowRank("lm_head", 4, 1);
  CheckAgainstOracle(stack, 10);
}

TEST_CASE("decoder: over tied storage, an edit of the embedding leaves the head alone and the other way round") {
  for (const char* const site : {"model.embed_tokens", "lm_head"}) {
    Stack stack(OpenTiny({.tied = true}));
    stack.LowRank(site, 4, 2);
    CheckAgainstOracle(stack, 40);  // more tokens than one block
  }
}

TEST_CASE("decoder: replaced tensors and rows agree with the oracle, alone and under an overlay, and leave the tied site alone") {
  for (const bool tied : {true, false}) {
    Stack stack(OpenTiny({.tied = tied, .biases = true}));
    stack.Replace("lm_head").LowRank("lm_head", 4, 1);
    stack.Replace("model.embed_tokens", {300, 5, 22}).LowRank("model.embed_tokens", 2, 1);  // fed below: 5 and 22
    stack.Replace("model.layers.0.self_attn.q_proj").Rescale("model.layers.0.self_attn.q_proj", Scales::kOutput);
    stack.Replace("model.layers.0.self_attn.q_proj.bias").Replace("model.layers.1.input_layernorm");
    stack.Replace("model.layers.1.mlp.up_proj", {0, 95, 33});  // single rows of a linear layer
    CheckAgainstOracle(stack, 40);
  }
}

TEST_CASE("decoder: fast logits over replaced tensors are near the exact ones") {
  Stack stack(OpenTiny({.tied = true}));
  stack.Replace("lm_head").Replace("model.layers.0.mlp.down_proj").Replace("model.layers.1.mlp.up_proj", {7});
  const std::vector<TokenId> tokens = SomeTokens(40, stack.base().config().vocab);
  const std::vector<float> exact = LogitsOf(*MakeDecoder(stack.Stage(ComputeMode::kExact)), tokens);
  const std::vector<float> fast = LogitsOf(*MakeDecoder(stack.Stage(ComputeMode::kFast)), tokens);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference += std::abs(static_cast<double>(exact[i]) - static_cast<double>(fast[i]));
    size += std::abs(static_cast<double>(exact[i]));
  }
  CHECK(difference < 0.03 * size);
}

TEST_CASE("decoder: logits are the same bits for 1, 2, 3 and 8 threads in both modes") {
  Stack stack(OpenTiny({.hidden = 128, .ffn = 352, .matrix_type = VNR_Q4_0}));
  stack.LowRank("model.layers.0.mlp.up_proj", 4, 1).Rescale("model.layers.1.mlp.down_proj", Scales::kInput);
  const std::vector<TokenId> tokens = SomeTokens(40, stack.base().config().vocab);
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    const auto staged = stack.Stage(mode);
    std::vector<float> expected;
    for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
      const auto decoder = MakeDecoder(staged, {.threads = threads});
      const std::vector<float> logits = LogitsOf(*decoder, tokens, {36, 1, 1, 1, 1});
      if (expected.empty()) expected = logits;
      CHECK(logits == expected);
    }
  }
}

TEST_CASE("decoder: with keys and values in q8_0 logits are the same bits for 1, 2, 3 and 8 threads and any batch") {
  const Stack stack(OpenTiny({.hidden = 128, .ffn = 352, .n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .matrix_type = VNR_Q4_0}));
  const std::vector<TokenId> tokens = SomeTokens(70, stack.base().config().vocab);
  const auto staged = stack.Stage(ComputeMode::kFast);
  const std::vector<float> expected = LogitsOf(*MakeDecoder(staged, {.kv = KvType::kQ8_0}), tokens);
  for (const std::uint32_t threads : {2U, 3U, 8U})
    CHECK(LogitsOf(*MakeDecoder(staged, {.threads = threads, .kv = KvType::kQ8_0}), tokens) == expected);
  for (const std::uint32_t batch : {1U, 3U, 33U})
    CHECK(LogitsOf(*MakeDecoder(staged, {.threads = 2, .kv = KvType::kQ8_0, .max_batch = batch}), tokens, {1, 2, 40}) == expected);
}

TEST_CASE("decoder: exact logits are the same bits for every batch split, batch size and room for logits") {
  Stack stack(OpenTiny());
  stack.LowRank("model.embed_tokens", 2, 1).LowRank("model.layers.0.self_attn.q_proj", 4, 1);
  const auto staged = stack.Stage(ComputeMode::kExact);
  const std::vector<TokenId> tokens = SomeTokens(70, stack.base().config().vocab);
  const std::vector<float> expected = LogitsOf(*MakeDecoder(staged), tokens);
  CHECK(LogitsOf(*MakeDecoder(staged, {.all_logits = true}), tokens) == expected);
  CHECK(LogitsOf(*MakeDecoder(staged, {.max_batch = 1}), tokens) == expected);
  CHECK(LogitsOf(*MakeDecoder(staged, {.max_batch = 33, .all_logits = true}), tokens) == expected);
  CHECK(LogitsOf(*MakeDecoder(staged, {.threads = 3, .max_batch = 2}), tokens, {1, 2, 3, 40}) == expected);
}

TEST_CASE("decoder: two decoders over one composition work at the same time without disturbing each other") {
  Stack stack(OpenTiny());
  stack.LowRank("model.layers.0.mlp.up_proj", 4, 1);
  const auto staged = stack.Stage(ComputeMode::kFast);
  const std::uint32_t vocab = stack.base().config().vocab;
  const std::vector<TokenId> one = SomeTokens(30, vocab), other = {one.rbegin(), one.rend()};
  const std::vector<float> expected_one = LogitsOf(*MakeDecoder(staged), one), expected_other = LogitsOf(*MakeDecoder(staged), other);
  const auto a = MakeDecoder(staged, {.threads = 2}), b = MakeDecoder(staged, {.threads = 2});
  std::vector<float> got_other;
  std::thread second([&] { got_other = LogitsOf(*b, other); });
  CHECK(LogitsOf(*a, one) == expected_one);
  second.join();
  CHECK(got_other == expected_other);
}

TEST_CASE("decoder: once made, feeding tokens allocates nothing") {
  Stack stack(OpenTiny());
  stack.LowRank("model.layers.0.mlp.up_proj", 4, 1).LowRank("model.embed_tokens", 4, 1);
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    const auto decoder = MakeDecoder(stack.Stage(mode), {.threads = 2, .max_batch = 16, .all_logits = true});
    const std::vector<TokenId> tokens = SomeTokens(40, stack.base().config().vocab);
    const std::uint64_t before = allocations;
    const bool fed = decoder->Feed(tokens, true, kIgnore).has_value();
    const bool stepped = decoder->Feed(std::span(tokens).first(1), false, kIgnore).has_value();
    const std::uint64_t after = allocations;
    CHECK(fed);
    CHECK(stepped);
    CHECK(after == before);
  }
}

TEST_CASE("decoder: a token outside the vocabulary is refused with E405, its place and the range, and nothing is fed") {
  const Stack stack(OpenTiny({.vocab = 320}));
  const auto decoder = MakeDecoder(stack.Stage(ComputeMode::kFast));
  for (const TokenId bad : {320, -1}) {
    const std::vector<TokenId> tokens = {1, 2, bad};
    const Status fed = decoder->Feed(tokens, false, kIgnore);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().code == Code::TARGET_UNKNOWN);
    CHECK(fed.error().at == "token 2");
    CHECK(fed.error().detail.find(std::to_string(bad)) != std::string::npos);
    CHECK(fed.error().detail.find("0..319") != std::string::npos);
    CHECK(decoder->cache().position() == 0);
  }
}

TEST_CASE("decoder: the token after the last one that fits is refused with E505, which names position, size and remedy") {
  const Stack stack(OpenTiny());
  const auto decoder = MakeDecoder(stack.Stage(ComputeMode::kFast), {.context = 8});
  const std::vector<TokenId> tokens = SomeTokens(9, 300);
  CHECK_FALSE(decoder->Feed(tokens, false, kIgnore));
  CHECK(decoder->cache().position() == 0);
  REQUIRE(decoder->Feed(std::span(tokens).first(8), false, kIgnore));
  const Status fed = decoder->Feed(std::span(tokens).first(1), false, kIgnore);
  REQUIRE_FALSE(fed);
  CHECK(fed.error().code == Code::CONTEXT_FULL);
  for (const char* const part : {"8 tokens are held", "the context has 8", "-c"}) CHECK(fed.error().detail.find(part) != std::string::npos);
}

TEST_CASE("decoder: a cancel between two layers ends the decoding with the caller's error and leaves the cache as it was") {
  const Stack stack(OpenTiny({.n_layers = 3}));
  const auto staged = stack.Stage(ComputeMode::kExact);
  const auto decoder = MakeDecoder(staged, {.threads = 2, .max_batch = 4});
  const std::vector<TokenId> tokens = SomeTokens(10, 300);
  (void)LogitsOf(*decoder, {tokens[0], tokens[1]});
  for (int allowed = 0; allowed < 8; ++allowed) {  // 4 questions in each of two passes
    int asked = 0;
    decoder->SetCancelCheck([&]() -> std::optional<Error> {
      if (asked++ < allowed) return std::nullopt;
      return Error{Code::COMPOSITION_CHANGED, "decode", "switched"};
    });
    const Status fed = decoder->Feed(std::span(tokens).subspan(2), false, kIgnore);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().code == Code::COMPOSITION_CHANGED);
    CHECK(fed.error().detail == "switched");
    CHECK(asked == allowed + 1);
    CHECK(decoder->cache().position() == 2);
  }
  decoder->SetCancelCheck({});
  const std::vector<float> expected = LogitsOf(*MakeDecoder(staged), tokens);
  const std::vector<float> rest = LogitsOf(*decoder, {tokens.begin() + 2, tokens.end()});
  CHECK(std::equal(rest.begin(), rest.end(), expected.end() - static_cast<std::ptrdiff_t>(rest.size())));
}

TEST_CASE("decoder: an error of the sink ends the feeding and leaves the cache as it was") {
  const Stack stack(OpenTiny());
  const auto decoder = MakeDecoder(stack.Stage(ComputeMode::kFast));
  const Status fed = decoder->Feed(SomeTokens(5, 300), true, [](std::size_t i, std::span<const float>) -> Status {
    if (i == 3) return Fail(Code::DISK_FULL, "out.npy", "no room");
    return {};
  });
  REQUIRE_FALSE(fed);
  CHECK(fed.error().code == Code::DISK_FULL);
  CHECK(decoder->cache().position() == 0);
}

TEST_CASE("decoder: an overlay that fails in a hot call ends the decoding with E417 naming the site, and stays refused") {
  const auto base = OpenTiny();
  Stack stack(base);
  stack.Probes({{"model.layers.1.mlp.up_proj", 1}}, 0, true);
  const auto staged = stack.Stage(ComputeMode::kFast);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto decoder = MakeDecoder(staged);
    bool shown = false;
    const Status fed = decoder->Feed(SomeTokens(3, 300), false, [&](std::size_t, std::span<const float>) -> Status {
      shown = true;
      return {};
    });
    REQUIRE_FALSE(fed);
    CHECK(fed.error().code == Code::PLUGIN_FAULT);
    CHECK(fed.error().at.find("model.layers.1.mlp.up_proj") != std::string::npos);
    CHECK_FALSE(shown);
    CHECK(decoder->cache().position() == 0);
  }
}

TEST_CASE("decoder: options that cannot be met are refused with E901 naming the option") {
  const Stack stack(OpenTiny({.context_length = 128}));
  const auto refused = [&](ComputeMode mode, const DecoderOptions& options, const char* at) {
    const auto decoder = Decoder::Create(stack.Stage(mode), options);
    REQUIRE_FALSE(decoder);
    CHECK(decoder.error().code == Code::USAGE);
    CHECK(decoder.error().at == at);
  };
  refused(ComputeMode::kFast, {.threads = 0}, "--threads");
  refused(ComputeMode::kFast, {.threads = 100000}, "--threads");
  refused(ComputeMode::kFast, {.max_batch = 0}, "--batch");
  refused(ComputeMode::kFast, {.context = 0}, "-c");
  refused(ComputeMode::kFast, {.context = 129}, "-c");
  refused(ComputeMode::kExact, {.kv = KvType::kF16}, "--kv");
  refused(ComputeMode::kExact, {.kv = KvType::kQ8_0}, "--kv");
  for (const std::uint32_t head_dim : {16U, 48U}) {
    const Stack narrow(OpenTiny({.arch = "qwen3", .head_dim = head_dim}));
    const auto staged = narrow.Stage(ComputeMode::kFast);
    const auto decoder = Decoder::Create(staged, {.kv = KvType::kQ8_0});
    REQUIRE_FALSE(decoder);
    CHECK(decoder.error().code == Code::USAGE);
    CHECK(decoder.error().at == "--kv");
    for (const std::string& part : {std::string("q8_0"), std::string("32"), std::to_string(head_dim), std::string("f16")})
      CHECK(decoder.error().detail.find(part) != std::string::npos);
    CHECK_FALSE(Decoder::PlannedMemory(*staged, {.kv = KvType::kQ8_0}));
  }
  CHECK(MakeDecoder(stack.Stage(ComputeMode::kExact))->cache().type() == KvType::kF32);
  CHECK(MakeDecoder(stack.Stage(ComputeMode::kFast))->cache().type() == KvType::kF16);
}

}  // namespace
}  // namespace veneer
