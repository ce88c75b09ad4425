#include "core/plugin/module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cerrno>
#include <cfenv>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace veneer {
namespace {

constexpr std::uint64_t kMaxLibraryBytes = 64 << 20;
constexpr char kEntrySymbol[] = "veneer_overlay_entry_v1";
constexpr std::uint32_t kMaxKinds = 256;
// Minor version 0 of the ABI ends here.
constexpr std::uint32_t kEntrySize = offsetof(vnr_entry, reserved) + sizeof(vnr_entry::reserved);

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

// A library the loader has mapped. Never destroyed: unloading native plugins breaks more than it frees, and a closed descriptor N would be
// reused, after which "/proc/self/fd/N" names this library for the loader whatever the new file is.
struct Held {
  FileBytes bytes;
  std::unique_ptr<boost::dll::shared_library> library;
  Result<LoadedModule> outcome;
};

std::map<Digest, Held>& Registry() {
  static auto* registry = new std::map<Digest, Held>();
  return *registry;
}
std::mutex& LoaderLock() {  // dlopen from two threads is not safe everywhere, and the registry needs one anyway
  static auto* lock = new std::mutex();
  return *lock;
}

// DT_NEEDED entries of a loaded library.
std::vector<std::string> NeededBy(void* handle) {
  std::vector<std::string> names;
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return names;
  const char* strings = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  for (const ElfW(Dyn)* entry = map->l_ld; strings != nullptr && entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_NEEDED) names.emplace_back(strings + entry->d_un.d_val);
  return names;
}

// The entry must be data of at least the size that is read before struct_size is known to be right.
Status CheckSymbol(const void* symbol, const std::string& at) {
  Dl_info info{};
  const ElfW(Sym)* entry = nullptr;
  if (dladdr1(symbol, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&entry)), RTLD_DL_SYMENT) == 0 || entry == nullptr) return {};
  if (ELF64_ST_TYPE(entry->st_info) != STT_OBJECT || entry->st_size < kEntrySize ||
      reinterpret_cast<std::uintptr_t>(symbol) % alignof(vnr_entry) != 0)
    return Fail(Code::PLUGIN_FAULT, at,
                fmt::format("{} is no aligned object of at least {} bytes; declare it as `const vnr_entry`", kEntrySymbol, kEntrySize));
  return {};
}

// Whether the loader's text, which has no code of its own, is about memory. A library that may not be executed where it lies fails in
// the same words: one page of it shows the difference.
bool IsOutOfMemory(const Held& held, std::string_view text) {
  constexpr std::string_view kWords[] = {"failed to map segment", "cannot map zero-fill pages", "Cannot allocate memory", "out of memory"};
  if (std::ranges::none_of(kWords, [text](std::string_view words) { return text.find(words) != std::string_view::npos; })) return false;
  void* const page = mmap(nullptr, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, held.bytes.fd().get(), 0);
  if (page == MAP_FAILED) return errno == ENOMEM;
  munmap(page, 1);
  return true;
}

// Runs the library's constructors; nothing else of it.
Result<LoadedModule> Open(Held& held, const std::string& at) {
  const FloatEnvironment before;
  try {
    // The throwing form carries the loader's text; `get` avoids the alias level; NODELETE because nothing is ever unloaded.
    using boost::dll::load_mode::type;
    const auto mode = static_cast<type>(boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local | RTLD_NODELETE);
    held.library = std::make_unique<boost::dll::shared_library>(fmt::format("/proc/self/fd/{}", held.bytes.fd().get()), mode);
  } catch (const std::bad_alloc&) {
    before.Restore();
    throw;
  } catch (const std::exception& error) {
    before.Restore();
    if (IsOutOfMemory(held, error.what()))
      return Fail(Code::OUT_OF_MEMORY, at, fmt::format("the system refused the memory to load it; the loader says: {}", error.what()));
    return Fail(Code::PLUGIN_REFUSED, at, fmt::format("the loader says: {}", error.what()));
  }
  if (before.Changed()) {
    before.Restore();
    return Fail(Code::PLUGIN_REFUSED, at, "changes the floating-point environment when it is loaded; build it without -ffast-math");
  }
  if (!held.library->has(kEntrySymbol))
    return Fail(Code::PLUGIN_REFUSED, at, fmt::format("does not export {}; it is no overlay plugin", kEntrySymbol));
  LoadedModule module;
  // As a byte first: before it has been checked, the symbol may be anything, at any address.
  const unsigned char* symbol = &held.library->get<const unsigned char>(kEntrySymbol);
  VENEER_TRY(CheckSymbol(symbol, at));
  module.entry = reinterpret_cast<const vnr_entry*>(symbol);
  VENEER_TRY(CheckEntry(*module.entry, at));
  module.libraries = NeededBy(held.library->native());
  return module;
}

}  // namespace

