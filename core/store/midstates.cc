#include "core/store/midstates.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/base/run_on_threads.h"
#include "core/store/crc32c.h"
#include "core/store/stamps.h"

namespace veneer {
namespace {

constexpr std::string_view kSuffix = ".midstates";
constexpr std::size_t kStateHex = 64;
constexpr std::uint64_t kReadBytes = 256 << 10;  // stays in the cache of a core between the read and the hash
static_assert(kMidstateStep % kHashBlock == 0 && kMidstateStep % kReadBytes == 0);

std::string Header(const Digest& digest, std::uint64_t size) {
  return fmt::format("veneer-midstates 1\nfile {}\nsize {}\nstep {}\n", digest.Text(), size, kMidstateStep);
}

std::optional<HashState> ParseState(std::string_view hex) {
  HashState state;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const char* const word = hex.data() + 8 * i;
    const auto parsed = std::from_chars(word, word + 8, state[i], 16);
    if (parsed.ec != std::errc() || parsed.ptr != word + 8) return std::nullopt;
  }
  return state;
}

// The parts of one file, shared by the threads that prove it.
class Proof {
 public:
  Proof(Sys& sys, const UniqueFd& fd, const Digest& digest, std::uint64_t size, const Midstates& midstates)
      : sys_(sys), fd_(fd), digest_(digest), size_(size), midstates_(midstates) {}

  // Takes parts, in order, as long as there are any and none has failed. `buffer` has kReadBytes.
  void Work(std::span<std::byte> buffer, const std::function<void()>& after_read) {
    while (!failed_) {
      const std::uint64_t part = next_++;
      if (part > midstates_.size()) return;
      if (!Leads(part, buffer, after_read)) failed_ = true;
    }
  }
  [[nodiscard]] bool holds() const { return !failed_; }
  [[nodiscard]] std::uint64_t bytes_done() const { return bytes_done_; }

 private:
  // Whether the part leads from its state to the next one, or to the digest.
  bool Leads(std::uint64_t part, std::span<std::byte> buffer, const std::function<void()>& after_read) {
    const std::uint64_t begin = part * kMidstateStep, end = std::min(size_, begin + kMidstateStep);
    ResumableSha256 hash = part == 0 ? ResumableSha256() : ResumableSha256(midstates_[part - 1], begin);
    for (std::uint64_t at = begin; at < end;) {
      const auto got = sys_.Pread(fd_.get(), buffer.first(std::min<std::uint64_t>(buffer.size(), end - at)), at);
      if (!got && got.error() == EINTR) continue;
      if (!got || *got == 0 || failed_) return false;
      hash.Update(buffer.first(*got));
      at += *got;
      bytes_done_ += *got;
      after_read();
    }
    return part == midstates_.size() ? hash.Finish() == digest_ : hash.state() == midstates_[part];
  }

  Sys& sys_;
  const UniqueFd& fd_;
  const Digest& digest_;
  const std::uint64_t size_;
  const Midstates& midstates_;
  std::atomic<std::uint64_t> next_{0}, bytes_done_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace

void MidstateHasher::Update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    // Only here, before a further byte, is it known that the file goes on after the step.
    if (done_ > 0 && done_ % kMidstateStep == 0) midstates_.push_back(hash_.state());
    const auto part = bytes.first(std::min<std::uint64_t>(bytes.size(), kMidstateStep - done_ % kMidstateStep));
    hash_.Update(part);
    done_ += part.size();
    bytes = bytes.subspan(part.size());
  }
}

Digest MidstateHasher::Finish() { return hash_.Finish(); }

std::string MidstatesName(const Digest& digest) { return digest.Hex() + std::string(kSuffix); }

std::optional<Digest> DigestOfMidstates(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  const auto digest = ParseDigest(fmt::format("sha256:{}", name.substr(0, name.size() - kSuffix.size())), "");
  return digest ? std::optional(*digest) : std::nullopt;
}

std::string PrintMidstates(const Digest& digest, std::uint64_t size, const Midstates& midstates) {
  std::string text = Header(digest, size);
  text.reserve(text.size() + midstates.size() * (kStateHex + 1));
  for (const HashState& state : midstates) {
    for (const std::uint32_t word : state) fmt::format_to(std::back_inserter(text), "{:08x}", word);
    text += '\n';
  }
  return WithCrcLine(text);
}

std::optional<Midstates> ParseMidstates(std::string_view text, const Digest& digest, std::uint64_t size) {
  const auto body = CheckCrcLine(text);
  const std::string header = Header(digest, size);
  if (!body || !body->starts_with(header)) return std::nullopt;
  const std::string_view lines = body->substr(header.size());
  Midstates midstates;
  if (lines.size() / (kStateHex + 1) != MidstatesOf(size) || lines.size() % (kStateHex + 1) != 0) return std::nullopt;
  midstates.reserve(MidstatesOf(size));
  for (std::size_t at = 0; at < lines.size(); at += kStateHex + 1) {
    const auto state = ParseState(lines.substr(at, kStateHex));
    if (!state || lines[at + kStateHex] != '\n') return std::nullopt;
    midstates.push_back(*state);
  }
  return midstates;
}

std::optional<Midstates> ReadMidstates(const StoreContext& store, const Digest& digest, std::uint64_t size) {
  if (size <= kMidstatesAbove) return std::nullopt;
  const std::uint64_t limit = Header(digest, size).size() + MidstatesOf(size) * (kStateHex + 1) + kMaxStampBytes;
  const auto text = ReadSmallFile(*store.sys, store.verified, MidstatesName(digest), limit);
  if (!text || !*text) return std::nullopt;
  return ParseMidstates(**text, digest, size);
}

void WriteMidstates(const StoreContext& store, const Digest& digest, std::uint64_t size, const Midstates& midstates) {
  if (size <= kMidstatesAbove) return;
  // What comes of this is nobody's error, and what was done before it stands.
  (void)OrOutOfMemory([&]() -> Status { return WriteHint(store, MidstatesName(digest), PrintMidstates(digest, size, midstates)); });
}

bool ProveByMidstates(Sys& sys, const UniqueFd& fd, const Digest& digest, std::uint64_t size, const Midstates& midstates,
                      std::uint32_t threads, const std::function<void(std::uint64_t)>& step) {
  if (midstates.size() != MidstatesOf(size)) return false;
  const auto n = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(threads, 1, midstates.size() + 1));
  std::vector<std::byte> buffers(n * kReadBytes);  // made before there are threads, which cannot say that memory was refused
  Proof proof(sys, fd, digest, size, midstates);
  std::uint64_t said = 0;
  const auto say = [&] {
    const std::uint64_t done = proof.bytes_done();
    if (step && done > said) step(done - said);
    said = done;
  };
  RunOnThreads(n, [&](std::uint32_t thread) {
    proof.Work(std::span(buffers).subspan(thread * kReadBytes, kReadBytes), thread == 0 ? std::function<void()>(say) : [] {});
  });
  say();
  return proof.holds();
}

}  // namespace veneer
