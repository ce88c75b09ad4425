#include "core/serve/served_store.h"

#include <memory>
#include <thread>

#include "core/decode/plan.h"
#include "tests/core/serve/fixture.h"
#include "tests/support/catch.h"

namespace veneer {
namespace {

using namespace std::chrono_literals;

std::vector<float> LogitsNow(ServedStore& served) {
  const ActiveDecode decode = Must(BeginDecode(served.active(), {}));
  return LogitsOf(*decode.decoder);
}

Code CodeOf(const Result<bool>& adopted) { return adopted ? Code::INTERNAL : adopted.error().code; }

// With `plain` in force; a switch is refused while a decode is in flight.
std::unique_ptr<ServedStore> ServeUnderReject(TinyStore& tiny) {
  (void)tiny.Activate(tiny.plain);
  ServeOptions options = Exact();
  options.policy = SwitchPolicy::kReject;
  return Must(ServedStore::Open(tiny.store, Plugins(), options));
}

void WriteOver(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::permissions(path, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  ::WriteAll(path, bytes);
  std::filesystem::permissions(path, std::filesystem::perms::owner_write, std::filesystem::perm_options::remove);
}

TEST_CASE("serve: each generation is decoded as its files decode alone, and compositions over one base share its mapping") {
  TinyStore tiny;
  const auto served = Must(ServedStore::Open(tiny.store, Plugins(), Exact()));
  CHECK_FALSE(served->status().served);
  CHECK(served->active().Begin().error().code == Code::NO_ACTIVE);
  const Base* base = nullptr;
  std::uint64_t generation = 1;
  const std::vector<std::pair<Digest, std::vector<std::string>>> stacks = {{tiny.plain, {}},
                                                                           {tiny.style, {"style"}},
                                                                           {tiny.safety, {"safety=0.5"}},
                                                                           {tiny.all, {"scales", "style", "safety"}},
                                                                           {tiny.plain, {}}};
  for (const auto& [id, adapters] : stacks) {
    CHECK(tiny.Activate(id) == ++generation);
    CHECK(served->status().served_generation == generation - 1);
    CHECK(Must(served->Adopt()));
    CHECK_FALSE(Must(served->Adopt()));
    CHECK(served->status().served == id);
    CHECK(served->status().served_generation == generation);
    CHECK(LogitsNow(*served) == LogitsAlone(tiny.Alone(adapters)));
    if (base == nullptr) base = &served->active().Current()->base();
    CHECK(&served->active().Current()->base() == base);
    CHECK(served->GenerationOf(*served->active().Current()) == generation);
  }
}

TEST_CASE("serve: a failed adoption leaves the composition in force and its decodes alone, says why, and is made up for later") {
  TinyStore tiny;
  (void)tiny.Activate(tiny.plain);
  const auto served = Must(ServedStore::Open(tiny.store, Plugins(), Exact()));
  const std::vector<float> plain = LogitsNow(*served);
  const ActiveDecode running = Must(BeginDecode(served->active(), {}));
  (void)tiny.Activate(tiny.style);
  const auto blob = tiny.Blob(Sha256::Of(::ReadAll(tiny.files.dir.path() / "style/adapter_model.safetensors")));
  const std::string good = ::ReadAll(blob);
  std::string bad = good;
  bad[bad.size() - 2] ^= 4;
  WriteOver(blob, bad);
  for (int i = 0; i < 2; ++i) {
    CHECK(CodeOf(served->Adopt()) == Code::HASH_MISMATCH);
    const ServingStatus status = served->status();
    CHECK(status.served == tiny.plain);
    CHECK(status.served_generation == 2);
    CHECK(status.wanted == tiny.style);
    CHECK(status.wanted_generation == 3);
    REQUIRE(status.error);
    CHECK(status.error->at == "/adapters/0/file_hash");
    CHECK(LogitsNow(*served) == plain);
  }
  CHECK(LogitsOf(*running.decoder) == plain);
  WriteOver(blob, good);
  CHECK(Must(served->Adopt()));
  CHECK_FALSE(served->status().error);
  CHECK(LogitsNow(*served) == LogitsAlone(tiny.Alone({"style"})));
}

TEST_CASE("serve: a pointer that cannot be read changes nothing here, and a return to what is served clears the error") {
  TinyStore tiny;
  (void)tiny.Activate(tiny.plain);
  const auto served = Must(ServedStore::Open(tiny.store, Plugins(), Exact()));
  const std::filesystem::path pointer = tiny.path() + "/veneer/state/CURRENT";
  const std::string good = ::ReadAll(pointer);
  ::WriteAll(pointer, "garbage");
  CHECK(CodeOf(served->Adopt()) == Code::STATE_CORRUPT);
  CHECK(served->status().served == tiny.plain);
  CHECK(served->status().error);
  ::WriteAll(pointer, good);
  CHECK_FALSE(Must(served->Adopt()));
  CHECK_FALSE(served->status().error);
}

TEST_CASE("serve: what does not fit the budget beside the composition in force is E501, before anything of it is staged") {
  TinyStore tiny;
  (void)tiny.Activate(tiny.plain);
  ServeOptions options = Exact();
  options.memory_budget = ProcessBytes() + (64 << 20);
  const auto served = Must(ServedStore::Open(tiny.store, Plugins(), options));
  auto lease = Must(served->active().Begin());
  REQUIRE(lease.Reserve(40 << 20));
  (void)tiny.Activate(tiny.style);
  CHECK(Must(served->Adopt()));                                                                 // decodes of the old composition end
  CHECK(Must(served->active().Begin()).Reserve(50 << 20).error().code == Code::MEMORY_BUDGET);  // which have not yet

  options.policy = SwitchPolicy::kKeep;
  options.memory_budget = ProcessBytes() + (24 << 20);
  const auto keeping = Must(ServedStore::Open(tiny.store, Plugins(), options));
  auto kept = Must(keeping->active().Begin());
  REQUIRE(kept.Reserve(20 << 20));
  (void)tiny.Activate(tiny.all);
  options.decoder.context = 128;
  const std::uint64_t held = keeping->active().Holds().composition_bytes;
  const auto adopted = keeping->Adopt();
  INFO((adopted ? std::string("adopted") : adopted.error().Text()));
  CHECK(adopted);
  CHECK(keeping->active().Holds().composition_bytes > held);  // both
  REQUIRE(kept.Reserve(1 << 20));
  (void)tiny.Activate(tiny.safety);
  auto filling = Must(keeping->active().Begin());
  while (filling.Reserve(64 << 10)) {
  }
  CHECK(CodeOf(keeping->Adopt()) == Code::MEMORY_BUDGET);
  CHECK(keeping->status().served == tiny.all);
}

TEST_CASE("serve: under reject an adoption waits for the decodes to end, with what it has staged") {
  TinyStore tiny;
  const auto served = ServeUnderReject(tiny);
  {
    const auto lease = Must(served->active().Begin());
    (void)tiny.Activate(tiny.style);
    CHECK(CodeOf(served->Adopt()) == Code::BUSY);
    CHECK(served->status().wanted_generation == 3);
    CHECK(served->status().served == tiny.plain);
    // A file that is lost now does not matter: it was read.
    WriteOver(tiny.Blob(Sha256::Of(::ReadAll(tiny.files.base))), ::ReadAll(tiny.files.base));
  }
  CHECK(Must(served->Adopt()));
  CHECK(served->status().served == tiny.style);
}

TEST_CASE("serve: what was staged for a generation that is gone again is never served") {
  TinyStore tiny;
  const auto served = ServeUnderReject(tiny);
  {
    const auto lease = Must(served->active().Begin());
    (void)tiny.Activate(tiny.style);
    CHECK(CodeOf(served->Adopt()) == Code::BUSY);
    (void)tiny.Activate(tiny.safety);
  }
  CHECK(Must(served->Adopt()));
  CHECK(served->status().served == tiny.safety);
  CHECK(served->active().Current()->id() == tiny.safety);
  CHECK(LogitsNow(*served) == LogitsAlone(tiny.Alone({"safety=0.5"})));
}

TEST_CASE("serve: a base that was damaged and stored again is mapped afresh by the next adoption") {
  TinyStore tiny;
  (void)tiny.Activate(tiny.plain);
  const auto served = Must(ServedStore::Open(tiny.store, Plugins(), Exact()));
  const std::vector<float> plain = LogitsNow(*served);
  const auto blob = tiny.Blob(Sha256::Of(::ReadAll(tiny.files.base)));
  std::this_thread::sleep_for(15ms);
  WriteOver(blob, std::string(::ReadAll(blob).size(), '\0'));
  {
    const ActiveDecode decode = Must(BeginDecode(served->active(), {}));
    const Status fed = decode.decoder->Feed(SomePrompt(), false, [](std::size_t, std::span<const float>) -> Status { return {}; });
    REQUIRE_FALSE(fed);
    CHECK(fed.error().code == Code::BLOB_CHANGED);
    CHECK(decode.decoder->cache().position() == 0);
  }
  (void)Must(tiny.store.PutBlob(Must(OpenRegular(tiny.files.base)), "tiny.gguf"));  // import repairs
  (void)tiny.Activate(tiny.style);
  CHECK(Must(served->Adopt()));
  CHECK(LogitsNow(*served) == LogitsAlone(tiny.Alone({"style"})));
  (void)tiny.Activate(tiny.plain);
  CHECK(Must(served->Adopt()));
  CHECK(LogitsNow(*served) == plain);
}

TEST_CASE("serve: a follower adopts what others activate, retries what failed, and stops when asked") {
  TinyStore tiny;
  const auto served = ServeUnderReject(tiny);
  std::atomic<int> reports{0};
  std::jthread follower([&](const std::stop_token& stop) { served->Follow(stop, [&](const ServingStatus&) { ++reports; }); });
  const auto comes = [&](const Digest& id) {
    for (int i = 0; i < 5000 && served->status().served != id; ++i) std::this_thread::sleep_for(2ms);
    return served->status().served == id;
  };
  (void)tiny.Activate(tiny.style);
  CHECK(comes(tiny.style));
  {
    const auto lease = Must(served->active().Begin());
    (void)tiny.Activate(tiny.safety);
    for (int i = 0; i < 5000 && !served->status().error; ++i) std::this_thread::sleep_for(2ms);
    REQUIRE(served->status().error);
    CHECK(served->status().error->code == Code::BUSY);
  }
  CHECK(comes(tiny.safety));
  CHECK(LogitsNow(*served) == LogitsAlone(tiny.Alone({"safety=0.5"})));
  CHECK(reports >= 3);
  const auto start = std::chrono::steady_clock::now();
  follower.request_stop();
  follower.join();
  CHECK(std::chrono::steady_clock::now() - start < 2s);
}

}  // namespace
}  // namespace veneer
