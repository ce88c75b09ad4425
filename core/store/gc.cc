#include "core/store/gc.h"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <utility>

#include "core/store/index.h"
#include "core/store/live.h"
#include "core/store/lock.h"
#include "core/store/midstates.h"
#include "core/store/recovery.h"

namespace veneer {
namespace {

constexpr std::size_t kDigestHex = 64;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

class Collector {
 public:
  Collector(const StoreContext& store, const GcOptions& options) : store_(store), sys_(*store.sys), options_(options) {}

  Result<GcReport> Run() {
    VENEER_ASSIGN(const StoreLock lock, StoreLock::ForWriter(store_));
    // First, because the records below need room on a full disk; it finishes what an earlier collection did not delete.
    VENEER_TRY(EmptyTrash());
    auto recovered = Recover(store_);
    const bool no_room = !recovered && recovered.error().code == Code::DISK_FULL && options_.grace.count() == 0;
    if (!recovered && !no_room) return Fail(recovered.error());
    // With no room to end an interrupted activation, the pointer has been read and checked all the same. Whichever of two generations
    // a power cut leaves as the current one, both are retained.
    VENEER_ASSIGN(const Current current, ReadCurrentFile(store_));
    VENEER_TRY(MoveDead(current));
    if (no_room) {
      VENEER_TRY(EmptyTrash());
      recovered = Recover(store_);
      if (!recovered) return Fail(recovered.error());
    }
    Record(*recovered);
    VENEER_TRY(EmptyTrash());
    return std::move(report_);
  }

 private:
  // From here on nobody opens a file by its name until the moves are durable; then only descriptors matter.
  Status MoveDead(const Current& current) {
    VENEER_ASSIGN(const std::set<Digest> live, FindLiveBlobs(store_, current));
    VENEER_ASSIGN(const StoreLock alone, StoreLock::ForCollector(store_));
    VENEER_ASSIGN(const auto names, ListNames(sys_, store_.blobs));
    for (const std::string& name : names) {
      const auto digest = ParseDigest("sha256:" + name, "");
      if (!digest) continue;  // not a blob: fsck names it
      if (live.contains(*digest)) {
        ++report_.live;
      } else {
        VENEER_TRY(MoveToTrash(*digest));
      }
    }
    if (report_.moved == 0) return {};
    VENEER_TRY(SyncDir(sys_, store_.trash));
    return SyncDir(sys_, store_.blobs);
  }

  Status MoveToTrash(const Digest& digest) {
    const std::string hex = digest.Hex();
    const auto size = FileSize(store_.blobs, hex);
    if (!size) return {};  // a link or a folder in the place of a blob: fsck names it
    // Before the move, so that no kill leaves them without their blob.
    if (*size > kMidstatesAbove) VENEER_TRY(RemoveFile(sys_, store_.verified, MidstatesName(digest)));
    const std::string name = fmt::format("{}.{}", hex, sys_.WallClockNs() / kNsPerSecond);
    if (const auto moved = sys_.Rename(store_.blobs.fd.get(), hex, store_.trash.fd.get(), name); !moved)
      return Fail(IoError(moved.error(), store_.blobs.At(hex), "move into trash"));
    ++report_.moved;
    report_.moved_bytes += *size;
    return RemoveFile(sys_, store_.verified, hex);
  }

  // Deletes what has been in trash/ for the grace period, and counts what has not. A time in the future (the clock was set back) waits.
  Status EmptyTrash() {
    report_.in_trash = report_.in_trash_bytes = 0;
    VENEER_ASSIGN(const auto names, ListNames(sys_, store_.trash));
    const std::int64_t now = sys_.WallClockNs() / kNsPerSecond;
    for (const std::string& name : names) {
      const auto moved_at = TrashTime(name);
      if (!moved_at) continue;  // none of ours: fsck names it
      const std::uint64_t size = FileSize(store_.trash, name).value_or(0);
      const bool expired = options_.grace.count() == 0 || now - *moved_at >= options_.grace.count();
      if (expired) VENEER_TRY(RemoveFile(sys_, store_.trash, name));
      ++(expired ? report_.deleted : report_.in_trash);
      (expired ? report_.deleted_bytes : report_.in_trash_bytes) += size;
    }
    return {};
  }

  [[nodiscard]] std::optional<std::uint64_t> FileSize(const Dir& dir, const std::string& name) const {
    const auto fd = sys_.Open(dir.fd.get(), name, OpenMode::kRead, 0);
    if (!fd) return std::nullopt;
    const auto info = sys_.Stat(fd->get());
    if (!info || info->type != FileType::kRegular) return std::nullopt;
    return info->size;
  }

  // Evidence, after the moves and before the rest of the trash goes; what it cannot say changes nothing.
  void Record(Recovered& recovered) {
    const Status logged = recovered.log.Append(store_, "gc",
                                               {{"live", CanonicalInteger(report_.live)},
                                                {"moved", CanonicalInteger(report_.moved)},
                                                {"moved_bytes", CanonicalInteger(report_.moved_bytes)},
                                                {"grace_s", CanonicalInteger(static_cast<std::uint64_t>(options_.grace.count()))}});
    if (!logged) report_.warnings.push_back(fmt::format("W1 AUDIT_DEFERRED at={} {}", store_.audit.path, logged.error().Text()));
    if (std::string warning = UpdateIndexOrWarn(store_, recovered.current); !warning.empty())
      report_.warnings.push_back(std::move(warning));
  }

  const StoreContext& store_;
  Sys& sys_;
  const GcOptions& options_;
  GcReport report_;
};

}  // namespace

std::optional<std::int64_t> TrashTime(std::string_view name) {
  if (name.size() <= kDigestHex || name[kDigestHex] != '.') return std::nullopt;
  if (!ParseDigest(fmt::format("sha256:{}", name.substr(0, kDigestHex)), "")) return std::nullopt;
  const std::string_view digits = name.substr(kDigestHex + 1);
  std::int64_t seconds = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  if (parsed.ec != std::errc() || seconds < 0 || digits != std::to_string(seconds)) return std::nullopt;
  return seconds;
}

Result<GcReport> RunGc(const StoreContext& store, const GcOptions& options) { return Collector(store, options).Run(); }

}  // namespace veneer
