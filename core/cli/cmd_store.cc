// The store's verbs: init, status, log, fsck, gc, activate, rollback, deactivate, consolidate.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/compose/consolidate.h"
#include "core/compose/store_source.h"

namespace veneer::cli {
namespace {

std::string CompositionText(const std::optional<Digest>& composition) { return composition ? composition->Text() : "none"; }

Result<int> RunInit(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(const Store store, Store::Init(session.sys(), options.store.string()));
  for (const std::string& warning : store.warnings()) Note("warning: " + warning);
  if (options.json) PrintJson({{"store", options.store.string()}});
  PrintOk("init", fmt::format("store={}", options.store.string()), options.json);
  return 0;
}

Result<int> RunStatus(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(const Current current, store->ReadCurrent());
  VENEER_ASSIGN(const GenerationRecord record, store->ReadActiveRecord(current));
  if (session.options().json) {
    PrintJson(
        {{"composition", current.composition ? OutJson(current.composition->Text()) : OutJson()}, {"generation", current.generation}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"store", session.options().store.string()},
                                             {"generation", fmt::format("{}", current.generation)},
                                             {"composition", CompositionText(current.composition)},
                                             {"since", record.time},
                                             {"by", std::string(GenerationOpName(record.op))}};
  if (current.composition) {
    VENEER_ASSIGN(const auto active, store->OpenActive());
    rows.push_back({"base", active.opened.composition.base_model_hash.Text()});
    for (const AdapterEntry& entry : active.opened.composition.adapters)
      rows.push_back({"adapter", fmt::format("{} ({}) strength {}", entry.name, entry.kind, entry.merge_weight.text())});
  }
  Print(Table(rows));
  return 0;
}

Result<int> RunLog(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(const std::vector<AuditRecord> records, store->ReadLog());
  if (session.options().json) {
    std::string list;
    for (const AuditRecord& record : records) list += (list.empty() ? "" : ",") + record.text;  // canonical JSON already
    PrintLine(fmt::format("{{\"records\":[{}]}}", list));
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"TIME", "WHAT", "DETAILS"}};
  for (const AuditRecord& record : records) {
    std::string details;
    for (const auto& [name, value] : record.values)
      if (name != "type" && name != "time" && name != "prev") details += fmt::format("{}{}={}", details.empty() ? "" : " ", name, value);
    rows.push_back({std::string(record.Get("time")), std::string(record.type()), details});
  }
  Print(Table(rows));
  return 0;
}

Result<int> RunFsck(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(Store * store, session.store());
  std::optional<Activation> chosen;
  if (options.set_current) {
    VENEER_ASSIGN(const SwitchOptions checks, session.switch_options());
    VENEER_ASSIGN(chosen, store->SetCurrent(*options.set_current, checks));
  }
  ProgressBar bar("checking");
  VENEER_ASSIGN(const FsckReport report,
                store->Fsck({.full = options.full, .repair = options.repair, .progress = [&bar](auto done, auto total) {
                               bar.Update(done, total);
                             }}));
  const int status = report.problems_left() ? 4 : report.clean() && !chosen ? 0 : 1;
  OutJson findings = OutJson::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"code", finding.code}, {"at", finding.at}, {"detail", finding.detail}, {"repaired", finding.repaired}});
    if (!options.json)
      PrintLine(fmt::format("{} at={} {}{}", finding.code, finding.at, finding.detail, finding.repaired ? " (repaired)" : ""));
  }
  std::string choice;
  if (chosen) {
    choice = fmt::format(" gen={} composition={}", chosen->generation, CompositionText(chosen->composition));
    if (!options.json) PrintLine(fmt::format("generation {} chosen as the active one (repaired)", *options.set_current));
  }
  if (options.json) {
    PrintJson({{"clean", report.clean()},
               {"set_current", chosen ? OutJson(chosen->generation) : OutJson()},
               {"findings", findings},
               {"blobs", report.blobs},
               {"bytes", report.blob_bytes},
               {"verity_blobs", report.verity_blobs},
               {"generations", report.generations}});
  } else {
    PrintLine(fmt::format("{} FSCK{} blobs={} bytes={} generations={} names={} findings={}", status == 4 ? "ERR" : "OK", choice,
                          report.blobs, report.blob_bytes, report.generations, report.refs, report.findings.size()));
  }
  return status;
}

