#include "core/store/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

namespace veneer {
namespace {

constexpr std::string_view kFormatName = "FORMAT";
constexpr std::string_view kFormatPrefix = "veneer-store ";
constexpr std::string_view kFormatVersion = "veneer-store 1\n";
constexpr std::uint64_t kFormatLimit = 512;
constexpr std::uint32_t kPublicDirectory = 0755;
constexpr std::uint32_t kPrivateDirectory = 0700;

// f_type of statfs(2). On these, locks, renames or open files of removed names do not behave as the protocol needs.
struct RefusedFileSystem {
  std::uint64_t magic;
  std::string_view name;
};
constexpr RefusedFileSystem kRefused[] = {{0x6969, "NFS"},      {0x517b, "SMB"},    {0xff534d42, "CIFS"},
                                          {0xfe534d42, "SMB2"}, {0x01021997, "9p"}, {0x65735546, "FUSE"}};
// Allowed; durability is what the mount gives.
constexpr RefusedFileSystem kVolatile[] = {{0x01021994, "tmpfs"}, {0x858458f6, "ramfs"}, {0x794c7630, "overlay"}};

std::optional<std::string_view> FindFileSystem(std::span<const RefusedFileSystem> list, std::uint64_t magic) {
  const auto found = std::ranges::find(list, magic, &RefusedFileSystem::magic);
  if (found == list.end()) return std::nullopt;
  return found->name;
}

Status CheckFileSystem(StoreContext& store) {
  const auto magic = store.sys->FileSystemMagic(store.root.fd.get());
  if (!magic) return Fail(IoError(magic.error(), ".", "identify the file system"));
  if (const auto name = FindFileSystem(kRefused, *magic))
    return Fail(Code::FS_UNSUPPORTED, ".",
                fmt::format("the store lies on {}, which does not keep the promises of its protocol; use a local disk", *name));
  if (const auto name = FindFileSystem(kVolatile, *magic))
    store.warnings.push_back(
        fmt::format("W4 VOLATILE_STORE at=. the store lies on {}; what it keeps after a power cut is up to that mount", *name));
  return {};
}

Status CheckDirectory(const StoreContext& store, const Dir& dir, std::uint32_t forbidden) {
  const std::string at = dir.path.empty() ? "." : dir.path;
  const auto info = store.sys->Stat(dir.fd.get());
  if (!info) return Fail(IoError(info.error(), at, "stat"));
  if (info->owner != store.owner)
    return Fail(Code::STORE_PERMISSIONS, at,
                fmt::format("belongs to user {}, this process runs as {}; use a store of your own", info->owner, store.owner));
  if ((info->permissions & forbidden) != 0)
    return Fail(
        Code::STORE_PERMISSIONS, at,
        fmt::format("has mode {:04o}; others could change the store, allowed is at most {:04o}", info->permissions, 0777 & ~forbidden));
  return {};
}

Result<StoreContext> OpenRoot(Sys& sys, const std::string& path, const StoreOptions& options) {
  StoreContext store;
  store.sys = &sys;
  store.options = options;
  store.owner = sys.User();
  auto fd = sys.OpenRoot(path);
  if (!fd && fd.error() == ENOENT) return Fail(Code::STORE_FORMAT, path, "no store here; make one with `veneer init`");
  if (!fd) return Fail(IoError(fd.error(), path, "open the store"));
  store.root.fd = *std::move(fd);
  VENEER_TRY(CheckFileSystem(store));
  VENEER_TRY(CheckDirectory(store, store.root, 0022));
  return store;
}

using OpenChild = Result<Dir> (*)(Sys&, const Dir& parent, const std::string& name, std::uint32_t permissions);

// An existing name is synced as well: whoever made it may have died before that.
Result<Dir> OpenOrMake(Sys& sys, const Dir& parent, const std::string& name, std::uint32_t permissions) {
  if (const auto made = sys.MakeDirectory(parent.fd.get(), name, permissions); !made && made.error() != EEXIST)
    return Fail(IoError(made.error(), parent.At(name), "make the directory"));
  VENEER_TRY(SyncDir(sys, parent));
  return OpenDir(sys, parent, name);
}

// What a store keeps in these can be lost: hints, files on their way in or out, and bad ones.
constexpr std::array<std::string_view, 4> kSpareFolders{"staging", "trash", "quarantine", "verified"};

Result<Dir> OpenExisting(Sys& sys, const Dir& parent, const std::string& name, std::uint32_t permissions) {
  auto fd = TryOpen(sys, parent, name, OpenMode::kDirectory);
  if (fd) return Dir{*std::move(fd), parent.At(name)};
  const bool is_lost = fd.error() == ENOENT;
  if (is_lost && std::ranges::find(kSpareFolders, name) != kSpareFolders.end()) return OpenOrMake(sys, parent, name, permissions);
  if (is_lost) return Fail(Code::STATE_CORRUPT, parent.At(name), "the folder is missing; restore the whole store from a copy");
  if (fd.error() == ENOTDIR || fd.error() == ELOOP)
    return Fail(Code::STATE_CORRUPT, parent.At(name), "is no folder; restore the whole store from a copy");
  return Fail(IoError(fd.error(), parent.At(name), "open"));
}

Status OpenTree(StoreContext& store, OpenChild child) {
  Sys& sys = *store.sys;
  VENEER_ASSIGN(const Dir blobs, child(sys, store.root, "blobs", kPublicDirectory));
  VENEER_ASSIGN(store.blobs, child(sys, blobs, "sha256", kPublicDirectory));
  VENEER_ASSIGN(store.veneer, child(sys, store.root, "veneer", kPrivateDirectory));
  VENEER_ASSIGN(const Dir refs, child(sys, store.veneer, "refs", kPrivateDirectory));
  for (const RefKind kind : kRefKinds) {
    VENEER_ASSIGN(store.refs[static_cast<std::size_t>(kind)], child(sys, refs, std::string(RefKindName(kind)), kPrivateDirectory));
  }
  const std::pair<Dir*, const char*> folders[] = {{&store.state, "state"},      {&store.gen, "gen"},     {&store.audit, "audit"},
                                                  {&store.staging, "staging"},  {&store.trash, "trash"}, {&store.quarantine, "quarantine"},
                                                  {&store.verified, "verified"}};
  for (const auto& [dir, name] : folders) {
    VENEER_ASSIGN(*dir, child(sys, store.veneer, name, kPrivateDirectory));
  }
  VENEER_TRY(CheckDirectory(store, blobs, 0022));
  VENEER_TRY(CheckDirectory(store, store.blobs, 0022));
  return CheckDirectory(store, store.veneer, 0077);
}

Status CheckFormat(const StoreContext& store) {
  VENEER_ASSIGN(const auto text, ReadSmallFile(*store.sys, store.veneer, std::string(kFormatName), kFormatLimit));
  const std::string at = store.veneer.At(kFormatName);
  if (!text) return Fail(Code::STORE_FORMAT, at, "is missing: an interrupted `veneer init`; run it again");
  if (!text->starts_with(kFormatPrefix)) return Fail(Code::STORE_FORMAT, at, "is not the mark of a store");
  if (!text->starts_with(kFormatVersion))
    return Fail(Code::STORE_FORMAT, at,
                fmt::format("says \"{}\", this build reads veneer-store 1; use the version of veneer that wrote it",
                            text->substr(0, text->find('\n'))));
  return {};
}

// What an interrupted Init may have left at the root.
bool IsRootName(std::string_view name) {
  return name == "blobs" || name == "veneer" || name == "oci-layout" || name == kIndexName || IsBesideName(name);
}

}  // namespace

std::string_view RefKindName(RefKind kind) {
  switch (kind) {
    case RefKind::kBase:
      return "base";
    case RefKind::kAdapter:
      return "adapter";
    case RefKind::kComposition:
      return "composition";
  }
  return "";
}

Result<StoreContext> OpenLayout(Sys& sys, const std::string& path, const StoreOptions& options) {
  VENEER_ASSIGN(StoreContext store, OpenRoot(sys, path, options));
  VENEER_ASSIGN(const auto names, ListNames(sys, store.root));
  if (!std::ranges::binary_search(names, std::string("veneer")))
    return Fail(Code::STORE_FORMAT, path, "this folder is not a store; make one with `veneer init`");
  VENEER_ASSIGN(store.veneer, OpenDir(sys, store.root, "veneer"));
  VENEER_TRY(CheckFormat(store));
  VENEER_TRY(OpenTree(store, OpenExisting));
  return store;
}

Result<StoreContext> CreateLayout(Sys& sys, const std::string& path, const StoreOptions& options) {
  if (const auto made = sys.MakeRoot(path); !made) return Fail(IoError(made.error(), path, "make the folder"));
  VENEER_ASSIGN(StoreContext store, OpenRoot(sys, path, options));
  VENEER_ASSIGN(const auto names, ListNames(sys, store.root));
  const auto foreign = std::ranges::find_if_not(names, IsRootName);
  if (foreign != names.end())
    return Fail(Code::STORE_FORMAT, path, fmt::format("holds \"{}\", which is none of a store's; give an empty folder", *foreign));
  VENEER_TRY(OpenTree(store, OpenOrMake));
  if (const auto format = ReadSmallFile(sys, store.veneer, std::string(kFormatName), kFormatLimit); format && *format)
    return Fail(Code::STORE_FORMAT, path, "holds a store already; use it, or give another folder");
  return store;
}

Status WriteFormat(const StoreContext& store) {
  VENEER_ASSIGN(const std::string uuid, RandomHex(*store.sys, 16));
  return ReplaceFile(*store.sys, store.veneer, std::string(kFormatName), fmt::format("{}uuid {}\n", kFormatVersion, uuid),
                     kPrivatePermissions);
}

}  // namespace veneer
