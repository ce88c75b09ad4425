#include "core/compose/store_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/bytes.h"
#include "core/format/json.h"
#include "core/manifest/base_list.h"
#include "core/manifest/canonical.h"

namespace veneer {
namespace {

constexpr std::uint64_t kMaxAdapterFile = std::uint64_t{4} << 30;
constexpr std::uint64_t kMaxTokenizerFile = 64 << 20;

// Records are written by Print below, so a member of another form means that the store was changed by hand.
Error Damaged(const Ref& ref) {
  return {Code::STATE_CORRUPT, fmt::format("refs/{}/{}", RefKindName(ref.kind), ref.name), "the record is damaged; import the file again"};
}

struct RecordReader {
  const Json& json;
  [[nodiscard]] std::string Text(std::string_view name) const {
    const Json* value = json.Find(name);
    return value != nullptr && value->is_string() ? value->text : "";
  }
  [[nodiscard]] std::uint64_t Number(std::string_view name) const {
    const Json* value = json.Find(name);
    return value == nullptr ? 0 : value->U64().value_or(0);
  }
  [[nodiscard]] std::optional<Digest> Hash(std::string_view name) const {
    auto digest = ParseDigest(Text(name), name);
    return digest ? std::optional(*digest) : std::nullopt;
  }
};

}  // namespace

std::string BaseRecord::Print() const {
  CanonicalMembers members{{"format", CanonicalString(format)},
                           {"hash", CanonicalString(hash.Text())},
                           {"size", CanonicalInteger(size)},
                           {"tokenizer_hash", CanonicalString(tokenizer_hash.Text())}};
  std::vector<std::string> listed;
  for (const Digest& file : files) listed.push_back(CanonicalString(file.Text()));
  if (!files.empty()) members["files"] = CanonicalArray(listed);
  return CanonicalObject(members);
}

Result<BaseRecord> BaseRecord::Parse(const Ref& ref) {
  VENEER_ASSIGN(const Json json, ParseJson(ref.record));
  const RecordReader reader{json};
  const auto hash = reader.Hash("hash"), tokenizer = reader.Hash("tokenizer_hash");
  if (!hash || !tokenizer) return Fail(Damaged(ref));
  BaseRecord record{*hash, reader.Number("size"), reader.Text("format"), *tokenizer};
  if (const Json* const files = json.Find("files"))
    for (const Json& file : files->elements) {
      const auto digest = ParseDigest(file.text, file.at);
      if (!digest) return Fail(Damaged(ref));
      record.files.push_back(*digest);
    }
  return record;
}

std::string AdapterRecord::Print() const {
  CanonicalMembers members{{"kind", CanonicalString(kind)},
                           {"format", CanonicalString(format)},
                           {"file_hash", CanonicalString(file_hash.Text())},
                           {"file_size", CanonicalInteger(file_size)}};
  if (config_hash) {
    members["config_hash"] = CanonicalString(config_hash->Text());
    members["config_size"] = CanonicalInteger(config_size);
  }
  CanonicalMembers parameters;
  for (const auto& [name, value] : params)
    parameters[name] = std::holds_alternative<std::string>(value) ? CanonicalString(std::get<std::string>(value))
                                                                  : CanonicalInteger(std::get<std::uint64_t>(value));
  if (!params.empty()) members["params"] = CanonicalObject(parameters);
  return CanonicalObject(members);
}

Result<AdapterRecord> AdapterRecord::Parse(const Ref& ref) {
  VENEER_ASSIGN(const Json json, ParseJson(ref.record));
  const RecordReader reader{json};
  const auto hash = reader.Hash("file_hash");
  if (!hash) return Fail(Damaged(ref));
  AdapterRecord record{reader.Text("kind"),        reader.Text("format"),        *hash, reader.Number("file_size"),
                       reader.Hash("config_hash"), reader.Number("config_size"), {}};
  if (const Json* params = json.Find("params"))
    for (const auto& [name, value] : params->members) {
      if (value.is_string()) {
        record.params.emplace_back(name, value.text);
      } else {
        record.params.emplace_back(name, value.U64().value_or(0));
      }
    }
  return record;
}

Result<StoreSource::Opened> StoreSource::Open(const Digest& digest, std::optional<std::uint64_t> size, const std::string& at) const {
  const auto state = [](const FileInfo& info) { return FileState{info.size, info.mtime_ns, info.ctime_ns}; };
  if (const OpenedBlob* blob = opened_ == nullptr ? nullptr : opened_->Find(digest)) {
    VENEER_ASSIGN(UniqueFd fd, store_->Duplicate(*blob));
    return Opened{std::move(fd), state(blob->info)};
  }
  if (const auto staged = std::ranges::find(staged_, digest, &StagedBlob::digest); staged != staged_.end()) {
    VENEER_ASSIGN(OpenedBlob copy, store_->Duplicate(*staged));
    return Opened{std::move(copy.fd), state(copy.info)};
  }
  VENEER_ASSIGN(OpenedBlob blob, store_->OpenBlob(digest, size, VerifyMode::kStamp, progress_, at));
  return Opened{std::move(blob.fd), state(blob.info)};
}

Result<BaseFiles> StoreSource::OpenBase(const Digest& hash, const std::optional<Digest>& tokenizer) {
  VENEER_ASSIGN(Opened opened, Open(hash, std::nullopt, "/base_model_hash"));
  VENEER_ASSIGN(FileBytes file, FileBytes::MapFd(std::move(opened.fd), "base " + hash.Text(), &opened.verified));
  const std::string_view text = AsText(file.bytes());
  if (text.starts_with('{') && text.size() <= kMaxBaseListBytes) return OpenListed(hash, std::string(text), tokenizer);
  return BaseFiles(std::move(file));
}

Result<BaseFiles> StoreSource::OpenListed(const Digest& hash, std::string list, const std::optional<Digest>& tokenizer) const {
  if (Sha256::Of(list) != hash)
    return Fail(Code::BLOB_CHANGED, "/base_model_hash", "the list changed while it was read; run `veneer fsck --full`");
  BaseFiles base;
  base.name = "base " + hash.Text();
  VENEER_ASSIGN(const std::vector<ListedFile> files, ParseBaseList(list));
  for (const ListedFile& one : files) {
    VENEER_ASSIGN(Opened opened, Open(one.digest, one.size, fmt::format("/base_model_hash: {}", one.name)));
    VENEER_ASSIGN(FileBytes file, FileBytes::MapFd(std::move(opened.fd), fmt::format("{}: {}", base.name, one.name), &opened.verified));
    base.files.push_back({one.name, std::move(file), one.digest});
  }
  Digest wanted;
  if (tokenizer) {
    wanted = *tokenizer;
  } else {
    VENEER_ASSIGN(wanted, ImportedTokenizer(hash));
  }
  if (wanted != Sha256::Of("")) {
    VENEER_ASSIGN(const Opened opened, Open(wanted, std::nullopt, "/tokenizer_hash"));
    VENEER_ASSIGN(const FileBytes copy, FileBytes::CopyFd(opened.fd, "tokenizer", kMaxTokenizerFile));
    base.tokenizer = HfTokenizer(std::string(AsText(copy.bytes())));
  } else {
    base.tokenizer = HfTokenizer("");
  }
  base.list = std::move(list);
  return base;
}

Result<Digest> StoreSource::ImportedTokenizer(const Digest& hash) const {
  VENEER_ASSIGN(const std::vector<Ref> refs, store_->ListRefs(RefKind::kBase));
  std::optional<BaseRecord> found;
  for (const Ref& ref : refs) {
    VENEER_ASSIGN(const BaseRecord record, BaseRecord::Parse(ref));
    if (record.hash != hash) continue;
    if (found && found->tokenizer_hash != record.tokenizer_hash)
      return Fail(Code::FIELD_MISSING, "/tokenizer_hash", "the base was imported with several tokenizers; say which");
    found = record;
  }
  if (found) return found->tokenizer_hash;
  return Fail(Code::FIELD_MISSING, "/tokenizer_hash", "no name in the store says which tokenizer the base has; say which");
}

// One that has changed is opened afresh: the store may hold a good file under the name again.
std::shared_ptr<const Base> StoreSource::HeldBase(const Digest& hash) {
  if (held_.base == nullptr || held_.hash != hash || !held_.base->CheckUnchanged(hash)) return nullptr;
  return held_.base;
}

Result<std::optional<Digest>> StoreSource::ImportedConfig(const AuthoredAdapter& entry) const {
  VENEER_ASSIGN(const std::vector<Ref> refs, store_->ListRefs(RefKind::kAdapter));
  std::vector<std::pair<std::string, std::optional<Digest>>> candidates;
  for (const Ref& ref : refs) {
    VENEER_ASSIGN(const AdapterRecord record, AdapterRecord::Parse(ref));
    if (record.file_hash != entry.file_hash) continue;
    if (ref.name == entry.name) return record.config_hash;
    candidates.emplace_back(ref.name, record.config_hash);
  }
  if (candidates.empty()) return std::optional<Digest>();
  if (!std::ranges::all_of(candidates, [&](const auto& one) { return one.second == candidates.front().second; }))
    return Fail(Code::FIELD_MISSING, entry.at + "/config_hash",
                fmt::format("the file was imported with several configurations ({}, {}, ...); say which", candidates[0].first,
                            candidates[1].first));
  return candidates.front().second;
}

Result<AdapterBlobs> StoreSource::OpenAdapter(const AuthoredAdapter& entry) {
  AdapterBlobs blobs;
  VENEER_ASSIGN(const Opened file, Open(entry.file_hash, entry.file_size, entry.at + "/file_hash"));
  VENEER_ASSIGN(blobs.files.weights, FileBytes::CopyFd(file.fd, entry.name, kMaxAdapterFile));
  // The private copy is what will be used, so it is the copy that must have the digest.
  const FileBytes& weights = blobs.files.weights;
  blobs.file_hash = entry.file_hash;
  blobs.file_size = weights.bytes().size();
  if (!store_->ProveCopy(weights.fd(), entry.file_hash, blobs.file_size) && Sha256::Of(weights.bytes()) != entry.file_hash)
    return Fail(Code::BLOB_CHANGED, entry.at + "/file_hash", "the file changed while it was read; run `veneer fsck --full`");
  std::optional<Digest> config = entry.config_hash;
  if (!config) {
    VENEER_ASSIGN(config, ImportedConfig(entry));
  }
  if (!config) return blobs;
  VENEER_ASSIGN(const Opened config_file, Open(*config, entry.config_size, entry.at + "/config_hash"));
  VENEER_ASSIGN(FileBytes copy, FileBytes::CopyFd(config_file.fd, "adapter_config.json", 1 << 20));
  blobs.config_hash = Sha256::Of(copy.bytes());
  blobs.config_size = copy.bytes().size();
  blobs.files.config = std::move(copy);
  return blobs;
}

}  // namespace veneer
