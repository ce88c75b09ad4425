#include "tests/core/store/faults/operations.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>

#include "tests/core/store/faults/cases.h"
#include "tests/core/store/fixture.h"
#include "tests/support/sim_disk.h"

using namespace veneer;

namespace {

constexpr std::int64_t kTenSecondsNs = 10'000'000'000;  // long enough after a change for a stamp to be trusted
constexpr const char* kIncoming = "incoming";           // the file that import reads, beside the store
const std::string kNewBytes = "veneer test adapter 2, not in the store yet\n";

const std::string kDamagedHex = Sha256::Of("the bytes it should have").Hex();

std::string RefRecord(const std::string& bytes) { return fmt::format(R"({{"file":"{}"}})", Sha256::Of(bytes).Text()); }

SwitchOptions Reporting(Ack& ack) {
  SwitchOptions options;
  options.transitions = [&ack](const Transition& transition) {
    if (transition.state == ActivationState::kCommitted) ack = Ack::kDone;
    if (transition.state == ActivationState::kAborted) ack = Ack::kRefused;
  };
  return options;
}

template <class T>
Status Forget(Result<T> result) {
  if (!result) return Fail(std::move(result).error());
  return {};
}

// An operation on an open store.
auto OnStore(std::function<Status(Store&, Ack&)> body) {
  return [body = std::move(body)](Sys& sys) -> Running {
    auto store = std::make_shared<Store>(Must(OpenStore(sys)));
    return [store, body](Ack& ack) { return body(*store, ack); };
  };
}

Running StartImport(Sys& sys) {
  auto store = std::make_shared<Store>(Must(OpenStore(sys)));
  auto root = std::make_shared<UniqueFd>(*sys.OpenRoot("."));
  const std::optional<Ref> ref = Ref{RefKind::kAdapter, "new", RefRecord(kNewBytes)};
  return [store, root, ref, &sys](Ack&) -> Status {
    auto source = sys.Open(root->get(), kIncoming, OpenMode::kRead, 0);
    if (!source) return Fail(IoError(source.error(), kIncoming, "open"));
    VENEER_ASSIGN(const StagedBlob blob, store->StageFile(*source, kIncoming));
    return Forget(store->Import({&blob, 1}, ref));
  };
}

Running StartInit(Sys& sys) {
  return [&sys](Ack&) { return Forget(Store::Init(sys, kStore, {std::chrono::milliseconds(200), "test"})); };
}

// What is left when this stops, as a killed process does, at the n-th call with this trace line.
SimImage StoppedAt(SimImage image, const std::string& line, int nth, const std::function<void(Store&)>& body) {
  SimDisk disk(std::move(image));
  SimSys sys(disk);
  {
    Store store = Must(OpenStore(sys));
    sys.before_call = [&](const std::string& called) {
      if (called == line && --nth == 0) sys.StopAt(sys.calls());
    };
    body(store);
  }
  sys.before_call = {};
  if (nth > 0) throw std::logic_error("never calls " + line);
  return disk.image();
}

SimImage ActivationStoppedAt(const std::string& line, int nth = 1) {
  return StoppedAt(UsedStore(), line, nth, [](Store& store) { (void)store.Activate(IdOfB(), std::nullopt, {}); });
}

// A composition of both adapters has just got its name in blobs/, and its importer died before that was durable.
SimImage HalfImported() {
  return StoppedAt(UsedStore(), "fsync blobs/sha256", 1, [](Store& store) { (void)store.PutBlob(CompositionText({"style", "safety"})); });
}

// A crash before the commit point, a torn end of the log, a bad blob that nothing needs, and a view that a foreign tool tore.
SimImage Damaged() {
  SimImage image = ActivationStoppedAt("rename veneer/state/CURRENT");
  image.SyncAll();
  const std::string segment = fmt::format("{}/veneer/audit/seg-1", kStore);
  image.Write(segment, *image.Read(segment) + "0123 deadbeef {\"torn");
  image.Write(fmt::format("{}/index.json", kStore), "{");
  image.Write(fmt::format("{}/veneer/staging/{}", kStore, std::string(32, 'a')), "left");
  image.Write(fmt::format("{}/blobs/sha256/{}", kStore, kDamagedHex), "other bytes", kBlobPermissions);
  image.wall_ns -= 2 * kTenSecondsNs;  // a clock that was set back changes nothing, and stamps would not be trusted: none are written
  return image;
}

SimImage WithTornLog() {
  SimImage image = UsedStore();
  const std::string segment = fmt::format("{}/veneer/audit/seg-1", kStore);
  image.Write(segment, *image.Read(segment) + "0123 deadbeef {\"torn");
  return image;
}

SimImage WithIncoming(SimImage image) {
  image.Write(kIncoming, kNewBytes);
  return image;
}

SimImage WithBadBlob(SimImage image) {
  image.Write(fmt::format("{}/blobs/sha256/{}", kStore, Sha256::Of(kNewBytes).Hex()), std::string(kNewBytes.size(), '?'), kBlobPermissions);
  return image;
}

SimImage Imported(SimImage image) {
  SimDisk disk(std::move(image));
  Ack ack = Ack::kNone;
  Must(StartImport(disk)(ack));
  SimImage imported = disk.image();
  imported.SyncAll();
  return imported;
}

// With blobs that nothing needs.
SimImage WithGarbage(SimImage image, const std::vector<std::string>& garbage) {
  SimDisk disk(std::move(image));
  {
    Store store = Must(OpenStore(disk));
    for (const std::string& bytes : garbage) Must(store.PutBlob(bytes));
  }
  return disk.image();
}

// One of them in trash/ since a collection, another still in blobs/.
SimImage HalfCollected(SimImage image) {
  SimDisk disk(WithGarbage(std::move(image), {"garbage of old\n"}));
  if (Must(Must(OpenStore(disk)).CollectGarbage({})).moved == 0) throw std::logic_error("nothing to collect");
  return WithGarbage(disk.image(), {CompositionText({"style", "safety"})});
}

Status Repair(Store& store, bool full) {
  VENEER_ASSIGN(const FsckReport report, store.Fsck({full, true, {}}));
  if (report.problems_left()) return Fail(Code::STATE_CORRUPT, "", Text(report));
  return {};
}

std::vector<Operation> MakeOperations() {
  const auto activate_a = OnStore([](Store& s, Ack& ack) { return Forget(s.Activate(IdOfA(), std::nullopt, Reporting(ack))); });
  const auto activate_b = OnStore([](Store& s, Ack& ack) { return Forget(s.Activate(IdOfB(), std::nullopt, Reporting(ack))); });
  const auto roll_back = OnStore([](Store& s, Ack& ack) { return Forget(s.Rollback(std::nullopt, Reporting(ack))); });
  const auto deactivate = OnStore([](Store& s, Ack& ack) { return Forget(s.Deactivate(Reporting(ack))); });
  const auto repair = OnStore([](Store& s, Ack&) { return Repair(s, true); });
  const auto recover = OnStore([](Store& s, Ack&) { return Repair(s, false); });
  const Digest both = Sha256::Of(CompositionText({"style", "safety"}));
  const std::string both_record = fmt::format(R"({{"file":"{}"}})", both.Text());
  const auto activate_both = OnStore([both](Store& s, Ack& ack) { return Forget(s.Activate(both, std::nullopt, Reporting(ack))); });
  const auto name_both = OnStore([name = Ref{RefKind::kAdapter, "new", both_record}](Store& s, Ack&) { return s.PutRef(name); });
  const auto remove_ref = OnStore([](Store& s, Ack&) {
    std::vector<std::string> warnings;
    return Forget(s.RemoveRef(RefKind::kAdapter, "new", warnings));
  });

  const auto collect = OnStore([](Store& s, Ack&) { return Forget(s.CollectGarbage({})); });
  const auto collect_all = OnStore([](Store& s, Ack&) { return Forget(s.CollectGarbage({.grace = std::chrono::seconds(0)})); });

  const SimImage used = UsedStore(), incoming = WithIncoming(used);
  const Facts empty, made{1, std::nullopt, ""}, now{4, IdOfA(), ""}, named{4, IdOfA(), RefRecord(kNewBytes)};
  const Facts both_active{5, both, ""}, both_named{4, IdOfA(), both_record};
  const Facts b_active{5, IdOfB(), ""}, none_active{5, IdOfNone(), ""}, nothing_active{5, std::nullopt, ""};
  using enum Repeat;
  return {
      {"activate", 148, used, {now, b_active}, kChangesNothing, activate_b},
      {"activate-torn-log", 155, WithTornLog(), {now, b_active}, kChangesNothing, activate_b},
      {"activate-no-change", 63, used, {now, now}, kChangesNothing, activate_a},
      {"rollback", 138, used, {now, none_active}, kGoesOn, roll_back},
      {"deactivate", 82, used, {now, nothing_active}, kChangesNothing, deactivate},
      {"import", 79, incoming, {now, named, false}, kChangesNothing, StartImport},
      {"import-named", 87, incoming, {now, named, false}, kChangesNothing, StartImport, true, false},
      {"import-over-bad", 90, WithBadBlob(incoming), {now, named, false, Sha256::Of(kNewBytes).Hex()}, kChangesNothing, StartImport},
      {"activate-half-imported", 156, HalfImported(), {now, both_active}, kMayFail, activate_both, false},
      {"name-half-imported", 70, HalfImported(), {now, both_named, false}, kChangesNothing, name_both, false},
      {"remove-ref", 68, Imported(incoming), {named, now, false}, kChangesNothing, remove_ref},
      {"init", 168, SimImage(Seed()), {empty, made, false}, kGoesOn, StartInit},
      {"fsck-repair", 382, Damaged(), {now, now, true, kDamagedHex}, kChangesNothing, repair},
      // A crash between steps 10 and 11: the new pointer is visible and not durable.
      {"recovery", 294, ActivationStoppedAt("fsync veneer/state"), {now, b_active, false}, kKeepsWhatIsThere, recover},
      // A crash between the record of the intent and its sync: the record is visible and not durable.
      {"recovery-of-log", 277, ActivationStoppedAt("fsync veneer/audit/seg-1", 2), {now, now, false}, kKeepsWhatIsThere, recover, false},
      {"gc", 120, WithGarbage(used, {"garbage 1\n", "garbage 2\n"}), {now, now}, kChangesNothing, collect},
      {"gc-now", 118, HalfCollected(used), {now, now}, kChangesNothing, collect_all},
  };
}

}  // namespace

