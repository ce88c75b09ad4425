#include "core/store/blobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/manifest/base_list.h"
#include "core/store/stamps.h"

namespace veneer {
namespace {

constexpr std::size_t kChunk = 1 << 20;

// Reads the file from its first byte to its end and gives each part to `sink`. Returns the number of bytes.
Result<std::uint64_t> ReadThrough(Sys& sys, const UniqueFd& fd, const std::string& at,
                                  const std::function<Status(std::string_view)>& sink) {
  std::vector<std::byte> buffer(kChunk);
  std::uint64_t done = 0;
  for (;;) {
    const auto got = sys.Pread(fd.get(), buffer, done);
    if (!got && got.error() == EINTR) continue;
    if (!got) return Fail(IoError(got.error(), at, "read"));
    if (*got == 0) return done;
    VENEER_TRY(sink({reinterpret_cast<const char*>(buffer.data()), *got}));
    done += *got;
  }
}

bool SameFile(const FileInfo& a, const FileInfo& b) {
  return a.device == b.device && a.inode == b.inode && a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns;
}

// Hashes the file. E303; what one pass has counted by `step` when it fails, the next does not count again.
Status ProveContent(const StoreContext& store, const OpenedBlob& blob, const std::function<void(std::uint64_t)>& step) {
  std::uint64_t counted = 0, done = 0;
  const auto count = [&](std::uint64_t bytes) {
    counted += bytes;
    if (step) step(bytes);
  };
  const auto midstates = ReadMidstates(store, blob.digest, blob.size);
  if (midstates && ProveByMidstates(*store.sys, blob.fd, blob.digest, blob.size, *midstates, store.options.threads, count)) return {};
  MidstateHasher hash;
  const auto add = [&](std::string_view part) -> Status {
    hash.Update(part);
    done += part.size();
    if (done > counted) count(done - counted);
    return {};
  };
  VENEER_ASSIGN(const std::uint64_t size, ReadThrough(*store.sys, blob.fd, blob.at, add));
  const Digest found = hash.Finish();
  if (found != blob.digest)
    return Fail(Code::HASH_MISMATCH, blob.at,
                fmt::format("blob {} holds {} bytes that hash to {}; run `veneer fsck --repair`, then import the file again",
                            blob.digest.Text(), size, found.Text()));
  WriteMidstates(store, blob.digest, size, hash.midstates());
  return {};
}

// The file that has a blob's name already: is it that blob?
Result<bool> IsGood(const StoreContext& store, const StagedBlob& blob) {
  auto opened = OpenBlobFile(store, {store.blobs.At(blob.digest().Hex()), blob.digest(), blob.size()});
  Status status = opened ? VerifyBlob(store, *opened, VerifyMode::kFull, {}) : Status(std::unexpected(opened.error()));
  if (status) return true;
  const int number = static_cast<int>(status.error().code);
  if (number >= 300 && number < 400) return false;
  return Fail(std::move(status).error());
}

}  // namespace

Result<StagedBlob> StageFile(const StoreContext& store, const UniqueFd& source, const std::string& name, const Progress& progress) {
  Sys& sys = *store.sys;
  const auto before = sys.Stat(source.get());
  if (!before) return Fail(IoError(before.error(), name, "stat"));
  if (before->type != FileType::kRegular) return Fail(Code::BLOB_NOT_REGULAR, name, "is not a regular file; give the path of a plain file");
  VENEER_ASSIGN(StagedFile file, StagedFile::Create(store, kBlobPermissions));
  MidstateHasher hash;
  std::uint64_t done = 0;
  const auto copy = [&](std::string_view part) -> Status {
    hash.Update(part);
    VENEER_TRY(WriteAll(sys, file.fd(), part, store.staging.path));
    done += part.size();
    if (progress) progress(done, before->size);
    return {};
  };
  VENEER_ASSIGN(const std::uint64_t size, ReadThrough(sys, source, name, copy));
  if (size != before->size)
    return Fail(Code::BLOB_CHANGED, name, fmt::format("had {} bytes, {} were read; try again when nobody writes it", before->size, size));
  VENEER_TRY(SyncFile(sys, file.fd(), store.staging.path));
  const Digest digest = hash.Finish();
  return StagedBlob(digest, size, std::move(file), hash.midstates());
}

Result<StagedBlob> StageBytes(const StoreContext& store, std::string_view bytes) {
  VENEER_ASSIGN(StagedFile file, StagedFile::Create(store, kBlobPermissions, bytes));
  MidstateHasher hash;
  hash.Update(bytes);
  const Digest digest = hash.Finish();
  return StagedBlob(digest, bytes.size(), std::move(file), hash.midstates());
}

Result<Placement> PlaceBlob(const StoreContext& store, const StagedBlob& blob) {
  const std::string hex = blob.digest().Hex();
  VENEER_ASSIGN(const bool linked, blob.file().LinkInto(store.blobs, hex));
  if (linked) return Placement::kNew;
  VENEER_ASSIGN(const bool good, IsGood(store, blob));
  if (good) return Placement::kPresent;
  VENEER_TRY(QuarantineBlob(store, hex));
  VENEER_ASSIGN(const bool replaced, blob.file().LinkInto(store.blobs, hex));
  if (!replaced) return Fail(Code::STATE_CORRUPT, store.blobs.At(hex), "another program writes into the store; stop it");
  return Placement::kRepaired;
}

Status QuarantineBlob(const StoreContext& store, const std::string& hex) {
  Sys& sys = *store.sys;
  VENEER_ASSIGN(const std::string random, RandomHex(sys, 8));
  const std::string name = fmt::format("{}.{}", hex, random);
  if (const auto moved = sys.Rename(store.blobs.fd.get(), hex, store.quarantine.fd.get(), name); !moved)
    return Fail(IoError(moved.error(), store.blobs.At(hex), "move into quarantine"));
  VENEER_TRY(RemoveFile(sys, store.verified, hex));
  VENEER_TRY(SyncDir(sys, store.quarantine));
  return SyncDir(sys, store.blobs);
}

Result<std::vector<BlobRef>> ReferencedBlobs(const StoreContext& store, const Composition& composition) {
  std::vector<BlobRef> blobs{{"/base_model_hash", composition.base_model_hash, composition.base_model_size},
                             {"/tokenizer_hash", composition.tokenizer_hash, composition.tokenizer_size}};
  for (std::size_t i = 0; i < composition.adapters.size(); ++i) {
    const AdapterEntry& adapter = composition.adapters[i];
    blobs.push_back({fmt::format("/adapters/{}/file_hash", i), adapter.file_hash, adapter.file_size});
    if (adapter.config_hash) blobs.push_back({fmt::format("/adapters/{}/config_hash", i), *adapter.config_hash, adapter.config_size});
  }
  if (composition.base_format != kListedBaseFormat) return blobs;
  VENEER_ASSIGN(const std::string list, ReadBlob(store, blobs.front(), kMaxBaseListBytes));
  auto files = ParseBaseList(list);
  if (!files) return Fail(std::move(files).error().Within("/base_model_hash"));
  for (const ListedFile& file : *files) blobs.push_back({fmt::format("/base_model_hash: {}", file.name), file.digest, file.size});
  return blobs;
}

Result<OpenedBlob> OpenBlobFile(const StoreContext& store, const BlobRef& blob) {
  Sys& sys = *store.sys;
  auto fd = sys.Open(store.blobs.fd.get(), blob.digest.Hex(), OpenMode::kRead, 0);
  if (!fd && fd.error() == ENOENT)
    return Fail(Code::BLOB_MISSING, blob.at, fmt::format("blob {} is not in the store; import it", blob.digest.Text()));
  if (!fd && fd.error() == ELOOP)
    return Fail(Code::BLOB_NOT_REGULAR, blob.at,
                fmt::format("blob {} is a symbolic link; remove it and import the file", blob.digest.Text()));
  if (!fd) return Fail(IoError(fd.error(), blob.at, fmt::format("open blob {}", blob.digest.Text())));
  const auto info = sys.Stat(fd->get());
  if (!info) return Fail(IoError(info.error(), blob.at, "stat"));
  if (info->type != FileType::kRegular)
    return Fail(Code::BLOB_NOT_REGULAR, blob.at,
                fmt::format("blob {} is no regular file; remove it and import the file", blob.digest.Text()));
  if (blob.size && info->size != *blob.size)
    return Fail(Code::SIZE_MISMATCH, blob.at,
                fmt::format("blob {} has {} bytes, {} are named", blob.digest.Text(), info->size, *blob.size));
  if (info->owner != store.owner || (info->permissions & 0222) != 0)
    return Fail(Code::BLOB_CHANGED, blob.at,
                fmt::format("blob {} belongs to user {} with mode {:04o}; a blob is the store owner's and 0444", blob.digest.Text(),
                            info->owner, info->permissions));
  return OpenedBlob{blob.at, blob.digest, info->size, *std::move(fd), *info};
}

Status VerifyBlob(const StoreContext& store, OpenedBlob& blob, VerifyMode mode, const std::function<void(std::uint64_t)>& step) {
  Sys& sys = *store.sys;
  if (mode == VerifyMode::kStamp) {
    if (const auto stamp = TrustedStamp(store, blob.digest, blob.fd, blob.info)) {
      blob.verity = stamp->verity;
      if (step) step(blob.size);
      return {};
    }
  }
  const bool sealed = EnableVerity(store, blob.fd);
  if (sealed) {  // which may have changed the file's times
    const auto info = sys.Stat(blob.fd.get());
    if (!info) return Fail(IoError(info.error(), blob.at, "stat"));
    blob.info = *info;
  }
  const std::int64_t started_ns = sys.WallClockNs();
  VENEER_TRY(ProveContent(store, blob, step));
  const auto after = sys.Stat(blob.fd.get());
  if (!after) return Fail(IoError(after.error(), blob.at, "stat"));
  if (!SameFile(blob.info, *after)) return Fail(Code::BLOB_CHANGED, blob.at, "the blob was changed while it was read");
  if (sealed) blob.verity = MeasureVerity(store, blob.fd);
  WriteStamp(store, blob.digest, {*after, started_ns, blob.verity, store.options.build});
  return {};
}

Result<std::vector<OpenedBlob>> OpenAndVerify(const StoreContext& store, std::span<const BlobRef> blobs, VerifyMode mode,
                                              std::vector<OpenedBlob> verified, const Progress& progress) {
  std::vector<OpenedBlob> opened;
  std::uint64_t total = 0, done = 0;
  for (const BlobRef& blob : blobs) {
    VENEER_ASSIGN(OpenedBlob file, OpenBlobFile(store, blob));
    total += file.size;
    opened.push_back(std::move(file));
  }
  const auto step = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  for (OpenedBlob& blob : opened) {
    const auto earlier = std::ranges::find(verified, blob.digest, &OpenedBlob::digest);
    if (earlier != verified.end() && SameFile(earlier->info, blob.info)) {
      blob.verity = earlier->verity;
      step(blob.size);
      continue;  // the same inode, unchanged since it was hashed in this very operation
    }
    VENEER_TRY(VerifyBlob(store, blob, mode, step));
  }
  return opened;
}

Result<std::string> ReadBlob(const StoreContext& store, const BlobRef& blob, std::uint64_t limit) {
  VENEER_ASSIGN(const OpenedBlob opened, OpenBlobFile(store, blob));
  if (opened.size > limit)
    return Fail(Code::INPUT_TOO_LARGE, blob.at, fmt::format("blob {} has {} bytes, allowed {}", blob.digest.Text(), opened.size, limit));
  VENEER_ASSIGN(std::string bytes, ReadAll(*store.sys, opened.fd, limit, blob.at));
  if (Sha256::Of(bytes) != blob.digest)
    return Fail(Code::HASH_MISMATCH, blob.at, fmt::format("blob {} hashes to {}", blob.digest.Text(), Sha256::Of(bytes).Text()));
  return bytes;
}

}  // namespace veneer