Status CheckEntry(const vnr_entry& entry, std::string_view at) {
  const std::string place(at);
  if (entry.struct_size < offsetof(vnr_entry, name))
    return Fail(Code::PLUGIN_FAULT, place, fmt::format("its entry has {} bytes", entry.struct_size));
  if (entry.abi_major != VNR_ABI_MAJOR || entry.abi_minor_min > VNR_ABI_MINOR)
    return Fail(Code::PLUGIN_REFUSED, place,
                fmt::format("needs ABI {}.{}, this program has {}.{}; build it for that ABI or use a newer program", entry.abi_major,
                            entry.abi_minor_min, VNR_ABI_MAJOR, VNR_ABI_MINOR));
  if (entry.struct_size < kEntrySize)
    return Fail(Code::PLUGIN_FAULT, place,
                fmt::format("its entry has {} bytes, ABI {}.0 has {}", entry.struct_size, VNR_ABI_MAJOR, kEntrySize));
  if (entry.name == nullptr || entry.version == nullptr || entry.kinds == nullptr || entry.n_kinds == 0 || entry.n_kinds > kMaxKinds)
    return Fail(Code::PLUGIN_FAULT, place, "its entry lacks a name, a version or kinds");
  for (std::uint32_t i = 0; i < entry.n_kinds; ++i)
    if (entry.kinds[i] == nullptr) return Fail(Code::PLUGIN_FAULT, place, fmt::format("its kind {} is NULL", i));
  return {};
}

Result<PluginCard> CardOf(const vnr_entry& entry, std::string_view at) {
  VENEER_TRY(CheckEntry(entry, at));
  PluginCard card;
  card.name = entry.name;
  card.version = entry.version;
  card.abi_major = entry.abi_major;
  card.abi_minor_built = entry.abi_minor_built;
  card.abi_minor_min = entry.abi_minor_min;
  card.platform = Platform();
  for (std::uint32_t i = 0; i < entry.n_kinds; ++i) {
    auto kind = DeclareKind(*entry.kinds[i]);
    if (!kind) return Fail(std::move(kind).error().Within(at));
    if (std::ranges::count(card.kinds, kind->id, &KindDecl::id) != 0)
      return Fail(Code::PLUGIN_FAULT, std::string(at), fmt::format("offers kind {} twice", kind->id));
    card.kinds.push_back(*std::move(kind));
  }
  return card;
}

Result<LoadedModule> LoadModule(const UniqueFd& library, const std::string& name, const std::optional<Digest>& expected) {
  const std::lock_guard lock(LoaderLock());
  VENEER_ASSIGN(FileBytes bytes, FileBytes::CopyFd(library, name, kMaxLibraryBytes));
  const Digest digest = Sha256::Of(bytes.bytes());
  if (expected && digest != *expected)
    return Fail(Code::PLUGIN_REFUSED, name,
                fmt::format("the library is {}, its card says {}; write the card anew with veneer-card", digest.Text(), expected->Text()));
  // A library that was refused after it was mapped is refused again without being mapped again.
  if (const auto found = Registry().find(digest); found != Registry().end()) return found->second.outcome;

  Held held{std::move(bytes), nullptr, LoadedModule{}};
  held.outcome = Open(held, name);
  if (held.library == nullptr) return held.outcome;  // nothing was mapped, so nothing needs to be kept
  if (held.outcome) {
    held.outcome->sha256 = digest;
    held.outcome->size = held.bytes.bytes().size();
  }
  return Registry().emplace(digest, std::move(held)).first->second.outcome;
}

std::string_view Platform() {
#if defined(__x86_64__)
  return "linux-x86_64";
#elif defined(__aarch64__)
  return "linux-aarch64";
#else
  return "linux-other";
#endif
}

}  // namespace veneer
