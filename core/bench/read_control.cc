#include "core/bench/read_control.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "core/bench/statistics.h"

namespace veneer {
namespace {

constexpr std::uint64_t kStreams = 4;  // far apart, each: best of 1, 4 and 8 on the machines measured
constexpr std::uint64_t kStep = 64;

using Words = std::uint64_t __attribute__((vector_size(16)));  // of every x86-64 and aarch64

Words Load(const std::byte* at) {
  Words words;
  std::memcpy(&words, at, sizeof words);
  return words;
}

Words Step(const std::byte* at) { return (Load(at) ^ Load(at + 16)) ^ (Load(at + 32) ^ Load(at + 48)); }

// Every byte of the part, but for the last few, in four streams whose distance is no multiple of 4 KiB: those would share the sets of
// the L1 cache.
std::uint64_t ReadPart(std::span<const std::byte> part) {
  const std::uint64_t steps = part.size() / kStreams / kStep;
  const std::uint64_t quarter = steps == 0 ? 0 : ((steps - 1) | 1) * kStep;  // an odd number of steps
  Words seen[kStreams] = {};
  const std::byte* first = part.data();
  for (std::uint64_t at = 0; at < quarter; at += kStep)
    for (std::uint64_t stream = 0; stream < kStreams; ++stream) seen[stream] ^= Step(first + stream * quarter + at);
  for (std::uint64_t at = kStreams * quarter; at + kStep <= part.size(); at += kStep) seen[0] ^= Step(first + at);
  const Words all = (seen[0] ^ seen[1]) ^ (seen[2] ^ seen[3]);
  return all[0] ^ all[1];
}

}  // namespace

std::vector<std::span<const std::byte>> LinearWeights(const Base& base) {
  std::vector<std::span<const std::byte>> parts;
  for (const Site& site : base.sites().sites())
    if (site.shape_class == SiteClass::kLinear) parts.push_back(site.weight.bytes);
  return parts;
}

ReadControl::ReadControl(std::vector<std::span<const std::byte>> parts, std::uint32_t threads) : parts_(std::move(parts)), pool_(threads) {
  for (const auto& part : parts_) bytes_ += part.size();
}

ReadControl::ReadControl(const Base& base, std::uint32_t threads) : ReadControl(LinearWeights(base), threads) {}

double ReadControl::Pass() {
  std::atomic<std::uint64_t> seen{0};  // so that no read is left out
  const auto start = BenchClock::now();
  const auto body = [&](std::uint32_t worker) {
    std::uint64_t mine = 0;
    for (const auto& part : parts_) {
      const auto [begin, end] = pool_.Share(part.size(), worker);
      mine ^= ReadPart(part.subspan(begin, end - begin));
    }
    seen ^= mine;
  };
  pool_.Run(body);
  return static_cast<double>(bytes_) / MsSince(start) / 1e6;
}

double ReadControl::GbPerS(int n) {
  std::vector<double> passes;
  for (int i = 0; i < n; ++i) passes.push_back(Pass());
  return MedianOf(std::move(passes));
}

}  // namespace veneer