Result<int> RunGc(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(Store * store, session.store());
  std::vector<std::string> warnings;
  for (const std::uint64_t generation : options.keep) {
    VENEER_TRY(store->KeepGeneration(generation, warnings));
    Note(fmt::format("generation {} is kept until --release {}", generation, generation));  // whatever becomes of the collection
  }
  for (const std::uint64_t generation : options.release) {
    VENEER_ASSIGN(const bool released, store->ReleaseGeneration(generation, warnings));
    if (!released) Note(fmt::format("generation {} was not kept", generation));
  }
  GcOptions collection;
  if (options.now) collection.grace = std::chrono::seconds(0);
  VENEER_ASSIGN(const GcReport report, store->CollectGarbage(collection));
  for (const auto& list : {warnings, report.warnings})
    for (const std::string& warning : list) Note("warning: " + warning);
  if (options.json)
    PrintJson({{"live", report.live},
               {"moved", report.moved},
               {"moved_bytes", report.moved_bytes},
               {"deleted", report.deleted},
               {"deleted_bytes", report.deleted_bytes},
               {"in_trash", report.in_trash},
               {"in_trash_bytes", report.in_trash_bytes}});
  PrintOk("gc",
          fmt::format("live={} moved={} moved_bytes={} deleted={} deleted_bytes={} in_trash={} in_trash_bytes={}", report.live,
                      report.moved, report.moved_bytes, report.deleted, report.deleted_bytes, report.in_trash, report.in_trash_bytes),
          options.json);
  return 0;
}

Result<int> RunForget(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  OutJson forgotten = OutJson::array();
  for (std::size_t i = 0; i < session.words(); ++i) {
    const std::string& what = session.word(i);
    const auto [kind, name] = SplitName(what);
    if (!kind) return Fail(Code::USAGE, what, "write adapter/NAME, base/NAME or composition/NAME");
    std::vector<std::string> warnings;
    VENEER_ASSIGN(const bool removed, store->RemoveRef(*kind, name, warnings));
    for (const std::string& warning : warnings) Note("warning: " + warning);
    if (!removed) return Fail(Code::BLOB_MISSING, what, "no such name in the store; `veneer log` shows what got one");
    forgotten.push_back(what);
  }
  if (session.options().json) PrintJson({{"forgotten", forgotten}});
  PrintOk("forget", fmt::format("names={}", forgotten.size()), session.options().json);
  return 0;
}

int Report(Session& session, std::string_view verb, const Activation& done) {
  const bool json = session.options().json;
  for (const std::string& warning : done.warnings) Note("warning: " + warning);
  if (json)
    PrintJson({{"generation", done.generation},
               {"composition", done.composition ? OutJson(done.composition->Text()) : OutJson()},
               {"changed", done.changed}});
  PrintOk(verb,
          fmt::format("gen={} composition={}{}", done.generation, CompositionText(done.composition), done.changed ? "" : " unchanged"),
          json);
  return 0;
}

Result<int> RunActivate(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(SwitchOptions options, session.switch_options());
  VENEER_ASSIGN(const Session::Named named, session.Resolve(session.word(0)));
  Session::PrintNotes(named.validated);
  VENEER_ASSIGN(const Session::Sealed sealed, session.Seal(named));
  options.place = sealed.blobs;
  VENEER_ASSIGN(const Activation done, store->Activate(sealed.composition, sealed.statement, options));
  return Report(session, "activate", done);
}

// What is derived from the active composition replaces that one and no other: E613 when another has become active since it was read.
Status ExpectStill(const Digest& read, SwitchOptions& options) {
  if (options.expect && options.expect->composition != read)
    return Fail(Code::EXPECTED_CURRENT, "veneer/state/CURRENT",
                fmt::format("{} is active, {} was expected; look at `veneer status` and decide again", read.Text(),
                            CompositionText(options.expect->composition)));
  options.expect = ExpectedCurrent{read};
  return {};
}

