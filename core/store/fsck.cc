#include "core/store/fsck.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "core/manifest/fields.h"
#include "core/store/audit.h"
#include "core/store/gc.h"
#include "core/store/index.h"
#include "core/store/live.h"
#include "core/store/lock.h"
#include "core/store/midstates.h"
#include "core/store/recovery.h"
#include "core/store/refs.h"
#include "core/store/staging.h"
#include "core/store/stamps.h"
#include "core/store/transaction.h"

namespace veneer {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 16 << 20;

// Files and folders of veneer/.
constexpr std::array<std::string_view, 10> kVeneerNames{"FORMAT", "audit",   "gen",   "lock",  "quarantine",
                                                        "refs",   "staging", "state", "trash", "verified"};

std::string CodeText(Code code) { return fmt::format("E{} {}", static_cast<int>(code), CodeName(code)); }

class Checker {
 public:
  Checker(const StoreContext& store, const FsckOptions& options) : store_(store), sys_(*store.sys), options_(options) {}

  Result<FsckReport> Run() {
    VENEER_ASSIGN(const auto bad_blobs, FindBadBlobs());
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(store_));
    std::optional<Recovered> recovered;
    if (options_.repair) {
      recovered = Repair();
      VENEER_TRY(Quarantine(bad_blobs));
    } else {
      for (const Error& error : bad_blobs) Add(error);
    }
    const auto current = ReadCurrentFile(store_);
    if (!current) Add(current.error());
    VENEER_TRY(CheckBlobFolder());
    CheckLog(current ? &*current : nullptr);
    if (current) VENEER_TRY(CheckGenerations(*current));
    VENEER_TRY(CheckModes());
    VENEER_TRY(CheckRefs());
    CheckNeeded();
    VENEER_TRY(CheckLitter());
    if (current) CheckIndex(*current);
    if (recovered && !report_.findings.empty())
      (void)recovered->log.Append(store_, "fsck", {{"findings", CanonicalInteger(report_.findings.size())}});
    return std::move(report_);
  }

 private:
  void Add(const Error& error, bool repaired = false) {
    const std::string code = CodeText(error.code);
    const bool known = std::ranges::any_of(report_.findings, [&](const Finding& f) { return f.code == code && f.at == error.at; });
    if (!known) report_.findings.push_back({code, error.at, error.detail, repaired});
  }
  void AddCorrupt(std::string at, std::string detail) { Add({Code::STATE_CORRUPT, std::move(at), std::move(detail)}); }

  BlobRef Whole(const Digest& digest) const { return {store_.blobs.At(digest.Hex()), digest, std::nullopt}; }

