// The states that SHA-256 goes through on its way along a large file, one every 4 MiB. With them the file's one digest is proven by
// several threads at once, each from state to state. They are not trusted: that every part leads from its state to the next, the first
// from the standard's initial state and the last to the digest, is the computation of the digest itself, and wrong states fail it.
#ifndef VENEER_CORE_STORE_MIDSTATES_H_
#define VENEER_CORE_STORE_MIDSTATES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/store/layout.h"
#include "core/store/resumable_sha256.h"

namespace veneer {

inline constexpr std::uint64_t kMidstateStep = 4 << 20;    // bytes from one state to the next
inline constexpr std::uint64_t kMidstatesAbove = 8 << 20;  // bytes of a file; a smaller one has none kept

using Midstates = std::vector<HashState>;  // after the first step, the second …; none at the end of the file
[[nodiscard]] constexpr std::uint64_t MidstatesOf(std::uint64_t size) { return size == 0 ? 0 : (size - 1) / kMidstateStep; }

// SHA-256 of bytes in order, which keeps the states on its way.
class MidstateHasher {
 public:
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }
  // The hasher is spent afterwards. `midstates()` is complete only then.
  [[nodiscard]] Digest Finish();
  [[nodiscard]] const Midstates& midstates() const { return midstates_; }

 private:
  ResumableSha256 hash_;
  std::uint64_t done_ = 0;
  Midstates midstates_;
};

// verified/<hex>.midstates, of the blob with that digest.
std::string MidstatesName(const Digest& digest);
std::optional<Digest> DigestOfMidstates(std::string_view name);  // nothing when it is no such name
std::string PrintMidstates(const Digest& digest, std::uint64_t size, const Midstates& midstates);
std::optional<Midstates> ParseMidstates(std::string_view text, const Digest& digest, std::uint64_t size);

// What is kept for a blob of that size; nothing when that is absent, torn or of another file. A blob up to kMidstatesAbove costs no call.
std::optional<Midstates> ReadMidstates(const StoreContext& store, const Digest& digest, std::uint64_t size);
// Best effort, like a stamp. Nothing to do for a blob up to kMidstatesAbove.
void WriteMidstates(const StoreContext& store, const Digest& digest, std::uint64_t size, const Midstates& midstates);

// Whether the `size` bytes of the file hash to the digest, read and hashed by up to `threads` threads. false says nothing of the file:
// it, the states or the disk may be at fault, and the hash from the first byte to the last tells. `step` is called on the calling
// thread, with the number of bytes just done.
bool ProveByMidstates(Sys& sys, const UniqueFd& fd, const Digest& digest, std::uint64_t size, const Midstates& midstates,
                      std::uint32_t threads, const std::function<void(std::uint64_t)>& step);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_MIDSTATES_H_
