#include "core/decode/active_composition.h"

#include <algorithm>
#include <map>
#include <thread>

#include "core/decode/generate.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

using namespace std::chrono_literals;
using StagedPtr = std::shared_ptr<const StagedComposition>;

constexpr std::uint32_t kTokens = 12;
const std::vector<TokenId> kPrompt = {3, 1, 4, 1, 5};

GenerateOptions Greedy() {
  GenerateOptions options;
  options.max_tokens = kTokens;
  options.ignore_end_of_text = true;
  options.sampling.temperature = 0;
  return options;
}

std::vector<TokenId> DecodeAlone(const StagedPtr& composition) {
  Generated made;
  REQUIRE(Generate(*MakeDecoder(composition), nullptr, kPrompt, Greedy(), {}, made));
  return made.tokens;
}

// Two compositions over one base whose texts differ.
struct Two {
  StagedPtr a, b;
};
Two StageTwo(ComputeMode mode) {
  const auto base = OpenTiny();
  Stack other(base);
  other.LowRank("model.layers.0.mlp.up_proj", 4, 3).Rescale("model.layers.0.mlp.down_proj", Scales::kInput).LowRank("lm_head", 4, 3);
  return {Stack(base).Stage(mode), other.Stage(mode)};
}

ActiveComposition::Lease MustBegin(ActiveComposition& active) {
  auto lease = active.Begin();
  if (!lease) throw std::runtime_error(lease.error().Text());
  return *std::move(lease);
}

Code CodeOf(const Result<StagedPtr>& switched) { return switched ? Code::INTERNAL : switched.error().code; }

TEST_CASE("active composition: a switch gives back the previous one, which lives as long as a lease or somebody else holds it") {
  for (const SwitchPolicy policy : {SwitchPolicy::kAbort, SwitchPolicy::kKeep}) {
    Two two = StageTwo(ComputeMode::kFast);
    const std::weak_ptr<const StagedComposition> old = two.a;
    const auto* b = two.b.get();
    ActiveComposition active(std::move(two.a));
    {
      const ActiveComposition::Lease lease = MustBegin(active);
      CHECK(lease.composition() == old.lock());
      auto previous = active.Switch(std::move(two.b), policy);
      REQUIRE(previous);
      CHECK(*previous == old.lock());
      CHECK(active.Current().get() == b);
      *previous = nullptr;
      CHECK_FALSE(old.expired());
    }
    CHECK(old.expired());
  }
}

TEST_CASE("active composition: with nothing active a decode is refused with E605, and a switch to nothing makes it so") {
  const Two two = StageTwo(ComputeMode::kFast);
  ActiveComposition active(nullptr);
  CHECK(active.Begin().error().code == Code::NO_ACTIVE);
  REQUIRE(active.Switch(two.a, SwitchPolicy::kReject));
  CHECK(active.Begin());
  REQUIRE(active.Switch(nullptr, SwitchPolicy::kAbort));
  CHECK(active.Begin().error().code == Code::NO_ACTIVE);
}

TEST_CASE("active composition: abort ends a decode at its next layer with E616, and its text so far is that composition's") {
  const Two two = StageTwo(ComputeMode::kExact);
  const std::vector<TokenId> alone = DecodeAlone(two.a);
  ActiveComposition active(two.a);
  auto decode = BeginDecode(active, {});
  REQUIRE(decode);
  std::uint32_t asked = 0;
  const CancelCheck check = decode->lease.cancel_check();
  decode->decoder->SetCancelCheck([&] {
    if (++asked == 12) CHECK(active.Switch(two.b, SwitchPolicy::kAbort));
    return check();
  });
  Generated made;
  const Status status = Generate(*decode->decoder, nullptr, kPrompt, Greedy(), {}, made);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == Code::COMPOSITION_CHANGED);
  CHECK(status.error().detail.find(two.a->id().Text()) != std::string::npos);
  CHECK(asked == 12);
  REQUIRE_FALSE(made.tokens.empty());
  CHECK(made.tokens.size() < alone.size());
  CHECK(std::equal(made.tokens.begin(), made.tokens.end(), alone.begin()));
}

TEST_CASE("active composition: abort also ends what an earlier keep let go on, and no decode of the new composition") {
  const Two two = StageTwo(ComputeMode::kFast);
  ActiveComposition active(two.a);
  const auto kept = MustBegin(active);
  REQUIRE(active.Switch(two.b, SwitchPolicy::kKeep));
  const auto second = MustBegin(active);
  CHECK_FALSE(kept.cancel_check()());
  REQUIRE(active.Switch(two.a, SwitchPolicy::kAbort));
  const auto third = MustBegin(active);
  CHECK(kept.cancel_check()());
  CHECK(second.cancel_check()());
  CHECK_FALSE(third.cancel_check()());
}

