#include "core/plugin/module.h"

#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>
#include <cfenv>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/file.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace veneer {
namespace {

constexpr std::uint64_t kMaxLibraryBytes = 64 << 20;
constexpr char kEntrySymbol[] = "veneer_overlay_entry_v1";

// What a library's constructors must leave alone: a plugin linked with -ffast-math turns on flush-to-zero for the whole thread and
// with it changes the results of the base.
class FloatEnvironment {
 public:
  FloatEnvironment() : rounding_(std::fegetround()), control_(Control()) {}
  [[nodiscard]] bool Changed() const { return std::fegetround() != rounding_ || Control() != control_; }
  void Restore() const {
    std::fesetround(rounding_);
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~kControlBits) | control_);
#endif
  }

 private:
  static constexpr unsigned kControlBits = 0xFFC0;  // everything but the sticky exception flags
  static unsigned Control() {
#if defined(__x86_64__)
    return _mm_getcsr() & kControlBits;
#else
    return 0;
#endif
  }
  int rounding_;
  unsigned control_;
};

struct Held {
  FileBytes bytes;  // keeps descriptor N open: a reused /proc/self/fd/N would give the previous library again
  std::unique_ptr<boost::dll::shared_library> library;
  LoadedModule module;
};

// Modules by digest, never destroyed: unloading native plugins breaks more than it frees.
std::map<Digest, Held>& Registry() {
  static auto* registry = new std::map<Digest, Held>();
  return *registry;
}
std::mutex& LoaderLock() {
  static auto* lock = new std::mutex();
  return *lock;
}

}  // namespace

Status CheckEntry(const vnr_entry& entry, std::string_view at) {
  if (!VNR_HAS(&entry, vnr_entry, n_kinds))
    return Fail(Code::PLUGIN_FAULT, std::string(at), fmt::format("its entry has {} bytes, ABI 1.0 has {}", entry.struct_size, sizeof(vnr_entry)));
  if (entry.abi_major != VNR_ABI_MAJOR || entry.abi_minor_min > VNR_ABI_MINOR)
    return Fail(Code::PLUGIN_REFUSED, std::string(at),
                fmt::format("needs ABI {}.{}, this program has {}.{}; build it for that ABI or use a newer program", entry.abi_major,
                            entry.abi_minor_min, VNR_ABI_MAJOR, VNR_ABI_MINOR));
  if (entry.name == nullptr || entry.version == nullptr || entry.kinds == nullptr || entry.n_kinds == 0 || entry.n_kinds > 256)
    return Fail(Code::PLUGIN_FAULT, std::string(at), "its entry lacks a name, a version or kinds");
  return {};
}

Result<LoadedModule> LoadModule(const std::filesystem::path& path, const std::optional<Digest>& expected) {
  const std::string at = path.string();
  const std::lock_guard lock(LoaderLock());
  VENEER_ASSIGN(FileBytes bytes, FileBytes::Copy(path, kMaxLibraryBytes));
  const Digest digest = Sha256::Of(bytes.bytes());
  if (expected && digest != *expected)
    return Fail(Code::PLUGIN_REFUSED, at,
                fmt::format("the library is {}, its card says {}; write the card anew with veneer-card", digest.Text(), expected->Text()));
  if (const auto found = Registry().find(digest); found != Registry().end()) return found->second.module;

  const FloatEnvironment before;
  Held held;
  try {
    // The throwing form carries the loader's text; `get` avoids the alias level; NODELETE because nothing is ever unloaded.
    using boost::dll::load_mode::type;
    const auto mode = static_cast<type>(boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local | RTLD_NODELETE);
    held.library = std::make_unique<boost::dll::shared_library>(fmt::format("/proc/self/fd/{}", bytes.fd().get()), mode);
    if (before.Changed()) {
      before.Restore();
      (void)held.library.release();  // stays mapped, as every library does
      static auto* refused = new std::vector<FileBytes>();
      refused->push_back(std::move(bytes));
      return Fail(Code::PLUGIN_REFUSED, at, "changes the floating-point environment when it is loaded; build it without -ffast-math");
    }
    if (!held.library->has(kEntrySymbol)) {
      (void)held.library.release();
      return Fail(Code::PLUGIN_REFUSED, at, fmt::format("does not export {}; it is no overlay plugin", kEntrySymbol));
    }
    held.module.entry = &held.library->get<const vnr_entry>(kEntrySymbol);
  } catch (const std::exception& error) {
    before.Restore();
    return Fail(Code::PLUGIN_REFUSED, at, fmt::format("the loader says: {}", error.what()));
  }
  VENEER_TRY(CheckEntry(*held.module.entry, at));
  held.module.sha256 = digest;
  held.module.size = bytes.bytes().size();
  held.bytes = std::move(bytes);
  return Registry().emplace(digest, std::move(held)).first->second.module;
}

}  // namespace veneer