  // Full only: hashes every blob, without the writers' lock; collection is shut out by byte 1.
  Result<std::vector<Error>> FindBadBlobs() {
    std::vector<Error> bad;
    if (!options_.full) return bad;
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForReader(store_));
    VENEER_ASSIGN(const auto names, ListNames(sys_, store_.blobs));
    std::vector<OpenedBlob> opened;
    std::uint64_t total = 0, done = 0;
    for (const std::string& name : names) {
      const auto digest = ParseDigest("sha256:" + name, "");
      if (!digest) continue;
      auto blob = OpenBlobFile(store_, Whole(*digest));
      if (!blob) continue;  // said by CheckBlobFolder
      total += blob->size;
      blob->fd = {};  // as many blobs as there are must not mean as many descriptors
      opened.push_back(*std::move(blob));
    }
    const auto step = [&](std::uint64_t bytes) {
      done += bytes;
      if (options_.progress) options_.progress(done, total);
    };
    for (const OpenedBlob& known : opened) {
      auto blob = OpenBlobFile(store_, Whole(known.digest));
      Status status = blob ? VerifyBlob(store_, *blob, VerifyMode::kFull, step) : Status(std::unexpected(blob.error()));
      if (!status) bad.push_back(std::move(status).error());
      if (blob && blob->verity) ++report_.verity_blobs;
    }
    return bad;
  }

  // Finishes what a crash left; what cannot be finished is said, and nothing is guessed.
  std::optional<Recovered> Repair() {
    auto recovered = Recover(store_);
    if (!recovered) {
      Add(recovered.error());
      return std::nullopt;
    }
    for (const std::string& action : recovered->actions)
      report_.findings.push_back({CodeText(Code::STATE_CORRUPT), "veneer", "an interrupted operation: " + action, true});
    const auto stamps = ListNames(sys_, store_.verified);
    for (const std::string& name : stamps.value_or(std::vector<std::string>())) {
      if (DigestOfMidstates(name)) continue;  // CheckVerified
      const auto text = ReadSmallFile(sys_, store_.verified, name, kMaxStampBytes);
      if (!text || !*text || !ParseStamp(**text)) (void)RemoveFile(sys_, store_.verified, name);
    }
    return *std::move(recovered);
  }

  Status Quarantine(const std::vector<Error>& bad_blobs) {
    for (const Error& error : bad_blobs) {
      const std::string hex = error.at.substr(error.at.rfind('/') + 1);
      const bool content = error.code == Code::HASH_MISMATCH || error.code == Code::SIZE_MISMATCH;
      if (content) VENEER_TRY(QuarantineBlob(store_, hex));
      Add(content ? Error{error.code, error.at, error.detail + " (moved to quarantine/)"} : error, content);
    }
    return {};
  }

  Status CheckBlobFolder() {
    VENEER_ASSIGN(const auto names, ListNames(sys_, store_.blobs));
    VENEER_ASSIGN(const auto staged, ListNames(sys_, store_.staging));
    for (const std::string& name : names) {
      const auto digest = ParseDigest("sha256:" + name, "");
      if (!digest) {
        AddCorrupt(store_.blobs.At(name), "is not the name of a blob; remove it");
        continue;
      }
      const auto blob = OpenBlobFile(store_, Whole(*digest));
      if (!blob) {
        Add(blob.error());
        continue;
      }
      if (blob->info.permissions != kBlobPermissions)
        Add({Code::BLOB_CHANGED, blob->at,
             fmt::format("has mode {:04o}, a blob has {:04o}; set it back", blob->info.permissions, kBlobPermissions)});
      // A second name outside the store is somebody's way to write to the blob. One in staging/ is an import's that has not ended.
      if (blob->info.links > 1 && staged.empty())
        Add({Code::BLOB_CHANGED, blob->at,
             fmt::format("has {} hard links; a blob has one name: remove the others, or the blob, and import it again", blob->info.links)});
      ++report_.blobs;
      report_.blob_bytes += blob->size;
    }
    return {};
  }

  void NeedFiles(const GenerationRecord& record) {
    if (record.composition) compositions_.insert(*record.composition);
    if (record.statement) needed_.insert(*record.statement);
  }

  // Whoever chose the generation after a lost record has said so in the log, over the bytes that were left of it.
  bool GoesOnAfterLoss(const GenerationRecord& next) const {
    if (next.op != GenerationOp::kSetCurrent) return false;
    const auto left = ReadSmallFile(sys_, store_.gen, std::to_string(next.generation - 1), kMaxRecordBytes);
    return left && next.prev_record == Sha256::Of(left->value_or(""));
  }

  // The chain of records up to the current one; what they activate must be there for the current and the retained ones.
  Status CheckGenerations(const Current& current) {
    std::optional<Digest> prev;
    std::optional<Error> lost;  // the record before this one
    for (std::uint64_t generation = 1; generation <= current.generation; ++generation) {
      const auto stored = ReadGenerationFile(store_, generation);
      if (lost && !(stored && GoesOnAfterLoss(stored->record))) Add(*lost);
      lost.reset();
      if (!stored) {
        lost = Error{Code::STATE_CORRUPT, stored.error().at, "the chain of generations is broken here: " + stored.error().detail};
        prev.reset();
        continue;
      }
      ++report_.generations;
      const bool chained = generation == 1 ? !stored->record.prev_record : !prev || stored->record.prev_record == prev;
      if (!chained) AddCorrupt(store_.gen.At(std::to_string(generation)), "does not follow the generation before it");
      prev = stored->digest;
      if (generation + kRetainedGenerations >= current.generation) NeedFiles(stored->record);
      if (generation == current.generation && (stored->digest != current.record || stored->record.composition != current.composition))
        AddCorrupt(store_.gen.At(std::to_string(generation)), "is not the record CURRENT names");
    }
    if (lost) Add(*lost);
    // The rollback targets before these; a record that cannot be read was said above.
    const auto retained = ReadRetained(store_, current.generation);
    for (const auto& [generation, stored] : retained.value_or(RetainedGenerations())) NeedFiles(stored.record);
    VENEER_ASSIGN(const auto names, ListNames(sys_, store_.gen));
    for (const std::string& name : names) {
      const std::uint64_t number = GenerationNumber(name).value_or(0);
      const bool known = number > 0 && number <= std::max(current.generation, logged_generation_) && name == std::to_string(number);
      if (!known)  // what the log knows above the current one is E612, and --repair leaves it
        AddCorrupt(store_.gen.At(name), "belongs to no generation up to the current one; `veneer fsck --repair` removes it");
    }
    return {};
  }

  // Frames, chain, one end for each begin, and that the log knows the active generation.
  void CheckLog(const Current* current) {
    const auto records = ReadAudit(store_);
    if (!records) return Add(records.error());
    report_.audit_records = records->size();
    std::set<std::string> begun, ended;
    for (const AuditRecord& record : *records) {
      const std::string tx(record.Get("tx"));
      const bool end = record.type() == "commit" || record.type() == "abort";
      if (record.type() == "begin") begun.insert(tx);
      if (end && (!begun.contains(tx) || !ended.insert(tx).second))
        Add({Code::AUDIT_CHAIN, store_.audit.path, fmt::format("transaction {} ends without a begin or twice", tx)});
      if (record.type() == "commit") logged_generation_ = std::max(logged_generation_, record.Number("gen"));
    }
    for (const std::string& tx : begun)
      if (!ended.contains(tx))
        AddCorrupt(store_.audit.path, fmt::format("transaction {} was interrupted; `veneer fsck --repair` ends it", tx));
    if (current == nullptr) return;
    const bool aborted = std::ranges::any_of(
        *records, [&](const AuditRecord& record) { return record.type() == "abort" && record.Get("tx") == current->tx; });
    if (aborted)
      Add({Code::AUDIT_CHAIN, store_.audit.path,
           fmt::format("generation {} is active, and the log says it was given up", current->generation)});
    if (!begun.contains(current->tx))
      Add({Code::AUDIT_CHAIN, store_.audit.path, fmt::format("generation {} is active and not in the log", current->generation)});
    if (logged_generation_ > current->generation) Add(Regressed(store_, current->generation, logged_generation_));
  }

  // What holds the state is the owner's alone: regular files that nobody else may write to.
  Status CheckModes() {
    std::vector<const Dir*> dirs{&store_.veneer, &store_.state, &store_.gen, &store_.audit};
    for (const Dir& dir : store_.refs) dirs.push_back(&dir);
    for (const Dir* dir : dirs) {
      VENEER_ASSIGN(const auto names, ListNames(sys_, *dir));
      for (const std::string& name : names) {
        const auto fd = sys_.Open(dir->fd.get(), name, OpenMode::kRead, 0);
        const auto info = fd ? sys_.Stat(fd->get()) : SysResult<FileInfo>(std::unexpected(fd.error()));
        if (!info) continue;  // said where it is read
        if (dir == &store_.veneer && info->type == FileType::kDirectory) continue;
        if (info->type != FileType::kRegular)
          AddCorrupt(dir->At(name), "is no regular file; the store has none here: remove it");
        else if (info->owner != store_.owner || (info->permissions & 0022) != 0)
          Add({Code::STORE_PERMISSIONS, dir->At(name),
               fmt::format("belongs to user {} with mode {:04o}; set it to the store's owner and {:04o}", info->owner, info->permissions,
                           kPrivatePermissions)});
      }
    }
    return {};
  }

  Status CheckRefs() {
    for (const RefKind kind : kRefKinds) {
      VENEER_ASSIGN(const auto names, ListNames(sys_, store_.ref_dir(kind)));
      for (const std::string& name : names) {
        if (IsBesideName(name)) continue;  // CheckLitter
        const auto ref = ReadRef(store_, kind, name);
        if (!ref) {
          Add(Error{ref.error().code, store_.ref_dir(kind).At(name), ref.error().detail});
          continue;
        }
        ++report_.refs;
        for (const Digest& digest : DigestsIn(ref->record)) needed_.insert(digest);
        if (const auto composition = CompositionOf(ref->record)) compositions_.insert(*composition);
      }
    }
    return {};
  }

  // Everything that names and retained generations need is there, with the size they name.
  void CheckNeeded() {
    for (const Digest& digest : needed_)
      if (const auto blob = OpenBlobFile(store_, Whole(digest)); !blob) Add(blob.error());
    for (const Digest& id : compositions_) {
      const auto text = ReadBlob(store_, Whole(id), kMaxCompositionBytes);
      if (!text) {
        Add(text.error());
        continue;
      }
      const auto composition = Composition::Parse(*text);
      if (!composition) {
        Add({composition.error().code, store_.blobs.At(id.Hex()), composition.error().Text()});
        continue;
      }
      const auto blobs = ReferencedBlobs(store_, *composition);
      if (!blobs) {
        Add({blobs.error().code, store_.blobs.At(composition->base_model_hash.Hex()), blobs.error().Text()});
        continue;
      }
      for (BlobRef blob : *blobs) {
        const std::string named_at = std::exchange(blob.at, store_.blobs.At(blob.digest.Hex()));
        if (const auto opened = OpenBlobFile(store_, blob); !opened)
          Add({opened.error().code, blob.at, fmt::format("{} (named by {} of {})", opened.error().detail, named_at, id.Text())});
      }
    }
  }

  Status CheckLitter() {
    std::vector<const Dir*> dirs{&store_.state, &store_.veneer, &store_.root};
    for (const Dir& dir : store_.refs) dirs.push_back(&dir);
    for (const Dir* dir : dirs) {
      VENEER_ASSIGN(const auto names, ListNames(sys_, *dir));
      for (const std::string& name : names)
        if (IsBesideName(name)) AddCorrupt(dir->At(name), "left by an interrupted write; `veneer fsck --repair` removes it");
    }
    VENEER_TRY(
        CheckNames(store_.veneer, [](const std::string& name) { return std::ranges::find(kVeneerNames, name) != kVeneerNames.end(); }));
    VENEER_ASSIGN(const Dir refs, OpenDir(sys_, store_.veneer, "refs"));
    VENEER_TRY(CheckNames(refs, [](const std::string& name) {
      return std::ranges::any_of(kRefKinds, [&name](RefKind kind) { return RefKindName(kind) == name; });
    }));
    VENEER_TRY(CheckNames(store_.state, [](const std::string& name) { return name == kCurrentName; }));
    VENEER_TRY(CheckNames(store_.audit, [](const std::string& name) { return SegmentNumber(name).has_value(); }));
    VENEER_TRY(CheckNames(store_.trash, [](const std::string& name) { return TrashTime(name).has_value(); }));
    VENEER_TRY(CheckVerified());
    VENEER_ASSIGN(const auto staged, ListNames(sys_, store_.staging));
    for (const std::string& name : staged) {
      const Leftover file = InspectStaged(store_, name);
      if (file.state == Leftover::kAbandoned)
        AddCorrupt(store_.staging.At(name), "left by an interrupted import; `veneer fsck --repair` removes it");
      if (file.state == Leftover::kForeign) AddCorrupt(store_.staging.At(name), "is none of the store's files; remove it");
    }
    return {};
  }

  // Stamps say what they are worth when they are read; midstates stand for long and are many bytes.
  Status CheckVerified() {
    VENEER_ASSIGN(const auto names, ListNames(sys_, store_.verified));
    for (const std::string& name : names) {
      const std::string at = store_.verified.At(name);
      const auto digest = DigestOfMidstates(name);
      if (!digest) {
        if (!ParseDigest("sha256:" + name, "") && !IsBesideName(name)) AddCorrupt(at, "is none of the store's files; remove it");
        continue;
      }
      const auto blob = OpenBlobFile(store_, Whole(*digest));
      const bool orphan = !blob && blob.error().code == Code::BLOB_MISSING;
      const bool damaged = blob && !ReadMidstates(store_, *digest, blob->size);
      if (!orphan && !damaged) continue;
      const bool removed = options_.repair && RemoveFile(sys_, store_.verified, name);
      Add({Code::STATE_CORRUPT, at,
           orphan ? "is of a blob that is not there; `veneer fsck --repair` removes it"
                  : "is damaged, which costs speed and nothing else; `veneer fsck --repair` removes it, the next hash makes it again"},
          removed);
    }
    return {};
  }

  Status CheckNames(const Dir& dir, bool (*is_ours)(const std::string& name)) {
    VENEER_ASSIGN(const auto names, ListNames(sys_, dir));
    for (const std::string& name : names)
      if (!is_ours(name) && !IsBesideName(name)) AddCorrupt(dir.At(name), "is none of the store's files; remove it");
    return {};
  }

  void CheckIndex(const Current& current) {
    const auto right = BuildIndex(store_, current);
    const auto found = ReadSmallFile(sys_, store_.root, std::string(kIndexName), kMaxIndexBytes);
    const auto layout = ReadSmallFile(sys_, store_.root, "oci-layout", kMaxIndexBytes);
    if (!right) return;  // a name or record that cannot be read: said above
    if (found && *found == *right && layout && *layout == kOciLayoutText) return;
    const bool repaired = options_.repair && UpdateIndex(store_, current).has_value();
    report_.findings.push_back(
        {"W2 INDEX_STALE", std::string(kIndexName), "is not the view of this store; `veneer fsck --repair` makes it again", repaired});
  }

  const StoreContext& store_;
  Sys& sys_;
  const FsckOptions& options_;
  FsckReport report_;
  std::uint64_t logged_generation_ = 0;  // the latest that the log says was committed
  std::set<Digest> needed_, compositions_;
};

}  // namespace

bool FsckReport::problems_left() const {
  return std::ranges::any_of(findings, [](const Finding& finding) { return !finding.repaired; });
}

Result<FsckReport> RunFsck(const StoreContext& store, const FsckOptions& options) { return Checker(store, options).Run(); }

}  // namespace veneer
