// Memory that is refused at any single allocation of an adoption or of a decode's beginning. This program's operator new counts and
// fails on demand; plugins, which are loaded into it, use it too.
#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>

#include "tests/core/serve/fixture.h"
#include "tests/support/catch.h"

namespace {

thread_local std::int64_t countdown = -1;  // of this thread; at 0 the allocation fails, once
std::atomic<std::int64_t> living{0};       // allocations not yet freed

bool Refuses() { return countdown >= 0 && countdown-- == 0; }

void* Allocate(std::size_t size, std::size_t alignment) {
  if (Refuses()) return nullptr;
  void* const data = alignment <= alignof(std::max_align_t) ? std::malloc(size == 0 ? 1 : size)
                                                            : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (data != nullptr) living.fetch_add(1, std::memory_order_relaxed);
  return data;
}
void* AllocateOrThrow(std::size_t size, std::size_t alignment) {
  void* const data = Allocate(size, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void Release(void* data) noexcept {
  if (data != nullptr) living.fetch_sub(1, std::memory_order_relaxed);
  std::free(data);
}

}  // namespace

void* operator new(std::size_t size) { return AllocateOrThrow(size, 1); }
void* operator new[](std::size_t size) { return AllocateOrThrow(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) { return AllocateOrThrow(size, static_cast<std::size_t>(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return AllocateOrThrow(size, static_cast<std::size_t>(alignment)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void operator delete(void* data) noexcept { Release(data); }
void operator delete[](void* data) noexcept { Release(data); }
void operator delete(void* data, std::size_t) noexcept { Release(data); }
void operator delete[](void* data, std::size_t) noexcept { Release(data); }
void operator delete(void* data, std::align_val_t) noexcept { Release(data); }
void operator delete[](void* data, std::align_val_t) noexcept { Release(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { Release(data); }
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept { Release(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { Release(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { Release(data); }

namespace veneer {
namespace {

// Calls `attempt` with the n-th allocation refused, for every n from 0 until none was, and `check` with what came of it. Returns how
// many allocations there are.
template <class Attempt, class Check>
int RefuseEach(const Attempt& attempt, const Check& check) {
  for (int n = 0;; ++n) {
    countdown = n;
    const auto result = attempt();
    const bool was_refused = countdown < 0;
    countdown = -1;
    check(n, result);
    if (!was_refused) return n;
    if (n > 200'000) throw std::runtime_error("no end of allocations");
  }
}

TEST_CASE("refused memory: at every allocation of an adoption it is E504, leaks nothing, and the decode in flight goes on bit for bit") {
  TinyStore tiny;
  (void)tiny.Activate(tiny.plain);
  const auto served = Must(ServedStore::Open(tiny.store, Plugins(), Exact()));
  const auto alone = LogitsAlone(tiny.Alone({}));
  const ActiveDecode running = Must(BeginDecode(served->active(), {}));
  const std::shared_ptr<const StagedComposition> plain = served->active().Current();
  // Once to and fro, so that the plugins are loaded and every lazy buffer is there.
  ServedStore& mine = *served;
  ServeOptions keep = Exact();
  keep.policy = SwitchPolicy::kKeep;
  const auto keeping = Must(ServedStore::Open(tiny.store, Plugins(), keep));
  const ActiveDecode kept = Must(BeginDecode(keeping->active(), {}));
  (void)tiny.Activate(tiny.all);
  (void)Must(mine.Adopt());
  (void)tiny.Activate(tiny.plain);
  (void)Must(mine.Adopt());
  (void)tiny.Activate(tiny.all);

  int refused = 0, others = 0;
  std::int64_t before = 0;
  const int allocations = RefuseEach(
      [&] {
        before = living.load();
        return keeping->Adopt();
      },
      [&](int n, const Result<bool>& adopted) {
        if (adopted) return;
        ++refused;
        if (adopted.error().code != Code::OUT_OF_MEMORY) {
          ++others;
          WARN("allocation " << n << ": " << adopted.error().Text());
        }
        if (keeping->active().Current()->id() != tiny.plain) throw std::runtime_error("switched in spite of an error");
        if (n % 101 == 0) {
          kept.decoder->cache().Truncate(0);
          if (LogitsOf(*kept.decoder) != alone) throw std::runtime_error("the decode in flight was disturbed");
        }
      });
  CHECK(allocations > 500);
  CHECK(refused > 500);
  CHECK(others == 0);
  CHECK(keeping->status().served == tiny.all);
  CHECK_FALSE(keeping->status().error);
  kept.decoder->cache().Truncate(0);
  CHECK(LogitsOf(*kept.decoder) == alone);
  CHECK(LogitsOf(*Must(BeginDecode(keeping->active(), {})).decoder) == LogitsAlone(tiny.Alone({"scales", "style", "safety"})));
}

TEST_CASE("refused memory: a failed staging gives back all that it took, at whichever allocation it failed") {
  const TinyFiles files;
  const ValidatedComposition validated = files.Validate({"scales", "style", "safety"});
  const auto stage = [&]() -> Result<std::shared_ptr<const StagedComposition>> {
    VENEER_ASSIGN(BoundComposition bound, Bind(validated, Plugins(), {.mode = ComputeMode::kExact}));
    return std::move(bound).Stage();
  };
  (void)Must(stage());
  (void)Must(stage());
  const std::int64_t before = living.load();
  int leaks = 0, others = 0;
  const int allocations = RefuseEach(stage, [&](int n, const auto& staged) {
    if (!staged && staged.error().code != Code::OUT_OF_MEMORY) {
      ++others;
      WARN("allocation " << n << ": " << staged.error().Text());
    }
    const std::int64_t error_text = staged ? 0 : (staged.error().detail.size() > 15) + (staged.error().at.size() > 15);
    if (!staged && living.load() - error_text != before) ++leaks;
  });
  CHECK(allocations > 100);
  CHECK(leaks == 0);
  CHECK(others == 0);
  CHECK(living.load() == before);
}

TEST_CASE("refused memory: at every allocation of a decode's beginning it is E504, and the lease is given back") {
  const TinyFiles files;
  ActiveComposition active(Must(Must(Bind(files.Validate({"style"}), Plugins(), {.mode = ComputeMode::kExact})).Stage()));
  const std::vector<float> alone = LogitsOf(*Must(BeginDecode(active, {})).decoder);
  int others = 0;
  const int allocations = RefuseEach([&] { return BeginDecode(active, {.threads = 2}); },
                                     [&](int n, const Result<ActiveDecode>& begun) {
                                       if (begun) return;
                                       if (begun.error().code != Code::OUT_OF_MEMORY) {
                                         ++others;
                                         WARN("allocation " << n << ": " << begun.error().Text());
                                       }
                                       if (active.Holds().decodes != 0) throw std::runtime_error("a lease was lost");
                                     });
  CHECK(allocations > 50);
  CHECK(others == 0);
  CHECK(LogitsOf(*Must(BeginDecode(active, {})).decoder) == alone);
}

TEST_CASE("refused memory: at every allocation of an activation it is E504 with the old composition active, or E604, and a retry works") {
  if (std::filesystem::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);  // thousands of syncs, none of which matters here
  constexpr int kRunsOfAStore = 40;  // each run is in the store's log, and each writer reads that
  std::optional<TinyStore> tiny;
  int runs = 0, refused = 0, unknown = 0, others = 0, problems = 0;
  const auto renew = [&] {
    if (tiny && Must(tiny->store.Fsck({.full = true, .repair = false, .progress = {}})).problems_left()) ++problems;
    tiny.emplace();
    (void)tiny->Activate(tiny->plain);
  };
  renew();
  const int allocations = RefuseEach(
      [&]() -> Result<Activation> {
        const std::int64_t wanted = countdown;
        countdown = -1;  // opening the store is not what this is about
        if (++runs % kRunsOfAStore == 0) renew();
        Store store = Must(Store::Open(tiny->sys, tiny->path()));
        countdown = wanted;
        return store.Activate(tiny->all, std::nullopt, {});
      },
      [&](int n, const Result<Activation>& done) {
        const Current now = Must(tiny->store.ReadCurrent());
        if (done) {
          if (now.composition != tiny->all) throw std::runtime_error("success, but it is not active");
        } else if (done.error().code == Code::OUT_OF_MEMORY) {
          ++refused;
          if (now.composition != tiny->plain)
            throw std::runtime_error("E504, but something was changed at allocation " + std::to_string(n));
        } else if (done.error().code == Code::DURABILITY_UNKNOWN) {
          ++unknown;
        } else {
          ++others;
          WARN("allocation " << n << ": " << done.error().Text());
        }
        if (now.composition == tiny->all) (void)tiny->Activate(tiny->plain);  // recovers, too
      });
  INFO(allocations << " allocations, E604 at " << unknown);
  CHECK(allocations > 500);
  CHECK(refused > 500);
  CHECK(others == 0);
  CHECK(tiny->Activate(tiny->all) > 2);
  renew();
  CHECK(problems == 0);
}

}  // namespace
}  // namespace veneer
