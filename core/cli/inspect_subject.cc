#include "core/cli/inspect_subject.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/adapter/gguf_reader.h"
#include "core/adapter/snapshot.h"
#include "core/base/bytes.h"
#include "core/cli/inspect_adapter.h"
#include "core/cli/inspect_base.h"
#include "core/cli/inspect_composition.h"
#include "core/cli/inspect_json.h"
#include "core/compose/base_directory.h"
#include "core/compose/path_source.h"
#include "core/compose/store_source.h"
#include "core/format/gguf.h"

namespace veneer::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxComposition = 1 << 20;
constexpr std::string_view kWithoutBase =
    "without a base; --base FILE adds the sites, their ranks and final scales, what is replaced or ignored, and whether the shapes fit";

struct Against {
  std::shared_ptr<const Base> base;
  std::string source;  // as the user named it, or the digest
};

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Result<Against> StoredBase(Session& session, const std::string& name) {
  VENEER_ASSIGN(Store * store, session.store());
  const auto ref = store->GetRef(RefKind::kBase, name);
  if (!ref)
    return Fail(ref.error().code, "--base", fmt::format("{} is no file, and no base's name in the store ({})", name, ref.error().detail));
  VENEER_ASSIGN(const BaseRecord record, BaseRecord::Parse(*ref));
  VENEER_ASSIGN(BaseFiles files, StoreSource(*store).OpenBase(record.hash, record.tokenizer_hash));
  VENEER_ASSIGN(auto base, Base::Open(std::move(files)));
  return Against{std::move(base), record.hash.Text()};
}

// Nothing when no store is there or nothing is active.
Result<std::optional<Against>> ActiveBase(Session& session) {
  if (!Exists(session.options().store)) return std::nullopt;
  VENEER_ASSIGN(Store * store, session.store());
  VENEER_ASSIGN(const Current current, store->ReadCurrent());
  if (!current.composition) return std::nullopt;
  VENEER_ASSIGN(const std::string bytes, store->ReadBlob(*current.composition, kMaxComposition));
  VENEER_ASSIGN(const Composition composition, Composition::Parse(bytes));
  VENEER_ASSIGN(BaseFiles files, StoreSource(*store).OpenBase(composition.base_model_hash, composition.tokenizer_hash));
  VENEER_ASSIGN(auto base, Base::Open(std::move(files)));
  return Against{std::move(base), composition.base_model_hash.Text()};
}

// The base that the options name; nothing when they name none.
Result<std::optional<Against>> AskedBase(Session& session) {
  const Options& options = session.options();
  if (!options.base && !options.manifest) return std::nullopt;
  if (options.base && !Exists(*options.base)) return StoredBase(session, *options.base);
  VENEER_ASSIGN(auto base, session.SelectedBase());
  return Against{std::move(base), options.base ? *options.base : options.manifest->string()};
}

struct AdapterSubject {
  AdapterBlobs blobs;
  std::string kind;  // asked for; empty: the files decide
  std::vector<ManifestParam> params;
};

AdapterRequest RequestOf(const AdapterSubject& subject) {
  AdapterRequest request{.kind = subject.kind};
  for (const auto& [name, value] : subject.params) {
    const auto* text = std::get_if<std::string>(&value);
    request.params.emplace_back(name, text != nullptr ? *text : fmt::format("{}", std::get<std::uint64_t>(value)));
  }
  return request;
}

Status Place(OutJson& facts, AdapterSubject& subject, const Against& against, const Catalog& catalog) {
  const AdapterRequest request = RequestOf(subject);
  VENEER_ASSIGN(const Adapter adapter, ReadAdapter(std::move(subject.blobs.files), *against.base, catalog, request));
  facts["base"] = against.source;
  return PlaceAdapter(facts, adapter, *against.base);
}

