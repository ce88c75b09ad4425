// The store's verbs: init, status, log, fsck, import, activate, rollback, deactivate.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"

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
  if (session.options().json) {
    PrintJson(
        {{"composition", current.composition ? OutJson(current.composition->Text()) : OutJson()}, {"generation", current.generation}});
    return 0;
  }
  VENEER_ASSIGN(const GenerationRecord record, store->ReadGeneration(current.generation));
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
  ProgressBar bar("checking");
  VENEER_ASSIGN(const FsckReport report,
                store->Fsck({.full = options.full, .repair = options.repair, .progress = [&bar](auto done, auto total) {
                               bar.Update(done, total);
                             }}));
  const int status = report.problems_left() ? 4 : report.clean() ? 0 : 1;
  OutJson findings = OutJson::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"code", finding.code}, {"at", finding.at}, {"detail", finding.detail}, {"repaired", finding.repaired}});
    if (!options.json)
      PrintLine(fmt::format("{} at={} {}{}", finding.code, finding.at, finding.detail, finding.repaired ? " (repaired)" : ""));
  }
  if (options.json) {
    PrintJson({{"clean", report.clean()},
               {"findings", findings},
               {"blobs", report.blobs},
               {"bytes", report.blob_bytes},
               {"generations", report.generations}});
  } else {
    PrintLine(fmt::format("{} FSCK blobs={} bytes={} generations={} names={} findings={}", status == 4 ? "ERR" : "OK", report.blobs,
                          report.blob_bytes, report.generations, report.refs, report.findings.size()));
  }
  return status;
}

Result<std::vector<ManifestParam>> ParamsOf(const Options& options) {
  std::vector<ManifestParam> params;
  for (const std::string& text : options.params) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return Fail(Code::USAGE, "--params", fmt::format("'{}', write name=value", text));
    params.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::ranges::sort(params);
  return params;
}

Result<int> FinishImport(Session& session, Store& store, std::span<const StagedBlob> blobs, const Ref& ref, const Digest& digest) {
  VENEER_ASSIGN(const ImportOutcome outcome, store.Import(blobs, ref));
  for (const std::string& warning : outcome.warnings) Note("warning: " + warning);
  const bool json = session.options().json;
  if (json) PrintJson({{"name", ref.name}, {"digest", digest.Text()}, {"new_blobs", outcome.added.size()}});
  PrintOk("import", fmt::format("{}={} digest={}", RefKindName(ref.kind), ref.name, digest.Text()), json);
  return 0;
}