Result<int> RunRollback(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(const SwitchOptions options, session.switch_options());
  VENEER_ASSIGN(const Activation done, store->Rollback(session.options().to, options));
  return Report(session, "rollback", done);
}

Result<int> RunDeactivate(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(SwitchOptions options, session.switch_options());
  if (session.words() == 0) {
    VENEER_ASSIGN(const Activation done, store->Deactivate(options));
    return Report(session, "deactivate", done);
  }
  const std::string& adapter = session.word(0);
  VENEER_ASSIGN(const auto active, store->OpenActive());
  VENEER_TRY(ExpectStill(active.opened.id, options));
  Composition rest = active.opened.composition;
  if (std::erase_if(rest.adapters, [&adapter](const AdapterEntry& entry) { return entry.name == adapter; }) == 0)
    return Fail(Code::TARGET_UNKNOWN, adapter, "no adapter of that name is active; `veneer status` lists them");
  Statement statement;
  statement.composition = rest.Id();
  statement.timestamp_utc = TimestampNow();
  std::vector<StagedBlob> blobs;
  for (const std::string& bytes : {rest.Canonical(), statement.Canonical()}) {
    VENEER_ASSIGN(StagedBlob blob, store->StageBytes(bytes));
    blobs.push_back(std::move(blob));
  }
  options.place = blobs;
  VENEER_ASSIGN(const Activation done, store->Activate(blobs[0].digest(), blobs[1].digest(), options));
  return Report(session, "deactivate", done);
}

Result<int> RunConsolidate(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  VENEER_ASSIGN(SwitchOptions options, session.switch_options());
  VENEER_ASSIGN(const ValidatedComposition active, session.ActiveComposition());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < session.words(); ++i) names.push_back(session.word(i));
  VENEER_ASSIGN(const auto refs, store->ListRefs(RefKind::kAdapter));
  std::set<std::string> taken;
  for (const Ref& ref : refs) taken.insert(ref.name);
  VENEER_ASSIGN(const auto done, Consolidate(active, names, taken, *catalog));
  if (!done) {
    VENEER_ASSIGN(const Current current, store->ReadCurrent());
    if (session.options().json) PrintJson({{"changed", false}, {"composition", CompositionText(current.composition)}});
    PrintOk("consolidate",
            fmt::format("gen={} composition={} no change: nothing to consume", current.generation, CompositionText(current.composition)),
            session.options().json);
    return 0;
  }
  VENEER_TRY(ExpectStill(active.composition().Id(), options));
  // Nothing is in the store before the activation, which brings it all along.
  VENEER_ASSIGN(StagedBlob weights, store->StageBytes(done->weights));
  StoreSource source(*store, nullptr);
  source.Add({&weights, 1});
  VENEER_ASSIGN(ValidatedComposition validated, SealAndValidate(done->manifest, source, *catalog));
  VENEER_ASSIGN(Session::Sealed sealed, session.Seal({std::move(validated), std::nullopt}));
  sealed.blobs.push_back(std::move(weights));
  options.place = sealed.blobs;
  VENEER_ASSIGN(const Activation activated, store->Activate(sealed.composition, std::nullopt, options));
  for (const std::string& name : done->consumed) Note(fmt::format("{} is part of {} now", name, done->name));
  if (taken.contains(done->name)) return Report(session, "consolidate", activated);
  // So that the next composition can be put together from names.
  const AuthoredAdapter& folded = *std::ranges::find(done->manifest.adapters, done->name, &AuthoredAdapter::name);
  AdapterRecord record;
  record.kind = folded.kind.value_or("");
  record.format = "safetensors";
  record.file_hash = folded.file_hash;
  record.file_size = done->weights.size();
  if (const Status named = store->PutRef({RefKind::kAdapter, done->name, record.Print()}); !named)
    Note(fmt::format("warning: {} has no name in the store: {}", done->name, named.error().Text()));
  return Report(session, "consolidate", activated);
}

}  // namespace