// The base asked for must take the adapter; the active one is tried, and the report says when it does not.
Result<OutJson> InspectAdapter(Session& session, AdapterSubject subject) {
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  VENEER_ASSIGN(OutJson facts, AdapterFileFacts(subject.blobs, *catalog, subject.kind));
  facts["params"] = ParamsJson(subject.params);
  facts["base"] = nullptr;
  VENEER_ASSIGN(const std::optional<Against> asked, AskedBase(session));
  if (asked) {
    VENEER_TRY(Place(facts, subject, *asked, *catalog));
    return facts;
  }
  const auto active = ActiveBase(session);
  if (!active) {
    facts["notes"].push_back(fmt::format("the base of the active composition cannot be read: {}", active.error().Text()));
  } else if (*active && !facts.contains("refused")) {
    const Status placed = Place(facts, subject, **active, *catalog);
    if (placed) return facts;
    facts["notes"].push_back(fmt::format("the base of the active composition does not take it: {}", placed.error().Text()));
  }
  facts["notes"].push_back(kWithoutBase);
  return facts;
}

Result<OutJson> InspectStoredAdapter(Session& session, Store& store, const Ref& ref) {
  VENEER_ASSIGN(AdapterRecord record, AdapterRecord::Parse(ref));
  AuthoredAdapter entry;
  entry.name = ref.name;
  entry.at = fmt::format("adapter/{}", ref.name);
  entry.file_hash = record.file_hash;
  entry.file_size = record.file_size;
  entry.config_hash = record.config_hash;
  if (record.config_hash) entry.config_size = record.config_size;
  VENEER_ASSIGN(AdapterBlobs blobs, StoreSource(store).OpenAdapter(entry));
  // --params as a manifest would give them: in place of those that the adapter was imported with.
  for (const auto& [name, value] : session.options().params) {
    std::erase_if(record.params, [&name](const ManifestParam& old) { return old.first == name; });
    record.params.emplace_back(name, value);
  }
  return InspectAdapter(session, {std::move(blobs), record.kind, std::move(record.params)});
}

Result<OutJson> InspectStoredBase(Session& session, const Ref& ref) {
  VENEER_ASSIGN(const BaseRecord record, BaseRecord::Parse(ref));
  VENEER_ASSIGN(const Against stored, StoredBase(session, ref.name));
  return BaseFactsJson(*stored.base, record.hash);
}

// A GGUF is a base unless it says that it is an adapter.
Result<std::optional<OutJson>> InspectAsBase(const fs::path& path) {
  VENEER_ASSIGN(FileBytes file, FileBytes::Map(path));
  if (!AsText(file.bytes()).starts_with("GGUF")) return std::nullopt;
  if (const auto parsed = GgufFile::Parse(file.bytes()); parsed && IsGgufAdapter(*parsed)) return std::nullopt;
  VENEER_ASSIGN(const auto base, Base::OpenGguf(std::move(file)));
  ProgressBar bar("hashing");
  return BaseFactsJson(*base, HashBytes(base->bytes(), [&bar](auto done, auto total) { bar.Update(done, total); }));
}

Result<OutJson> InspectSnapshot(Session& session, const fs::path& path) {
  VENEER_ASSIGN(Catalog * catalog, session.catalog());
  VENEER_ASSIGN(Snapshot snapshot, OpenSnapshot(path, *catalog));
  OutJson facts{{"what", "snapshot"}, {"residual", nullptr}, {"active", nullptr}};
  for (const auto& [name, files] : {std::pair{"residual", &snapshot.residual}, std::pair{"active", &snapshot.active}}) {
    if (!*files) continue;
    AdapterBlobs blobs;
    blobs.file_hash = Sha256::Of((*files)->weights.bytes());
    blobs.file_size = (*files)->weights.bytes().size();
    if ((*files)->config) {
      blobs.config_hash = Sha256::Of((*files)->config->bytes());
      blobs.config_size = (*files)->config->bytes().size();
    }
    blobs.files = *std::move(*files);
    VENEER_ASSIGN(facts[name], InspectAdapter(session, {std::move(blobs), "", {}}));
  }
  return facts;
}