Result<int> ImportBase(Session& session, Store& store, const std::string& path) {
  VENEER_ASSIGN(const UniqueFd file, OpenRegular(path));
  ProgressBar bar("copying");
  std::vector<StagedBlob> blobs;
  VENEER_ASSIGN(StagedBlob staged, store.StageFile(file, path, [&bar](auto done, auto total) { bar.Update(done, total); }));
  // What is checked is the copy that will be kept.
  UniqueFd copy(fcntl(staged.fd().get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return Fail(IoError(errno, path, "open the copy"));
  VENEER_ASSIGN(FileBytes bytes, FileBytes::MapFd(std::move(copy), path));
  VENEER_ASSIGN(const std::shared_ptr<const Base> base, Base::OpenGguf(std::move(bytes)));
  const TokenizerBlob& tokenizer = base->tokenizer();
  BaseRecord record{staged.digest(), staged.size(), std::string(base->format()), Sha256::Of(tokenizer.bytes)};
  const Digest digest = staged.digest();
  blobs.push_back(std::move(staged));
  VENEER_ASSIGN(StagedBlob tokenizer_blob, store.StageBytes(tokenizer.bytes));
  blobs.push_back(std::move(tokenizer_blob));
  return FinishImport(session, store, blobs, {RefKind::kBase, session.options().name.value_or(CleanName(path)), record.Print()}, digest);
}

Result<int> ImportAdapter(Session& session, Store& store, const std::string& path) {
  const Options& options = session.options();
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  VENEER_ASSIGN(const AdapterFiles files, OpenAdapterFiles(path));
  AdapterRecord record;
  VENEER_ASSIGN(record.kind, IdentifyAdapter(files, *catalog, options.kind.value_or("")));
  record.format = FormatOf(files);
  VENEER_ASSIGN(record.params, ParamsOf(options));
  std::vector<StagedBlob> blobs;
  VENEER_ASSIGN(StagedBlob weights, store.StageFile(files.weights.fd(), path));
  record.file_hash = weights.digest();
  record.file_size = weights.size();
  blobs.push_back(std::move(weights));
  if (files.config) {
    VENEER_ASSIGN(StagedBlob config, store.StageFile(files.config->fd(), path));
    record.config_hash = config.digest();
    record.config_size = config.size();
    blobs.push_back(std::move(config));
  }
  return FinishImport(session, store, blobs, {RefKind::kAdapter, options.name.value_or(CleanName(path)), record.Print()}, record.file_hash);
}

Result<int> RunImport(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  if (session.word(0) == "base") return ImportBase(session, *store, session.word(1));
  if (session.word(0) == "adapter") return ImportAdapter(session, *store, session.word(1));
  return Fail(Code::USAGE, session.word(0), "write: veneer import base FILE, or: veneer import adapter PATH");
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
  VENEER_ASSIGN(const Session::Sealed sealed, session.Keep(named, std::nullopt));
  VENEER_ASSIGN(const Activation done, store->Activate(sealed.composition, sealed.statement, options));
  return Report(session, "activate", done);
}

Result<int> RunRollback(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(const SwitchOptions options, session.switch_options());
  VENEER_ASSIGN(const Activation done, store->Rollback(session.options().to, options));
  return Report(session, "rollback", done);
}

Result<int> RunDeactivate(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(const SwitchOptions options, session.switch_options());
  if (session.words() == 0) {
    VENEER_ASSIGN(const Activation done, store->Deactivate(options));
    return Report(session, "deactivate", done);
  }
  const std::string& adapter = session.word(0);
  VENEER_ASSIGN(const auto active, store->OpenActive());
  Composition rest = active.opened.composition;
  if (std::erase_if(rest.adapters, [&adapter](const AdapterEntry& entry) { return entry.name == adapter; }) == 0)
    return Fail(Code::TARGET_UNKNOWN, adapter, "no adapter of that name is active; `veneer status` lists them");
  Statement statement;
  statement.composition = rest.Id();
  statement.timestamp_utc = TimestampNow();
  VENEER_ASSIGN(const Digest id, store->PutBlob(rest.Canonical()));
  VENEER_ASSIGN(const Digest statement_id, store->PutBlob(statement.Canonical()));
  VENEER_ASSIGN(const Activation done, store->Activate(id, statement_id, options));
  return Report(session, "deactivate", done);
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
constinit const Command kFsckCommand{"fsck",
                                     "fsck [--full] [--repair]",
                                     "check the store",
                                     "Quick: pointer, records, names, presence, sizes, log. --full hashes every blob. --repair mends what "
                                     "can be mended and never chooses what is\n"
                                     "active. Exit status: 0 clean, 1 repaired, 4 problems left.\n",
                                     0,
                                     0,
                                     RunFsck};
constinit const Command kImportCommand{
    "import",
    "import base FILE [--name N] | import adapter PATH [--name N] [--kind K] [--params k=v]",
    "copy a base or an adapter into the store",
    "Copies, hashes and checks before anything becomes visible; the same file twice is stored once. An adapter is a PEFT directory with\n"
    "adapter_model.safetensors and adapter_config.json, or a GGUF adapter of llama.cpp.\n",
    2,
    2,
    RunImport};
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
    "rollback [--to N]",
    "return to the composition before",
    "An ordinary activation of the ancestor of the current generation, with all its checks; two rollbacks go two steps\n"
    "back.\n",
    0,
    0,
    RunRollback};
constinit const Command kDeactivateCommand{
    "deactivate",
    "deactivate [ADAPTER]",
    "take one adapter, or everything, out of force",
    "With a name: activates the composition without that adapter. Without: nothing is active, and decoding says so (E605).\n",
    0,
    1,
    RunDeactivate};

}  // namespace veneer::cli
