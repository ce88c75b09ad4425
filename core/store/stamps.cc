#include "core/store/stamps.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "core/store/crc32c.h"
#include "core/store/staging.h"

namespace veneer {
namespace {

constexpr std::int64_t kSettleNs = 2'000'000'000;
constexpr std::uint64_t kMaxStampBytes = 1024;

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

}  // namespace

std::string PrintStamp(const Stamp& stamp) {
  const FileInfo& info = stamp.info;
  return WithCrcLine(fmt::format("veneer-stamp 1\ndevice {}\ninode {}\nsize {}\nmtime_ns {}\nctime_ns {}\nwhen_ns {}\nbuild {}\n",
                                 info.device, info.inode, info.size, info.mtime_ns, info.ctime_ns, stamp.when_ns, stamp.build));
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
      !TakeNumber(rest, "ctime_ns", stamp.info.ctime_ns) || !TakeNumber(rest, "when_ns", stamp.when_ns) || !rest.starts_with("build "))
    return std::nullopt;
  stamp.build = rest.substr(6, rest.size() - 7);
  return stamp;
}

bool IsTrusted(const Stamp& stamp, const FileInfo& now) {
  const FileInfo& then = stamp.info;
  return then.device == now.device && then.inode == now.inode && then.size == now.size && then.mtime_ns == now.mtime_ns &&
         then.ctime_ns == now.ctime_ns && stamp.when_ns - now.ctime_ns >= kSettleNs;
}

bool HasTrustedStamp(const StoreContext& store, const Digest& digest, const FileInfo& now) {
  const auto text = ReadSmallFile(*store.sys, store.verified, digest.Hex(), kMaxStampBytes);
  if (!text || !*text) return false;
  const auto stamp = ParseStamp(**text);
  return stamp && IsTrusted(*stamp, now);
}

void WriteStamp(const StoreContext& store, const Digest& digest, const FileInfo& info, std::int64_t when_ns) {
  const Stamp stamp{info, when_ns, store.options.build};
  if (!IsTrusted(stamp, info)) return;
  const auto file = StagedFile::Create(store, kPrivatePermissions, PrintStamp(stamp));
  if (!file || !RemoveFile(*store.sys, store.verified, digest.Hex())) return;
  (void)file->LinkInto(store.verified, digest.Hex());  // a race with another verifier: its stamp is as good
}

}  // namespace veneer
