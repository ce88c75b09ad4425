// Content-addressed files: blobs/sha256/<64 hex>, write-once, mode 0444. No blob is handed out unless its bytes were hashed, or carry
// a valid stamp of an earlier hash, through the very descriptor that is handed out.
#ifndef VENEER_CORE_STORE_BLOBS_H_
#define VENEER_CORE_STORE_BLOBS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/manifest/composition.h"
#include "core/store/layout.h"
#include "core/store/midstates.h"
#include "core/store/records.h"
#include "core/store/staging.h"

namespace veneer {

// Called while long files are read; bytes done of bytes in all.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// A file that is whole, synced and hashed but not yet in the store. What it holds can be read (or mapped) through fd().
class StagedBlob {
 public:
  StagedBlob(Digest digest, std::uint64_t size, StagedFile file, Midstates midstates)
      : digest_(digest), size_(size), file_(std::move(file)), midstates_(std::move(midstates)) {}
  [[nodiscard]] const Digest& digest() const { return digest_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const UniqueFd& fd() const { return file_.fd(); }
  [[nodiscard]] const StagedFile& file() const { return file_; }
  [[nodiscard]] const Midstates& midstates() const { return midstates_; }

 private:
  Digest digest_;
  std::uint64_t size_;
  StagedFile file_;
  Midstates midstates_;
};

// Copies the regular file behind `source` (from its first byte) into staging/ and hashes what it copies. E304 no regular file, E305
// when its size changes meanwhile, E502, E603. `name` is for messages.
Result<StagedBlob> StageFile(const StoreContext& store, const UniqueFd& source, const std::string& name, const Progress& progress);
Result<StagedBlob> StageBytes(const StoreContext& store, std::string_view bytes);

enum class Placement { kNew, kPresent, kRepaired };  // kRepaired: a bad file had the name; it is in quarantine/ now
// Under byte 0, after recovery. Durable once SyncDir(store.blobs) has returned.
Result<Placement> PlaceBlob(const StoreContext& store, const StagedBlob& blob);

// Moves the file with this name out of blobs/; under byte 0.
Status QuarantineBlob(const StoreContext& store, const std::string& hex);

struct BlobRef {
  std::string at;  // the place that names the blob: "/adapters/0/file_hash"
  Digest digest;
  std::optional<std::uint64_t> size;  // nothing: whatever it is
};
// Base, tokenizer, and per adapter its file and its configuration, in this order; then the files of a base that is a list of files, which
// is read for that: E301-E305, E1xx and E2xx when it is no list.
Result<std::vector<BlobRef>> ReferencedBlobs(const StoreContext& store, const Composition& composition);

struct OpenedBlob {
  std::string at;
  Digest digest;
  std::uint64_t size = 0;
  UniqueFd fd;
  FileInfo info;                      // as it was when the blob was opened, or sealed by fs-verity
  std::optional<Digest> verity = {};  // once verified: the fs-verity digest, where the file system has it
};
// Opens and checks everything but the content: E301 missing, E304 no regular file, E302 size, E305 owner or mode.
Result<OpenedBlob> OpenBlobFile(const StoreContext& store, const BlobRef& blob);
// Hashes through the descriptor unless a stamp may be trusted; before that has fs-verity seal the file where it can, and leaves a stamp.
// A large blob is hashed by all threads of the options where its midstates are kept, else by one, which leaves them.
// E303, and E305 when the file changes meanwhile.
// `step` is called with the number of bytes just done.
Status VerifyBlob(const StoreContext& store, OpenedBlob& blob, VerifyMode mode, const std::function<void(std::uint64_t)>& step);

// Both for a list, with progress over all of it. Blobs in `verified` (opened and verified just before) are taken over when the store
// still has that very file unchanged, so that nothing is hashed twice.
Result<std::vector<OpenedBlob>> OpenAndVerify(const StoreContext& store, std::span<const BlobRef> blobs, VerifyMode mode,
                                              std::vector<OpenedBlob> verified, const Progress& progress);

// The bytes of a small blob, hashed. E101 above `limit`, E301-E305.
Result<std::string> ReadBlob(const StoreContext& store, const BlobRef& blob, std::uint64_t limit);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_BLOBS_H_
