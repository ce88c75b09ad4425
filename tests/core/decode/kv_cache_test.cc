#include "core/decode/kv_cache.h"

#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

const char* const kUp = "model.layers.0.mlp.up_proj";

Status FeedOne(Decoder& decoder, TokenId token) {
  return decoder.Feed(std::span(&token, 1), false, [](std::size_t, std::span<const float>) -> Status { return {}; });
}

TEST_CASE("K/V cache: bytes are 2 x layers x context x kv heads x head_dim x element") {
  const auto base = OpenTiny({.n_layers = 3, .hidden = 64, .n_heads = 4, .n_kv_heads = 2});
  CHECK(KvCache::Bytes(base->config(), 100, KvType::kF16) == 2ULL * 3 * 100 * 2 * 16 * 2);
  CHECK(KvCache::Bytes(base->config(), 100, KvType::kF32) == 2ULL * 3 * 100 * 2 * 16 * 4);
  const auto wide = OpenTiny({.n_layers = 3, .hidden = 64, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64});
  CHECK(KvCache::Bytes(wide->config(), 100, KvType::kQ8_0) == 2ULL * 3 * 100 * 2 * (64 / 32 * 34));  // blocks of 34 bytes
}

TEST_CASE("K/V cache: its types are known by the names of the tensor types, and no other name is one") {
  CHECK(ParseKvType("f16") == KvType::kF16);
  CHECK(ParseKvType("f32") == KvType::kF32);
  CHECK(ParseKvType("q8_0") == KvType::kQ8_0);
  for (const char* const name : {"", "Q8_0", "bf16", "q4_0"}) CHECK_FALSE(ParseKvType(name));
  CHECK(KvTypeName(KvType::kQ8_0) == "q8_0");
}

TEST_CASE("K/V cache: one filled under A is refused by a decoder of B with E616 that names both, and B goes on with its own") {
  const auto base = OpenTiny();
  Stack stack_a(base), stack_b(base);
  stack_b.LowRank(kUp, 2, 1);
  const auto a = MakeDecoder(stack_a.Stage(ComputeMode::kFast)), b = MakeDecoder(stack_b.Stage(ComputeMode::kFast));
  REQUIRE(a->composition().id() != b->composition().id());
  REQUIRE(FeedOne(*a, 5));
  const Status exchanged = b->ExchangeCache(a->cache());
  REQUIRE_FALSE(exchanged);
  CHECK(exchanged.error().code == Code::COMPOSITION_CHANGED);
  CHECK(exchanged.error().detail.find(a->composition().id().Text()) != std::string::npos);
  CHECK(exchanged.error().detail.find(b->composition().id().Text()) != std::string::npos);
  CHECK(a->cache().position() == 1);
  CHECK(b->cache().position() == 0);
  CHECK(FeedOne(*b, 5));
}

TEST_CASE("K/V cache: one that was swapped in behind the decoder's back is refused when tokens are fed") {
  const auto base = OpenTiny();
  Stack stack_a(base), stack_b(base);
  stack_b.LowRank(kUp, 2, 1);
  const auto a = MakeDecoder(stack_a.Stage(ComputeMode::kFast)), b = MakeDecoder(stack_b.Stage(ComputeMode::kFast));
  std::swap(a->cache(), b->cache());
  const Status fed = FeedOne(*b, 5);
  REQUIRE_FALSE(fed);
  CHECK(fed.error().code == Code::COMPOSITION_CHANGED);
}

TEST_CASE("K/V cache: one filled in fast mode is refused in exact mode, although composition and type are equal") {
  const Stack stack(OpenTiny());
  const auto fast = MakeDecoder(stack.Stage(ComputeMode::kFast), {.kv = KvType::kF32}),
             exact = MakeDecoder(stack.Stage(ComputeMode::kExact));
  REQUIRE(fast->composition().id() == exact->composition().id());
  const Status exchanged = exact->ExchangeCache(fast->cache());
  REQUIRE_FALSE(exchanged);
  CHECK(exchanged.error().code == Code::COMPOSITION_CHANGED);
}

TEST_CASE("K/V cache: one of another length or type is refused with E901") {
  const Stack stack(OpenTiny({.head_dim = 32}));
  const auto staged = stack.Stage(ComputeMode::kFast);
  const auto decoder = MakeDecoder(staged, {.context = 64});
  for (const DecoderOptions& other : {DecoderOptions{.context = 128}, DecoderOptions{.context = 64, .kv = KvType::kF32},
                                      DecoderOptions{.context = 64, .kv = KvType::kQ8_0}}) {
    const auto from = MakeDecoder(staged, other);
    const Status exchanged = decoder->ExchangeCache(from->cache());
    REQUIRE_FALSE(exchanged);
    CHECK(exchanged.error().code == Code::USAGE);
  }
}

TEST_CASE("K/V cache: switching back to a composition whose cache was kept goes on without prefill, bit for bit") {
  const auto base = OpenTiny({.head_dim = 32});
  const Stack stack(base);
  const auto staged = stack.Stage(ComputeMode::kFast);
  const std::vector<TokenId> tokens = SomeTokens(20, base->config().vocab);
  for (const KvType kv : {KvType::kF16, KvType::kQ8_0}) {
    const auto whole = MakeDecoder(staged, {.kv = kv});
    const std::vector<float> expected = LogitsOf(*whole, tokens, {12, 8});

    const auto first = MakeDecoder(staged, {.kv = kv}), second = MakeDecoder(staged, {.kv = kv});
    (void)LogitsOf(*first, {tokens.begin(), tokens.begin() + 12});
    REQUIRE(second->ExchangeCache(first->cache()));
    CHECK(second->cache().position() == 12);
    const std::vector<float> rest = LogitsOf(*second, {tokens.begin() + 12, tokens.end()});
    CHECK(std::equal(rest.begin(), rest.end(), expected.end() - static_cast<std::ptrdiff_t>(rest.size())));
  }
}

TEST_CASE("K/V cache: truncating to a position forgets what came after it, and never invents positions") {
  const auto base = OpenTiny();
  const Stack stack(base);
  const auto staged = stack.Stage(ComputeMode::kExact);
  const std::vector<TokenId> tokens = SomeTokens(10, base->config().vocab);
  const auto straight = MakeDecoder(staged), detour = MakeDecoder(staged);
  const std::vector<float> expected = LogitsOf(*straight, tokens);
  (void)LogitsOf(*detour, {tokens[0], tokens[1], tokens[2], 7, 8, 9});
  detour->cache().Truncate(3);
  const std::vector<float> rest = LogitsOf(*detour, {tokens.begin() + 3, tokens.end()});
  CHECK(std::equal(rest.begin(), rest.end(), expected.end() - static_cast<std::ptrdiff_t>(rest.size())));
  detour->cache().Truncate(1000);
  CHECK(detour->cache().position() == 10);
}

}  // namespace
}  // namespace veneer
