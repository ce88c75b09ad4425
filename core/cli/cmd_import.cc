// import: bases, adapters and snapshots into the store.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/adapter/params.h"
#include "core/adapter/snapshot.h"
#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/compose/base_directory.h"

namespace veneer::cli {
namespace {

struct Imported {
  RefKind kind;
  std::string name;
  Digest digest;
  std::size_t new_blobs;
};

Result<Imported> Keep(Store& store, std::span<const StagedBlob> blobs, const Ref& ref, const Digest& digest) {
  VENEER_ASSIGN(const ImportOutcome outcome, store.Import(blobs, ref));
  for (const std::string& warning : outcome.warnings) Note("warning: " + warning);
  return Imported{ref.kind, ref.name, digest, outcome.added.size()};
}

OutJson ToJson(const Imported& one) { return {{"name", one.name}, {"digest", one.digest.Text()}, {"new_blobs", one.new_blobs}}; }
std::string ToText(const Imported& one) { return fmt::format("{}={} digest={}", RefKindName(one.kind), one.name, one.digest.Text()); }

int Report(Session& session, const Imported& one) {
  if (session.options().json) PrintJson(ToJson(one));
  PrintOk("import", ToText(one), session.options().json);
  return 0;
}

// Copies a file into the store and maps the copy: what is checked is what will be kept.
Result<FileBytes> StageAndMap(Store& store, const UniqueFd& file, const std::string& name, std::vector<StagedBlob>& blobs) {
  ProgressBar bar("copying");
  VENEER_ASSIGN(StagedBlob staged, store.StageFile(file, name, [&bar](auto done, auto total) { bar.Update(done, total); }));
  UniqueFd copy(fcntl(staged.fd().get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return Fail(IoError(errno, name, "open the copy"));
  blobs.push_back(std::move(staged));
  return FileBytes::MapFd(std::move(copy), name);
}

Result<BaseFiles> StageBase(Store& store, const std::string& path, std::vector<StagedBlob>& blobs) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    VENEER_ASSIGN(const UniqueFd file, OpenRegular(path));
    VENEER_ASSIGN(FileBytes copy, StageAndMap(store, file, path, blobs));
    return BaseFiles(std::move(copy));
  }
  VENEER_ASSIGN(BaseFiles base, OpenBaseDirectory(path));
  for (BaseFile& file : base.files) {
    VENEER_ASSIGN(file.bytes, StageAndMap(store, file.bytes.fd(), fmt::format("{}/{}", path, file.name), blobs));
    file.digest = blobs.back().digest();
  }
  ListFiles(base);
  VENEER_ASSIGN(StagedBlob list, store.StageBytes(base.list));
  blobs.push_back(std::move(list));
  return base;
}

Result<int> ImportBase(Session& session, Store& store, const std::string& path) {
  std::vector<StagedBlob> blobs;
  VENEER_ASSIGN(BaseFiles files, StageBase(store, path, blobs));
  const Digest digest = blobs.back().digest();
  BaseRecord record{.hash = digest, .size = blobs.back().size(), .format = {}, .tokenizer_hash = {}};
  for (std::size_t i = 0; i + 1 < blobs.size(); ++i) record.files.push_back(blobs[i].digest());
  VENEER_ASSIGN(const std::shared_ptr<const Base> base, Base::Open(std::move(files)));
  record.format = base->format();
  record.tokenizer_hash = Sha256::Of(base->tokenizer().bytes);
  VENEER_ASSIGN(StagedBlob tokenizer, store.StageBytes(base->tokenizer().bytes));
  blobs.push_back(std::move(tokenizer));
  VENEER_ASSIGN(const Imported imported,
                Keep(store, blobs, {RefKind::kBase, session.options().name.value_or(CleanName(path)), record.Print()}, digest));
  return Report(session, imported);
}

Result<Imported> ImportFiles(Session& session, Store& store, const AdapterFiles& files, const std::string& path, const std::string& name) {
  const Options& options = session.options();
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  AdapterRecord record;
  VENEER_ASSIGN(record.kind, IdentifyAdapter(files, *catalog, options.kind.value_or("")));
  record.format = FormatOf(files);
  VENEER_TRY(ParseGivenParams(*catalog, record.kind, options.params));
  record.params.assign(options.params.begin(), options.params.end());
  std::ranges::sort(record.params);
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
  return Keep(store, blobs, {RefKind::kAdapter, name, record.Print()}, record.file_hash);
}

Result<int> ImportAdapter(Session& session, Store& store, const std::string& path) {
  VENEER_ASSIGN(const AdapterFiles files, OpenAdapterFiles(path));
  VENEER_ASSIGN(const Imported imported, ImportFiles(session, store, files, path, session.options().name.value_or(CleanName(path))));
  return Report(session, imported);
}

Status Forget(Store& store, const std::string& name) {
  std::vector<std::string> warnings;
  VENEER_ASSIGN(const bool removed, store.RemoveRef(RefKind::kAdapter, name, warnings));
  for (const std::string& warning : warnings) Note("warning: " + warning);
  if (removed) Note(fmt::format("{} named a part of an earlier snapshot that this one does not have; the name is gone", name));
  return {};
}

// The residual under NAME-residual and the adapter in training under NAME-active. A name that an earlier snapshot left, and that this one
// has nothing for, is forgotten: it would stand for another moment.
Result<int> ImportSnapshot(Session& session, Store& store, const std::string& path) {
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  VENEER_ASSIGN(const Snapshot snapshot, OpenSnapshot(path, *catalog));
  const std::string name = session.options().name.value_or(CleanName(path));
  const std::pair<std::string, const std::optional<AdapterFiles>*> parts[] = {{name + "-residual", &snapshot.residual},
                                                                              {name + "-active", &snapshot.active}};
  for (const auto& [part, files] : parts)
    if (*files) VENEER_TRY(IdentifyAdapter(**files, *catalog));
  OutJson json = OutJson::array();
  std::string text;
  for (const auto& [part, files] : parts) {
    if (*files) {
      VENEER_ASSIGN(const Imported imported, ImportFiles(session, store, **files, path, part));
      json.push_back(ToJson(imported));
      text += (text.empty() ? "" : " ") + ToText(imported);
    } else {
      VENEER_TRY(Forget(store, part));
    }
  }
  if (session.options().json) PrintJson({{"adapters", json}});
  PrintOk("import", text, session.options().json);
  return 0;
}

Result<int> RunImport(Session& session) {
  VENEER_ASSIGN(Store * store, session.store());
  if (session.word(0) == "base") return ImportBase(session, *store, session.word(1));
  if (session.word(0) == "adapter") return ImportAdapter(session, *store, session.word(1));
  if (session.word(0) == "snapshot") return ImportSnapshot(session, *store, session.word(1));
  return Fail(Code::USAGE, session.word(0), "write: veneer import base FILE or DIR, import adapter PATH, or import snapshot DIR");
}

}  // namespace

constinit const Command kImportCommand{
    "import",
    "import base FILE|DIR [--name N] | import adapter PATH [--name N] [--kind K] [--params k=v] | import snapshot DIR [--name N]",
    "copy a base, an adapter or a trainer's snapshot into the store",
    "Copies, hashes and checks before anything becomes visible; the same file twice is stored once. A base is a GGUF file or a Hugging "
    "Face\n"
    "directory (config.json and model.safetensors, or an index and its shards). An adapter is a PEFT directory with\n"
    "adapter_model.safetensors and adapter_config.json, a GGUF adapter, or a safetensors file that describes itself. A snapshot becomes "
    "the\n"
    "adapters N-residual and N-active. --params changes what the files say, for all modules: --params scale=2 for a GGUF adapter whose\n"
    "training scaled by more than alpha / rank.\n",
    2,
    2,
    RunImport};

}  // namespace veneer::cli