TEST_CASE("active composition: reject refuses with E615 and changes nothing while a decode is in flight, and switches when none is") {
  const Two two = StageTwo(ComputeMode::kFast);
  ActiveComposition active(two.a);
  {
    const auto lease = MustBegin(active);
    CHECK(CodeOf(active.Switch(two.b, SwitchPolicy::kReject)) == Code::BUSY);
    CHECK(active.Current() == two.a);
    CHECK_FALSE(lease.cancel_check()());
  }
  CHECK(active.Switch(two.b, SwitchPolicy::kReject));
  CHECK(active.Current() == two.b);
}

TEST_CASE("active composition: drain waits for the decodes in flight, and those that come meanwhile begin under the new composition") {
  const Two two = StageTwo(ComputeMode::kFast);
  ActiveComposition active(two.a);
  std::optional<ActiveComposition::Lease> lease(MustBegin(active));
  std::atomic<bool> is_switched{false};
  std::thread switching([&] {
    const auto previous = active.Switch(two.b, SwitchPolicy::kDrain);
    is_switched = true;
    if (!previous || *previous != two.a) std::terminate();
  });
  // Once a decode that does not want to wait is refused, the drain is under way.
  for (int i = 0; i < 5000; ++i) {
    auto attempt = active.Begin(0ms);
    if (!attempt) {
      CHECK(attempt.error().code == Code::BUSY);
      break;
    }
    REQUIRE(i < 4999);
    std::this_thread::sleep_for(1ms);
  }
  StagedPtr queued_under;
  std::thread queued([&] { queued_under = MustBegin(active).composition(); });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(is_switched);
  CHECK(active.Current() == two.a);
  CHECK_FALSE(lease->cancel_check()());
  lease.reset();
  switching.join();
  queued.join();
  CHECK(queued_under == two.b);
}

TEST_CASE("active composition: a drain that waits for a paused decode ends with E615 in its time and leaves everything as it was") {
  const Two two = StageTwo(ComputeMode::kFast);
  ActiveComposition active(two.a);
  const auto paused = MustBegin(active);
  const auto start = std::chrono::steady_clock::now();
  CHECK(CodeOf(active.Switch(two.b, SwitchPolicy::kDrain, 30ms)) == Code::BUSY);
  CHECK(std::chrono::steady_clock::now() - start >= 30ms);
  CHECK(active.Current() == two.a);
  CHECK_FALSE(paused.cancel_check()());
  CHECK(MustBegin(active).composition() == two.a);
}

TEST_CASE("active composition: under keep a decode in flight gives the very logits it gives alone, and the next one the new one's") {
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    const Two two = StageTwo(mode);
    const auto tokens = SomeTokens(24, 64);
    ActiveComposition active(two.a);
    auto kept = BeginDecode(active, {});
    REQUIRE(kept);
    const std::size_t half = tokens.size() / 2;
    std::vector<float> logits = LogitsOf(*kept->decoder, {tokens.begin(), tokens.begin() + 12});
    REQUIRE(active.Switch(two.b, SwitchPolicy::kKeep));
    auto next = BeginDecode(active, {});
    REQUIRE(next);
    CHECK(LogitsOf(*next->decoder, tokens, {half}) == LogitsOf(*MakeDecoder(two.b), tokens, {half}));
    const std::vector<float> rest = LogitsOf(*kept->decoder, {tokens.begin() + 12, tokens.end()});
    logits.insert(logits.end(), rest.begin(), rest.end());
    CHECK(logits == LogitsOf(*MakeDecoder(two.a), tokens, {half}));
  }
}

TEST_CASE("active composition: what a held K/V cache knows is there again when its composition is, and never under another one") {
  const Two two = StageTwo(ComputeMode::kExact);
  const auto tokens = SomeTokens(24, 64);
  const std::vector<TokenId> first(tokens.begin(), tokens.begin() + 20), last(tokens.begin() + 20, tokens.end());
  ActiveComposition active(two.a);
  auto held = KvCache::Create(*two.a, MakeDecoder(two.a)->cache().context(), KvType::kF32);
  REQUIRE(held);
  std::vector<float> expected;
  {
    auto decode = BeginDecode(active, {});
    REQUIRE(decode);
    (void)LogitsOf(*decode->decoder, first);
    REQUIRE(decode->decoder->ExchangeCache(*held));
  }
  CHECK(held->position() == 20);
  REQUIRE(active.Switch(two.b, SwitchPolicy::kAbort));
  {
    auto decode = BeginDecode(active, {});
    REQUIRE(decode);
    const Status crossed = decode->decoder->ExchangeCache(*held);
    REQUIRE_FALSE(crossed);
    CHECK(crossed.error().code == Code::COMPOSITION_CHANGED);
  }
  REQUIRE(active.Switch(two.a, SwitchPolicy::kAbort));
  auto decode = BeginDecode(active, {});
  REQUIRE(decode);
  REQUIRE(decode->decoder->ExchangeCache(*held));
  const auto alone = MakeDecoder(two.a);
  (void)LogitsOf(*alone, first);
  CHECK(LogitsOf(*decode->decoder, last) == LogitsOf(*alone, last));  // four tokens fed, not twenty-four
  CHECK(decode->decoder->cache().position() == 24);
}

