#include "core/bench/store_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/base/temporary_folder.h"
#include "core/store/lock.h"
#include "core/store/posix_sys.h"
#include "core/store/recovery.h"
#include "core/store/store.h"

namespace veneer {
namespace {

using Clock = BenchClock;

constexpr std::uint32_t kSettleMs = 2100;  // a stamp on a file that is younger proves nothing
constexpr std::uint64_t kDeadBlobs = 50;

// For making a store with many generations, whose making is not what is measured.
class UnsyncedSys final : public CountingSys {
 public:
  using CountingSys::CountingSys;
  SysStatus Fsync(int) override { return {}; }
};

// Compositions over files of random bytes: a base and tokenizer for all, an adapter each. The store knows no more of files than that.
class Material {
 public:
  static Result<Material> Import(Sys& sys, Store& store, std::uint64_t base_bytes) {
    Material made;
    std::string base(base_bytes, '\0');
    for (std::size_t start = 0; start < base.size(); start += 256) {  // getrandom gives so much at once
      const std::size_t n = std::min<std::size_t>(256, base.size() - start);
      if (!sys.Random(std::as_writable_bytes(std::span(base).subspan(start, n)))) return Fail(Code::IO, "getrandom", "no random bytes");
    }
    const auto start = Clock::now();
    VENEER_ASSIGN(const Digest base_digest, store.PutBlob(base));
    made.import_ms = MsSince(start);
    for (int i = 0; i < 2; ++i) {
      Composition composition;
      composition.base_model_hash = base_digest;
      composition.base_model_size = base.size();
      composition.base_format = "gguf";
      composition.tokenizer_id = "bench";
      VENEER_ASSIGN(composition.tokenizer_hash, store.PutBlob("tokenizer"));
      composition.tokenizer_size = 9;
      composition.quantization = {"q4_0", "symmetric", 32};
      composition.runtime_name = "veneer";
      composition.runtime_version = "1";
      composition.tied_weights = "separate";
      AdapterEntry adapter;
      adapter.name = "bench";
      adapter.kind = "bench";
      adapter.format = "safetensors";
      const std::string bytes = fmt::format("adapter {}", i);
      VENEER_ASSIGN(adapter.file_hash, store.PutBlob(bytes));
      adapter.file_size = bytes.size();
      adapter.rank = 8;
      adapter.target_layers = {"model.layers.0.mlp.up_proj"};
      VENEER_ASSIGN(adapter.merge_weight, Decimal::FromAuthored("1", ""));
      composition.adapters = {std::move(adapter)};
      made.composition_bytes = composition.Canonical().size();
      VENEER_ASSIGN(made.ids.emplace_back(), store.PutBlob(composition.Canonical()));
    }
    return made;
  }

  std::vector<Digest> ids;
  std::uint64_t composition_bytes = 0;
  double import_ms = 0;
};

Status MeasureActivation(CountingSys& sys, Store& store, const std::vector<Digest>& ids, std::uint64_t runs, StoreBenchReport& report) {
  sys.SleepMs(kSettleMs);
  for (const Digest& id : ids) VENEER_TRY(store.OpenComposition(id));  // leaves the stamps
  std::vector<double> whole, commit;
  for (std::uint64_t run = 0; run < runs; ++run) {
    Clock::time_point staging;
    SwitchOptions options;
    options.transitions = [&staging](const Transition& transition) {
      if (transition.state == ActivationState::kStaging) staging = Clock::now();
    };
    sys.Reset();
    const auto start = Clock::now();
    VENEER_TRY(store.Activate(ids[run % ids.size()], std::nullopt, options));
    whole.push_back(MsSince(start));
    commit.push_back(MsSince(staging));
    if (sys.counts().calls > report.activation_counts.calls) report.activation_counts = sys.counts();
  }
  report.activation = QuantilesOf(std::move(whole));
  report.commit = QuantilesOf(std::move(commit));
  return {};
}

// Each time: a begin without an end, as a kill leaves it, and the recovery that a writer makes of it.
Status MeasureRecovery(CountingSys& sys, const std::string& path, std::uint64_t runs, StoreBenchReport& report) {
  VENEER_ASSIGN(const StoreContext context, OpenLayout(sys, path, {}));
  std::vector<double> ms;
  for (std::uint64_t run = 0; run < runs; ++run) {
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(context));
    VENEER_ASSIGN(AuditLog log, AuditLog::OpenLast(context));
    VENEER_ASSIGN(const std::string tx, RandomHex(sys, 16));
    VENEER_TRY(log.Append(context, "begin", {{"tx", CanonicalString(tx)}}));
    sys.Reset();
    const auto start = Clock::now();
    VENEER_TRY(Recover(context));
    ms.push_back(MsSince(start));
    if (sys.counts().calls > report.recovery_counts.calls) report.recovery_counts = sys.counts();
  }
  report.recovery = QuantilesOf(std::move(ms));
  return {};
}

Status MeasureGc(Store& store, StoreBenchReport& report) {
  std::vector<StagedBlob> dead;
  for (std::uint64_t i = 0; i < kDeadBlobs; ++i) {
    VENEER_ASSIGN(StagedBlob blob, store.StageBytes(fmt::format("dead {}", i)));
    dead.push_back(std::move(blob));
  }
  VENEER_TRY(store.Import(dead));
  dead.clear();
  const auto start = Clock::now();
  VENEER_ASSIGN(const GcReport collected, store.CollectGarbage({.grace = std::chrono::seconds(0)}));
  report.gc_ms = MsSince(start);
  report.gc_blobs = collected.deleted;
  return {};
}

}  // namespace

Result<StoreBenchReport> BenchStore(const StoreBenchOptions& options) {
  StoreBenchReport report;
  VENEER_ASSIGN(const TemporaryFolder scratch, TemporaryFolder::Make(options.directory, "bench"));
  const std::string fresh = (scratch.path() / "store").string(), old = (scratch.path() / "old").string();
  PosixSys posix;
  {
    CountingSys sys(posix);
    VENEER_ASSIGN(Store store, Store::Init(sys, fresh));
    VENEER_ASSIGN(const Material material, Material::Import(sys, store, options.base_bytes));
    report.import_mib_per_s = static_cast<double>(options.base_bytes) / (1 << 20) / (material.import_ms / 1000);
    report.composition_bytes = material.composition_bytes;
    VENEER_TRY(MeasureActivation(sys, store, material.ids, options.runs, report));
    VENEER_TRY(MeasureGc(store, report));
  }
  {
    UnsyncedSys quick(posix);
    VENEER_ASSIGN(Store store, Store::Init(quick, old));
    VENEER_ASSIGN(const Material material, Material::Import(quick, store, 1 << 10));
    for (std::uint64_t generation = 2; generation <= options.generations; ++generation)
      VENEER_TRY(store.Activate(material.ids[generation % 2], std::nullopt, {}));
    CountingSys sys(posix);
    VENEER_TRY(MeasureRecovery(sys, old, options.runs, report));
  }
  return report;
}

}  // namespace veneer
