#include "core/store/stamps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "core/store/crc32c.h"
#include "core/store/staging.h"

namespace veneer {
namespace {

constexpr std::int64_t kSettleNs = 2'000'000'000;

// Takes "<name> <decimal>\n" from the front of the text.
template <class T>
bool TakeNumber(std::string_view& text, std::string_view name, T& value) {
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  if (!text.starts_with(' ')) return false;
  const auto parsed = std::from_chars(text.data() + 1, text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr == text.data() + text.size() || *parsed.ptr != '\n') return false;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr + 1 - text.data()));
  return true;
}

// Takes "verity none\n" or "verity sha256:…\n".
bool TakeVerity(std::string_view& text, std::optional<Digest>& verity) {
  constexpr std::string_view kName = "verity ";
  const auto end = text.find('\n');
  if (!text.starts_with(kName) || end == std::string_view::npos) return false;
  const std::string_view value = text.substr(kName.size(), end - kName.size());
  text.remove_prefix(end + 1);
  if (value == kNone) return true;
  const auto digest = ParseDigest(value, "");
  if (digest) verity = *digest;
  return digest.has_value();
}

}  // namespace

std::string PrintStamp(const Stamp& stamp) {
  const FileInfo& info = stamp.info;
  return WithCrcLine(fmt::format(
      "veneer-stamp 1\ndevice {}\ninode {}\nsize {}\nmtime_ns {}\nctime_ns {}\nwhen_ns {}\nverity {}\nbuild {}\n", info.device, info.inode,
      info.size, info.mtime_ns, info.ctime_ns, stamp.when_ns, stamp.verity ? stamp.verity->Text() : std::string(kNone), stamp.build));
}

std::optional<Stamp> ParseStamp(std::string_view text) {
  const auto body = CheckCrcLine(text);
  if (!body) return std::nullopt;
  std::string_view rest = *body;
  Stamp stamp;
  int version = 0;
  if (!TakeNumber(rest, "veneer-stamp", version) || version != 1) return std::nullopt;
  if (!TakeNumber(rest, "device", stamp.info.device) || !TakeNumber(rest, "inode", stamp.info.inode) ||
      !TakeNumber(rest, "size", stamp.info.size) || !TakeNumber(rest, "mtime_ns", stamp.info.mtime_ns) ||
      !TakeNumber(rest, "ctime_ns", stamp.info.ctime_ns) || !TakeNumber(rest, "when_ns", stamp.when_ns) ||
      !TakeVerity(rest, stamp.verity) || !rest.starts_with("build "))
    return std::nullopt;
  stamp.build = rest.substr(6, rest.size() - 7);
  return stamp;
}

bool IsTrusted(const Stamp& stamp, const FileInfo& now) {
  const FileInfo& then = stamp.info;
  return then.device == now.device && then.inode == now.inode && then.size == now.size && then.mtime_ns == now.mtime_ns &&
         then.ctime_ns == now.ctime_ns && stamp.when_ns - now.ctime_ns >= kSettleNs;
}

std::optional<Stamp> TrustedStamp(const StoreContext& store, const Digest& digest, const UniqueFd& fd, const FileInfo& now) {
  const auto text = ReadSmallFile(*store.sys, store.verified, digest.Hex(), kMaxStampBytes);
  if (!text || !*text) return std::nullopt;
  auto stamp = ParseStamp(**text);
  if (!stamp) return std::nullopt;
  const bool trusted = stamp->verity ? MeasureVerity(store, fd) == stamp->verity : IsTrusted(*stamp, now);
  return trusted ? std::move(stamp) : std::nullopt;
}

void WriteStamp(const StoreContext& store, const Digest& digest, const Stamp& stamp) {
  if (!stamp.verity && !IsTrusted(stamp, stamp.info)) return;
  (void)WriteHint(store, digest.Hex(), PrintStamp(stamp));
}

Status WriteHint(const StoreContext& store, const std::string& name, std::string_view bytes) {
  VENEER_ASSIGN(const StagedFile file, StagedFile::Create(store, kPrivatePermissions, bytes));
  VENEER_TRY(RemoveFile(*store.sys, store.verified, name));
  VENEER_TRY(file.LinkInto(store.verified, name));  // false: a race with another verifier, whose hint is as good
  return {};
}

bool EnableVerity(const StoreContext& store, const UniqueFd& fd) {
  const auto enabled = store.sys->EnableVerity(fd.get());
  return enabled || enabled.error() == EEXIST;
}

std::optional<Digest> MeasureVerity(const StoreContext& store, const UniqueFd& fd) {
  const auto measured = store.sys->MeasureVerity(fd.get());
  Digest digest;
  if (!measured || measured->size() != digest.bytes.size()) return std::nullopt;
  std::ranges::copy(*measured, digest.bytes.begin());
  return digest;
}

}  // namespace veneer