Result<OutJson> InspectBaseDirectory(const fs::path& path) {
  ProgressBar bar("hashing");
  VENEER_ASSIGN(BaseFiles files, OpenBaseFiles(path, [&bar](auto done, auto total) { bar.Update(done, total); }));
  VENEER_ASSIGN(const auto base, Base::Open(std::move(files)));
  return BaseFactsJson(*base, Sha256::Of(base->files().list));
}

bool IsSnapshot(const fs::path& path) {
  return fs::is_directory(path) && !Exists(path / "adapter_model.safetensors") &&
         (Exists(path / "merged_deltas.safetensors") || Exists(path / "active_adapter.safetensors"));
}

Result<OutJson> InspectComposition(Session& session, const std::string& what) {
  VENEER_ASSIGN(const Session::Named named, ResolveComposition(session, what));
  return CompositionJson(named.validated);
}

Result<OutJson> InspectPath(Session& session, const std::string& what) {
  const fs::path path = what;
  if (IsSnapshot(path)) return InspectSnapshot(session, path);
  if (IsBaseDirectory(path)) return InspectBaseDirectory(path);
  if (!fs::is_directory(path)) {
    if (path.extension() == ".toml" || path.extension() == ".json") return InspectComposition(session, what);
    VENEER_ASSIGN(std::optional<OutJson> base, InspectAsBase(path));
    if (base) return *std::move(base);
  }
  VENEER_ASSIGN(AdapterBlobs blobs, OpenAdapterBlobs(path));
  const Options& options = session.options();
  return InspectAdapter(session, {std::move(blobs), options.kind.value_or(""), {options.params.begin(), options.params.end()}});
}

Result<OutJson> InspectName(Session& session, const std::string& what) {
  const auto [wanted, name] = SplitName(what);
  const Error unknown{
      Code::BLOB_MISSING, what,
      "is no file, no id sha256:…, and no composition, adapter or base in the store; `veneer import` and `veneer seal --name` give names"};
  if (IsManifestName(name) || fs::path(name).extension() == ".gguf" || fs::path(name).extension() == ".safetensors")
    return Fail(Code::BLOB_MISSING, what, "no such file or directory");
  if (!Exists(session.options().store)) return Fail(unknown);
  VENEER_ASSIGN(Store * store, session.store());
  std::vector<Ref> found;
  for (const RefKind kind : {RefKind::kComposition, RefKind::kAdapter, RefKind::kBase}) {
    if (wanted && kind != *wanted) continue;
    auto ref = store->GetRef(kind, name);
    if (ref) {
      found.push_back(*std::move(ref));
    } else if (ref.error().code != Code::BLOB_MISSING && ref.error().code != Code::NAME_INVALID) {
      return Fail(std::move(ref).error());
    }
  }
  if (found.empty()) return Fail(unknown);
  for (std::size_t i = 1; i < found.size(); ++i)
    Note(fmt::format("note: {0} is also the name of {1}/{0}; this is {2}/{0}", name, RefKindName(found[i].kind),
                     RefKindName(found[0].kind)));
  switch (found.front().kind) {
    case RefKind::kAdapter:
      return InspectStoredAdapter(session, *store, found.front());
    case RefKind::kBase:
      return InspectStoredBase(session, found.front());
    default:
      return InspectComposition(session, name);
  }
}

}  // namespace

Result<Session::Named> ResolveComposition(Session& session, const std::string& what) {
  if (Exists(what)) return session.Resolve(what);
  const auto [kind, name] = SplitName(what);
  return session.Resolve(kind == RefKind::kComposition ? name : what);
}

Result<OutJson> InspectSubject(Session& session) {
  if (session.words() == 0) {
    VENEER_ASSIGN(const ValidatedComposition selected, session.Selected());
    return CompositionJson(selected);
  }
  const std::string& what = session.word(0);
  if (!session.options().adapters.empty())
    return Fail(Code::USAGE, "--adapter", fmt::format("makes a stack to inspect; leave out {}, or the option", what));
  if (Exists(what)) return InspectPath(session, what);
  return what.starts_with("sha256:") ? InspectComposition(session, what) : InspectName(session, what);
}

}  // namespace veneer::cli
