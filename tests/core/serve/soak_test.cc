// Ten thousand switches in one process: nothing grows, nothing drifts. VENEER_SOAK_SWITCHES sets another number.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/core/serve/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/vectors.h"

namespace veneer {
namespace {

std::size_t Descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += entry.path().empty() ? 0U : 1U;
  return count;
}

std::size_t Mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

std::uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint32_t SwitchCount() {
  const char* text = std::getenv("VENEER_SOAK_SWITCHES");
  if (text != nullptr) return static_cast<std::uint32_t>(std::stoul(text));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 300;  // what they find does not need more, and they keep freed memory
#else
  return 10'000;
#endif
}

// What a process that does nothing else says: logits [n, vocab].
std::vector<float> FreshProcess(const TinyFiles& files, const std::vector<std::string>& adapters) {
  std::string tokens;
  for (const TokenId token : SomePrompt()) tokens += (tokens.empty() ? "" : ",") + std::to_string(token);
  const std::string out = (files.dir.path() / "fresh.npy").string();
  std::vector<std::string> line = {"logits", "--base", files.base.string(), "--tokens", tokens, "--out", out, "--compute", "exact"};
  for (const std::string& adapter : adapters) {
    line.emplace_back("--adapter");
    line.push_back((files.dir.path() / adapter).string());
  }
  const ProcessResult result = Veneer(line);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return ReadNpy(out).values;
}

TEST_CASE("soak: after each of ten thousand switches the logits are a fresh process's, and memory, descriptors and mappings stay flat") {
  const TinyFiles files;
  const Digest digest = Sha256::Of(::ReadAll(files.base));
  const std::vector<std::vector<std::string>> stacks = {{}, {"style"}, {"scales", "safety=0.5"}, {"scales", "style", "safety"}};
  struct Known {
    BoundComposition Bound() const { return Must(Bind(validated, Plugins(), {.mode = ComputeMode::kExact})); }
    ValidatedComposition validated;
    std::vector<float> logits;
  };
  PathSource first = files.Source({});
  const auto base = Must(Base::Open(Must(first.OpenBase(first.manifest().base_model_hash, std::nullopt))));
  // One mapping of the base for all.
  struct SharedBase final : ArtifactSource {
    SharedBase(PathSource& source, std::shared_ptr<const Base> shared) : inner(&source), held(std::move(shared)) {}
    Result<BaseFiles> OpenBase(const Digest& hash, const std::optional<Digest>& tokenizer) override {
      return inner->OpenBase(hash, tokenizer);
    }
    std::shared_ptr<const Base> HeldBase(const Digest&) override { return held; }
    Result<AdapterBlobs> OpenAdapter(const AuthoredAdapter& entry) override { return inner->OpenAdapter(entry); }
    PathSource* inner;
    std::shared_ptr<const Base> held;
  };
  std::vector<Known> known;
  for (const auto& adapters : stacks) {
    PathSource source = files.Source(adapters);
    SharedBase shared(source, base);
    known.push_back({Must(SealAndValidate(source.manifest(), shared, Plugins())), FreshProcess(files, adapters)});
  }
  for (std::size_t i = 1; i < known.size(); ++i) REQUIRE(known[i].logits != known[i - 1].logits);

  constexpr std::array kPolicies{SwitchPolicy::kAbort, SwitchPolicy::kKeep, SwitchPolicy::kReject, SwitchPolicy::kDrain};
  const std::uint32_t switches = SwitchCount(), settled = switches / 10;
  ActiveComposition active(nullptr);
  std::weak_ptr<const StagedComposition> before;
  [[maybe_unused]] std::uint64_t resident = 0;  // sanitizers keep what is freed
  [[maybe_unused]] std::size_t mappings = 0;
  std::size_t descriptors = 0, wrong = 0, kept = 0;
  for (std::uint32_t i = 0; i < switches; ++i) {
    const Known& next = known[(i + i / 7) % known.size()];  // every order of two, and now and then the same again
    auto staged = Must(next.Bound().Stage());
    before = active.Current();
    (void)Must(active.Switch(std::move(staged), kPolicies[i % kPolicies.size()]));
    kept += before.expired() ? 0 : 1;
    {
      const ActiveDecode decode = Must(BeginDecode(active, {.context = 32, .max_batch = 8}));
      wrong += LogitsOf(*decode.decoder) == next.logits ? 0 : 1;
    }
    if (i + 1 == settled) {
      resident = ResidentBytes();
      descriptors = Descriptors();
      mappings = Mappings();
    }
  }
  CHECK(wrong == 0);
  CHECK(kept == 0);
  CHECK(Descriptors() == descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(Mappings() <= mappings + 2);  // the allocator's
  CHECK(ResidentBytes() <= resident + (1 << 20));
#endif
  CHECK(Sha256::Of(::ReadAll(files.base)) == digest);
  CHECK(base->CheckUnchanged(digest));
}

}  // namespace
}  // namespace veneer
