// compose, seal, validate: from names and manifests to compositions.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/manifest/write_toml.h"

namespace veneer::cli {
namespace {

// Writes a small file of the user's own.
Status WriteText(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.flush()) return Fail(Code::IO, path.string(), "cannot be written; check the folder and the space left");
  return {};
}

Result<AuthoredAdapter> EntryOf(Store& store, const std::string& text, std::uint64_t load_order) {
  const auto equals = text.rfind('=');
  const std::string name = text.substr(0, equals);
  AuthoredAdapter entry;
  VENEER_ASSIGN(const Ref ref, store.GetRef(RefKind::kAdapter, name));
  VENEER_ASSIGN(const AdapterRecord record, AdapterRecord::Parse(ref));
  VENEER_ASSIGN(entry.merge_weight,
                Decimal::FromAuthored(equals == std::string::npos ? "1" : text.substr(equals + 1), "--adapter " + text));
  entry.name = name;
  entry.file_hash = record.file_hash;
  entry.config_hash = record.config_hash;
  entry.kind = record.kind;
  entry.params = record.params;
  entry.load_order = load_order;
  return entry;
}

Result<int> RunCompose(Session& session) {
  const Options& options = session.options();
  if (!options.base) return Fail(Code::USAGE, "--base", "give the name of a base in the store");
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(const Ref ref, store->GetRef(RefKind::kBase, *options.base));
  VENEER_ASSIGN(const BaseRecord base, BaseRecord::Parse(ref));
  Manifest manifest;
  manifest.base_model_hash = base.hash;
  if (!base.files.empty()) manifest.tokenizer_hash = base.tokenizer_hash;  // a list of files names no tokenizer
  manifest.timestamp_utc = TimestampNow();
  for (const std::string& text : options.adapters) {
    VENEER_ASSIGN(AuthoredAdapter entry, EntryOf(*store, text, manifest.adapters.size()));
    const std::string name = entry.name;
    for (int n = 2; std::ranges::find(manifest.adapters, entry.name, &AuthoredAdapter::name) != manifest.adapters.end(); ++n)
      entry.name = fmt::format("{}-{}", name, n);
    manifest.adapters.push_back(std::move(entry));
  }
  const std::string text = WriteManifestToml(manifest);
  if (!options.out) {
    Print(text);
    return 0;
  }
  VENEER_TRY(WriteText(*options.out, text));
  if (options.json) PrintJson({{"manifest", options.out->string()}});
  PrintOk("compose", fmt::format("manifest={}", options.out->string()), options.json);
  return 0;
}

Result<int> RunSeal(Session& session) {
  const Options& options = session.options();
  VENEER_ASSIGN(const Session::Named named, session.Resolve(session.word(0)));
  VENEER_ASSIGN(const Session::Sealed sealed, session.Seal(named));
  VENEER_TRY(session.Keep(sealed, options.name));
  if (options.out) VENEER_TRY(WriteText(*options.out, named.validated.composition().Canonical()));
  Session::PrintNotes(named.validated);
  if (options.json)
    PrintJson(
        {{"composition", sealed.composition.Text()}, {"statement", sealed.statement ? OutJson(sealed.statement->Text()) : OutJson()}});
  PrintOk("seal", fmt::format("composition={}", sealed.composition.Text()), options.json);
  return 0;
}

Result<int> RunValidate(Session& session) {
  VENEER_ASSIGN(const Session::Named named, session.Resolve(session.word(0)));
  const std::string id = named.validated.composition().Id().Text();
  Session::PrintNotes(named.validated);
  if (session.options().json) PrintJson({{"composition", id}, {"notes", named.validated.notes()}});
  PrintOk("validate", fmt::format("composition={}", id), session.options().json);
  return 0;
}

}  // namespace

constinit const Command kComposeCommand{"compose",
                                        "compose --base NAME [--adapter NAME[=W]]... -o FILE",
                                        "write a manifest from names in the store",
                                        "Adapters apply in the order given; W is the strength (1 as trained, 0 leaves it out, negative "
                                        "subtracts). The manifest is TOML to read\n"
                                        "and change; without -o it goes to standard output.\n",
                                        0,
                                        0,
                                        RunCompose};

constinit const Command kSealCommand{
    "seal",
    "seal MANIFEST|ID|NAME [-o FILE] [--name N]",
    "turn a manifest into a composition",
    "Checks every claim against the real files, fills what was left out, and stores the composition (its SHA-256 is the identity) and the\n"
    "statement. Equal compositions get equal ids, whoever seals them and when.\n",
    1,
    1,
    RunSeal};

constinit const Command kValidateCommand{
    "validate",
    "validate MANIFEST|ID|NAME",
    "check a manifest or composition against its files",
    "All checks of activation, from sizes and digests to shapes, ranks and scales; changes nothing and runs no "
    "plugin code.\n",
    1,
    1,
    RunValidate};

}  // namespace veneer::cli
