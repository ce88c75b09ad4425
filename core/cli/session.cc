#include "core/cli/session.h"

#include <fmt/format.h>

#include "core/cli/output.h"
#include "core/compose/base_directory.h"
#include "core/compose/path_source.h"
#include "core/manifest/canonical.h"

namespace veneer::cli {

Result<Catalog*> Session::catalog() {
  if (!catalog_) {
    CatalogOptions scan;
    scan.overrides = options_.plugins;
    scan.directories = options_.plugin_dirs;
    for (auto& directory : DefaultPluginDirectories()) scan.directories.push_back(std::move(directory));
    VENEER_ASSIGN(catalog_, Catalog::Scan(scan));
    if (!options_.plugins.empty()) Note("note: --plugin loads libraries by path; this is for development");
  }
  return &*catalog_;
}

Result<PathSource> Session::OpenPaths(bool with_adapters) const {
  std::vector<AdapterPath> adapters;
  for (const std::string& text : with_adapters ? options_.adapters : std::vector<std::string>()) {
    VENEER_ASSIGN(adapters.emplace_back(), ParseAdapterPath(text));
  }
  ProgressBar bar("hashing");
  return PathSource::Open(*options_.base, adapters, [&bar](std::uint64_t done, std::uint64_t total) { bar.Update(done, total); });
}

Result<ValidatedComposition> Session::Selected() {
  if (options_.manifest) {
    VENEER_ASSIGN(Named named, Resolve(options_.manifest->string()));
    return std::move(named.validated);
  }
  if (!options_.base) {
    if (!options_.adapters.empty()) return Fail(Code::USAGE, "--adapter", "needs --base FILE|DIR beside it");
    return ActiveComposition();
  }
  VENEER_ASSIGN(Catalog * plugins, catalog());
  VENEER_ASSIGN(PathSource source, OpenPaths(true));
  VENEER_ASSIGN(ValidatedComposition validated, SealAndValidate(source.manifest(), source, *plugins));
  return validated;
}

Result<std::shared_ptr<const Base>> Session::SelectedBase() {
  if (options_.base && !options_.manifest) {
    ProgressBar bar("hashing");
    VENEER_ASSIGN(BaseFiles files,
                  OpenBaseFiles(*options_.base, [&bar](std::uint64_t done, std::uint64_t total) { bar.Update(done, total); }));
    return Base::Open(std::move(files));
  }
  VENEER_ASSIGN(const ValidatedComposition selected, Selected());
  return selected.base();
}

Result<Store*> Session::store() {
  if (!store_) {
    VENEER_ASSIGN(Store opened, Store::Open(sys_, options_.store.string(), {.threads = options_.threads}));
    store_.emplace(std::move(opened));
    for (const std::string& warning : store_->warnings()) Note("warning: " + warning);
  }
  return &*store_;
}

std::pair<std::optional<RefKind>, std::string> SplitName(const std::string& what) {
  for (const RefKind kind : {RefKind::kComposition, RefKind::kAdapter, RefKind::kBase}) {
    const std::string prefix = fmt::format("{}/", RefKindName(kind));
    if (what.starts_with(prefix)) return {kind, what.substr(prefix.size())};
  }
  return {std::nullopt, what};
}

bool IsManifestName(const std::filesystem::path& path) {
  return path.has_parent_path() || path.extension() == ".toml" || path.extension() == ".json";
}

Result<Session::Named> Session::Resolve(const std::string& what) {
  std::error_code ignored;
  if (IsManifestName(what) && !std::filesystem::exists(what, ignored)) return Fail(Code::BLOB_MISSING, what, "no such file or directory");
  VENEER_ASSIGN(Store * opened, store());
  if (std::filesystem::is_regular_file(what, ignored)) {
    VENEER_ASSIGN(const std::string text, ReadText(what, 1 << 20));
    auto manifest = ParseManifest(text, DetectSyntax(text));
    if (!manifest) return Fail(std::move(manifest).error());
    VENEER_ASSIGN(Catalog * plugins, catalog());
    ProgressBar bar("hashing");
    StoreSource source(*opened, nullptr, [&bar](std::uint64_t done, std::uint64_t total) { bar.Update(done, total); });
    VENEER_ASSIGN(ValidatedComposition validated, SealAndValidate(*manifest, source, *plugins));
    const Statement statement = MakeStatement(*manifest, validated.composition().Id());
    return Named{std::move(validated), statement};
  }
  if (what.starts_with("sha256:")) {
    VENEER_ASSIGN(const Digest id, ParseDigest(what, what));
    VENEER_ASSIGN(ValidatedComposition validated, FromId(id));
    return Named{std::move(validated), std::nullopt};
  }
  auto ref = opened->GetRef(RefKind::kComposition, what);
  if (!ref)
    return Fail(ref.error().code, what,
                fmt::format("is no manifest file, no id sha256:… and no composition's name in the store ({})", ref.error().detail));
  const std::optional<Digest> id = CompositionOf(ref->record);
  if (!id) return Fail(Code::STATE_CORRUPT, what, "its name does not hold a composition; seal it again");
  VENEER_ASSIGN(ValidatedComposition validated, FromId(*id));
  return Named{std::move(validated), std::nullopt};
}

Result<ValidatedComposition> Session::FromId(const Digest& id) {
  VENEER_ASSIGN(Store * opened, store());
  VENEER_ASSIGN(Catalog * plugins, catalog());
  ProgressBar bar("hashing");
  VENEER_ASSIGN(
      const OpenedComposition files,
      opened->OpenComposition(id, VerifyMode::kStamp, [&bar](std::uint64_t done, std::uint64_t total) { bar.Update(done, total); }));
  StoreSource source(*opened, &files);
  return ValidateComposition(files.composition, source, *plugins);
}

Result<ValidatedComposition> Session::ActiveComposition() {
  VENEER_ASSIGN(Store * opened, store());
  VENEER_ASSIGN(Catalog * plugins, catalog());
  VENEER_ASSIGN(const auto active, opened->OpenActive());
  StoreSource source(*opened, &active.opened);
  return ValidateComposition(active.opened.composition, source, *plugins);
}

Result<Session::Sealed> Session::Seal(const Named& named) {
  VENEER_ASSIGN(Store * opened, store());
  Sealed sealed;
  VENEER_ASSIGN(StagedBlob composition, opened->StageBytes(named.validated.composition().Canonical()));
  sealed.composition = composition.digest();
  sealed.blobs.push_back(std::move(composition));
  if (named.statement) {
    VENEER_ASSIGN(StagedBlob statement, opened->StageBytes(named.statement->Canonical()));
    sealed.statement = statement.digest();
    sealed.blobs.push_back(std::move(statement));
  }
  return sealed;
}

Status Session::Keep(const Sealed& sealed, const std::optional<std::string>& name) {
  VENEER_ASSIGN(Store * opened, store());
  std::optional<Ref> ref;
  if (name) {
    CanonicalMembers record{{"composition", CanonicalString(sealed.composition.Text())}};
    if (sealed.statement) record["statement"] = CanonicalString(sealed.statement->Text());
    ref = Ref{RefKind::kComposition, *name, CanonicalObject(record)};
  }
  VENEER_ASSIGN(const ImportOutcome outcome, opened->Import(sealed.blobs, ref));
  for (const std::string& warning : outcome.warnings) Note("warning: " + warning);
  return {};
}

Result<SwitchOptions> Session::switch_options() {
  SwitchOptions options;
  if (options_.expect) {
    ExpectedCurrent expected;
    if (*options_.expect != "none") {
      VENEER_ASSIGN(expected.composition, ParseDigest(*options_.expect, "--expect"));
    }
    options.expect = expected;
  }
  if (options_.verbose) options.transitions = [](const Transition& transition) { Note(TransitionText(transition)); };
  options.validate = [this](const OpenedComposition& files) -> Status {
    VENEER_ASSIGN(Store * opened, store());
    VENEER_ASSIGN(Catalog * plugins, catalog());
    StoreSource source(*opened, &files);
    VENEER_ASSIGN(const ValidatedComposition validated, ValidateComposition(files.composition, source, *plugins));
    VENEER_TRY(Stage(validated, decoder_options(options_.batch), options_.memory_budget));
    return {};
  };
  return options;
}

DecoderOptions Session::decoder_options(std::uint32_t max_batch) const {
  DecoderOptions decoder;
  decoder.threads = options_.threads;
  decoder.context = options_.context;
  decoder.max_batch = max_batch;
  decoder.all_logits = !options_.words.empty() && options_.words.front() == "logits";  // the verb that asks for those of every token
  if (options_.kv) decoder.kv = ParseKvType(*options_.kv);
  return decoder;
}

StageOptions Session::stage_options() const { return {.mode = mode(), .threads = options_.threads}; }

Result<StagedPlan> Session::Stage(const ValidatedComposition& validated, const DecoderOptions& decoder, std::uint64_t budget) {
  VENEER_ASSIGN(Catalog * plugins, catalog());
  VENEER_ASSIGN(BoundComposition bound, Bind(validated, *plugins, stage_options()));
  const MemoryPlan plan = PlanMemory(*validated.base(), bound.cost(), mode(), decoder);
  return StageWithin(std::move(bound), plan, decoder, budget);
}

void Session::PrintNotes(const ValidatedComposition& validated) {
  for (const std::string& note : validated.notes()) Note("note: " + note);
}

Result<std::unique_ptr<Decoder>> Session::MakeDecoder(const ValidatedComposition& validated, std::uint32_t max_batch) {
  const DecoderOptions decoder = decoder_options(max_batch);
  if (options_.base || options_.manifest) PrintNotes(validated);  // of the active composition `activate` has said it
  VENEER_ASSIGN(StagedPlan planned, Stage(validated, decoder, options_.memory_budget));
  return Decoder::Create(std::move(planned.staged), decoder);
}

Result<int> Session::PrintPlan(const ValidatedComposition& validated) {
  if (words() == 1 || options_.base || options_.manifest) PrintNotes(validated);
  // Held while the plan is made, as `generate` holds it; a base without a usable vocabulary runs without.
  const auto tokenizer = OpenTokenizer(*validated.base());
  VENEER_ASSIGN(const StagedPlan planned, Stage(validated, decoder_options(options_.batch), UINT64_MAX));
  const MemoryPlan& plan = planned.plan;
  const OutJson terms{{"runtime_bytes", plan.runtime_bytes}, {"base_bytes", plan.base_bytes}, {"adapter_bytes", plan.adapter_bytes},
                      {"scratch_bytes", plan.scratch_bytes}, {"kv_bytes", plan.kv_bytes},     {"peak_bytes", plan.peak_bytes()}};
  if (options_.json) {
    PrintJson(terms);
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"TERM", "BYTES", ""}};
  for (const auto& [name, bytes] : terms.items())
    rows.push_back({name.substr(0, name.find("_bytes")), bytes.dump(), ByteText(bytes.get<std::uint64_t>())});
  Print(Table(rows));
  return 0;
}

}  // namespace veneer::cli