constinit const Command kInitCommand{
    "init",
    "init",
    "make an empty store",
    "Makes the folder of --store (default: $VENEER_STORE, else the XDG data directory) a store in which nothing is active.\n",
    0,
    0,
    RunInit};
constinit const Command kStatusCommand{
    "status", "status", "say what is active", "Generation, composition, base and adapters in force.\n", 0, 0, RunStatus};
constinit const Command kLogCommand{
    "log", "log", "show the audit log", "Every import, begin, commit and abort, oldest first; the records are hash-chained.\n", 0,
    0,     RunLog};
constinit const Command kFsckCommand{
    "fsck",
    "fsck [--full] [--repair] [--set-current N]",
    "check the store",
    "Quick: pointer, records, names, presence, sizes, modes, links, foreign names, log, view. --full hashes every blob. --repair mends "
    "what\n"
    "can be mended and never chooses what is active. That takes --set-current N, for a damaged CURRENT only (a whole one: `rollback --to "
    "N`):\n"
    "what generation N activated, with all checks of an activation, in a new generation that the log shows as set-current.\n"
    "Exit status: 0 clean, 1 repaired, 4 problems left.\n",
    0,
    0,
    RunFsck};
constinit const Command kForgetCommand{
    "forget",
    "forget KIND/NAME...",
    "take names out of the store",
    "KIND is adapter, base or composition. The files stay as long as a composition that is active, among the "
    "last ones, or named needs them;\n"
    "`veneer gc` takes out the rest.\n",
    1,
    64,
    RunForget};
constinit const Command kGcCommand{"gc",
                                   "gc [--now] [--keep N]... [--release N]...",
                                   "take out what no composition needs",
                                   "Stays: the active composition, the three generations before it, what the next rollbacks lead to, and "
                                   "everything that has a name, each with all\n"
                                   "its files. The rest moves to trash/ and is deleted a day later by the next gc, or at once with --now. "
                                   "--keep 12 gives generation 12 the name\n"
                                   "kept-12, so that `rollback --to 12` finds its files for good; --release 12 takes the name away. Safe "
                                   "while the store is in use.\n",
                                   0,
                                   0,
                                   RunGc};
constinit const Command kActivateCommand{"activate",
                                         "activate MANIFEST|ID|NAME [--expect ID|none]",
                                         "make a composition the active one",
                                         "A transaction: everything is checked, then one rename switches. Whatever happens in between, the "
                                         "old or the new composition is active\n"
                                         "afterwards. What is active already stays, without a new generation.\n",
                                         1,
                                         1,
                                         RunActivate};
constinit const Command kRollbackCommand{
    "rollback",
    "rollback [--to N] [--expect ID|none]",
    "return to the composition before",
    "An ordinary activation of the ancestor of the current generation, with all its checks; two rollbacks go two steps\n"
    "back.\n",
    0,
    0,
    RunRollback};
constinit const Command kDeactivateCommand{
    "deactivate",
    "deactivate [ADAPTER] [--expect ID|none]",
    "take one adapter, or everything, out of force",
    "With a name: activates the composition without that adapter, unless another has become active meanwhile (E613). Without: nothing is\n"
    "active, and decoding says so (E605).\n",
    0,
    1,
    RunDeactivate};

constinit const Command kConsolidateCommand{
    "consolidate",
    "consolidate [ADAPTER]... [--expect ID]",
    "fold low-rank adapters into the residual",
    "Adds the adapters' edits (all of low rank when none is named) to the composition's residual, a dense overlay in bf16, and activates "
    "base,\n"
    "residual and the rest in one transaction; `rollback` restores what was before. The base is not touched. The new residual has a name "
    "in\n"
    "the store, like what is imported. What folding would change is refused: a trained bias, a residual whose strength is not 1, an "
    "overlay\n"
    "before a folded one, or between it and the residual, that does not merely add on one of its sites.\n",
    0,
    64,
    RunConsolidate};

}  // namespace veneer::cli