Result<Store> OpenStore(Sys& sys) { return Store::Open(sys, kStore, {std::chrono::milliseconds(200), "test"}); }

const Digest& IdOfA() {
  static const Digest id = Sha256::Of(CompositionText({"style"}));
  return id;
}
const Digest& IdOfB() {
  static const Digest id = Sha256::Of(CompositionText({"safety"}));
  return id;
}
const Digest& IdOfNone() {
  static const Digest id = Sha256::Of(CompositionText({}));
  return id;
}

SimImage UsedStore() {
  SimDisk disk{SimImage(Seed())};
  {
    Store store = Must(Store::Init(disk, kStore, {std::chrono::milliseconds(200), "test"}));
    std::vector<StagedBlob> blobs;
    for (const std::string& bytes : {kBaseBytes, kTokenizerBytes, kStyleBytes, kSafetyBytes, kConfigBytes, CompositionText({"style"}),
                                     CompositionText({"safety"}), CompositionText({})})
      blobs.push_back(Must(store.StageBytes(bytes)));
    Must(store.Import(blobs, Ref{RefKind::kComposition, "song", fmt::format(R"({{"composition":"{}"}})", IdOfB().Text())}));
    disk.Advance(kTenSecondsNs);
    for (const Digest& id : {IdOfA(), IdOfNone(), IdOfA()}) Must(store.Activate(id, std::nullopt, {}));
  }
  SimImage image = disk.image();
  image.SyncAll();
  return image;
}

const std::vector<Operation>& Operations() {
  static const std::vector<Operation> operations = MakeOperations();
  return operations;
}

const Operation& FindOperation(const std::string& name) {
  for (const Operation& operation : Operations())
    if (operation.name == name) return operation;
  throw std::invalid_argument("no operation " + name);
}
