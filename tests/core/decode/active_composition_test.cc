#include "core/decode/active_composition.h"

#include <map>
#include <thread>

#include "core/decode/generate.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

constexpr std::uint32_t kTokens = 12;
const std::vector<TokenId> kPrompt = {3, 1, 4, 1, 5};

GenerateOptions Greedy() {
  GenerateOptions options;
  options.max_tokens = kTokens;
  options.ignore_end_of_text = true;
  options.sampling.temperature = 0;
  return options;
}

std::vector<TokenId> DecodeAlone(const std::shared_ptr<const StagedComposition>& composition) {
  Generated made;
  REQUIRE(Generate(*MakeDecoder(composition), nullptr, kPrompt, Greedy(), {}, made));
  return made.tokens;
}

// Two compositions over one base whose texts differ.
struct Two {
  std::shared_ptr<const StagedComposition> a, b;
};
Two StageTwo(ComputeMode mode) {
  const auto base = OpenTiny();
  Stack other(base);
  other.LowRank("model.layers.0.mlp.up_proj", 4, 3).Rescale("model.layers.0.mlp.down_proj", Scales::kInput).LowRank("lm_head", 4, 3);
  return {Stack(base).Stage(mode), other.Stage(mode)};
}

TEST_CASE("active composition: publishing gives back the previous one, which lives as long as somebody holds it") {
  Two two = StageTwo(ComputeMode::kFast);
  const std::weak_ptr<const StagedComposition> old = two.a;
  const auto* b = two.b.get();
  ActiveComposition active(std::move(two.a));
  auto holder = active.Current();
  CHECK(holder == old.lock());
  CHECK(active.Publish(std::move(two.b)) == holder);
  CHECK(active.Current().get() == b);
  CHECK_FALSE(old.expired());
  holder.reset();
  CHECK(old.expired());
}

TEST_CASE("active composition: a decode begun under the replaced one ends with E616 and its text so far is that composition's") {
  const Two two = StageTwo(ComputeMode::kExact);
  const std::vector<TokenId> alone = DecodeAlone(two.a);
  ActiveComposition active(two.a);
  const auto decoder = MakeDecoder(active.Current());
  std::uint32_t asked = 0;
  const CancelCheck check = active.AbortWhenReplaced(decoder->composition());
  decoder->SetCancelCheck([&] {
    if (++asked == 12) (void)active.Publish(two.b);
    return check();
  });
  Generated made;
  const Status status = Generate(*decoder, nullptr, kPrompt, Greedy(), {}, made);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == Code::COMPOSITION_CHANGED);
  CHECK(status.error().detail.find(two.a->id().Text()) != std::string::npos);
  REQUIRE_FALSE(made.tokens.empty());
  CHECK(made.tokens.size() < alone.size());
  CHECK(std::equal(made.tokens.begin(), made.tokens.end(), alone.begin()));
}

// The run that TSan watches: decodes on two threads with two workers each, while a third switches to and fro.
TEST_CASE("active composition: with switches while decoding, every decode is wholly of one composition or ends with E616") {
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    Two two = StageTwo(mode);
    const std::map<const StagedComposition*, std::vector<TokenId>> alone = {{two.a.get(), DecodeAlone(two.a)},
                                                                            {two.b.get(), DecodeAlone(two.b)}};
    REQUIRE(alone.at(two.a.get()) != alone.at(two.b.get()));
    ActiveComposition active(two.a);
    std::atomic<std::uint32_t> whole{0}, aborted{0}, wrong{0}, running{2};
    const auto decode = [&] {
      for (int i = 0; i < 400 && (whole < 8 || aborted < 8); ++i) {
        const auto mine = active.Current();
        const auto decoder = MakeDecoder(mine, {.threads = 2});
        decoder->SetCancelCheck(active.AbortWhenReplaced(*mine));
        Generated made;
        const Status status = Generate(*decoder, nullptr, kPrompt, Greedy(), {}, made);
        const std::vector<TokenId>& expected = alone.at(mine.get());
        const bool is_prefix = std::equal(made.tokens.begin(), made.tokens.end(), expected.begin());
        if (status && made.tokens == expected) {
          ++whole;
        } else if (!status && status.error().code == Code::COMPOSITION_CHANGED && is_prefix) {
          ++aborted;
        } else {
          ++wrong;
        }
      }
      --running;
    };
    std::thread first(decode), second(decode);
    for (std::uint32_t i = 0; running > 0; ++i) {
      (void)active.Publish(i % 2 == 0 ? two.b : two.a);
      if (i % 8 < 7) {
        std::this_thread::sleep_for(std::chrono::microseconds(100U << (i % 8)));
        continue;
      }
      const std::uint32_t seen = whole;  // now and then a decode may finish, however slow the machine is
      while (whole == seen && running > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    first.join();
    second.join();
    CHECK(wrong == 0);
    CHECK(whole > 0);
    CHECK(aborted > 0);
  }
}

}  // namespace
}  // namespace veneer