TEST_CASE("active composition: what it holds counts a shared base once, and each decode's bytes as long as its lease lives") {
  const Two two = StageTwo(ComputeMode::kFast);
  const std::uint64_t base = two.a->base().bytes().size() + two.a->base().overhead_bytes();
  const auto own = [](const StagedPtr& one) { return one->overlay_bytes() + one->constant_bytes(); };
  REQUIRE(own(two.b) > own(two.a));
  ActiveComposition active(two.a);
  CHECK(active.Holds().composition_bytes == base + own(two.a));
  CHECK(active.Holds(&two.a->base()).composition_bytes == own(two.a));
  {
    auto lease = MustBegin(active);
    REQUIRE(lease.Reserve(1000));
    REQUIRE(active.Switch(two.b, SwitchPolicy::kKeep));
    auto second = MustBegin(active);
    REQUIRE(second.Reserve(10));
    CHECK(active.Holds().composition_bytes == base + own(two.a) + own(two.b));
    CHECK(active.Holds().decode_bytes == 1010);
    CHECK(active.Holds().decodes == 2);
  }
  CHECK(active.Holds().composition_bytes == base + own(two.b));
  CHECK(active.Holds().decode_bytes == 0);
  CHECK(active.Holds().decodes == 0);
}

TEST_CASE("active composition: one byte below what both compositions and their decodes take is E501, for keep and for a decode") {
  const Two two = StageTwo(ComputeMode::kFast);
  const std::uint64_t base = two.a->base().bytes().size() + two.a->base().overhead_bytes();
  const std::uint64_t both = base + two.a->overlay_bytes() + two.a->constant_bytes() + two.b->overlay_bytes() + two.b->constant_bytes();
  for (const std::uint64_t missing : {std::uint64_t{0}, std::uint64_t{1}}) {
    CAPTURE(missing);
    ActiveComposition active(two.a, {.budget_bytes = 500 + both + 70 - missing, .process_bytes = 500});
    auto lease = MustBegin(active);
    REQUIRE(lease.Reserve(70));
    const auto kept = active.Switch(two.b, SwitchPolicy::kKeep);
    CHECK(kept.has_value() == (missing == 0));
    if (missing > 0) {
      CHECK(kept.error().code == Code::MEMORY_BUDGET);
      CHECK(active.Current() == two.a);
      CHECK(active.Switch(two.b, SwitchPolicy::kAbort));  // which need not hold both
      continue;
    }
    auto second = MustBegin(active);
    const Status reserved = second.Reserve(1);
    REQUIRE_FALSE(reserved);
    CHECK(reserved.error().code == Code::MEMORY_BUDGET);
  }
}

// The run that TSan watches: decodes on two threads with two workers each, while a third switches to and fro under each policy in turn.
TEST_CASE("active composition: with switches of every policy while decoding, each decode is wholly of one composition or ends with E616") {
  constexpr std::array kPolicies{SwitchPolicy::kAbort, SwitchPolicy::kKeep, SwitchPolicy::kReject, SwitchPolicy::kDrain};
  for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast}) {
    Two two = StageTwo(mode);
    const std::map<const StagedComposition*, std::vector<TokenId>> alone = {{two.a.get(), DecodeAlone(two.a)},
                                                                            {two.b.get(), DecodeAlone(two.b)}};
    REQUIRE(alone.at(two.a.get()) != alone.at(two.b.get()));
    ActiveComposition active(two.a);
    std::atomic<std::uint32_t> whole{0}, aborted{0}, wrong{0}, running{2};
    std::map<SwitchPolicy, std::uint32_t> switched;
    const auto decode = [&] {
      for (int i = 0; i < 400 && (whole < 16 || aborted < 8); ++i) {
        auto mine = BeginDecode(active, {.threads = 2});
        Generated made;
        const Status status = mine ? Generate(*mine->decoder, nullptr, kPrompt, Greedy(), {}, made) : Fail(mine.error());
        const std::vector<TokenId> expected = mine ? alone.at(mine->lease.composition().get()) : std::vector<TokenId>();
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
      const SwitchPolicy policy = kPolicies[i % kPolicies.size()];
      const auto previous = active.Switch(active.Current() == two.a ? two.b : two.a, policy, 10s);
      if (previous) {
        ++switched[policy];
      } else if (policy != SwitchPolicy::kReject || previous.error().code != Code::BUSY) {
        ++wrong;
      }
      if (i % 8 < 7) {
        std::this_thread::sleep_for(std::chrono::microseconds(100U << (i % 8)));
        continue;
      }
      const std::uint32_t seen = whole;  // now and then a decode may finish, however slow the machine is
      while (whole == seen && running > 0) std::this_thread::sleep_for(1ms);
    }
    first.join();
    second.join();
    CHECK(wrong == 0);
    CHECK(whole > 0);
    CHECK(aborted > 0);
    CHECK(switched[SwitchPolicy::kAbort] > 0);
    CHECK(switched[SwitchPolicy::kKeep] > 0);
    CHECK(switched[SwitchPolicy::kDrain] > 0);
    CHECK(active.Holds().decodes == 0);
  }
}

}  // namespace
}  // namespace veneer
