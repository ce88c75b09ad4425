#include "core/decode/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace veneer {
namespace {

constexpr std::size_t kWindow = 64;  // tokens the repetition penalty looks back

}  // namespace

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {  // splitmix64
    seed += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Random::Next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

TokenId ArgMax(std::span<const float> logits) { return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()); }

void Sampler::Accept(TokenId token) {
  if (recent_.size() == kWindow) recent_.erase(recent_.begin());
  recent_.push_back(token);
}

void Sampler::Penalize() {
  if (options_.repeat_penalty == 1.0F) return;
  for (auto& [logit, id] : candidates_) {
    if (std::ranges::find(recent_, id) == recent_.end()) continue;
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
  }
}

void Sampler::KeepTopK() {
  const auto before = [](const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; };
  std::size_t k = options_.top_k == 0 ? candidates_.size() : options_.top_k;
  k = std::min(k, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k), candidates_.end(), before);
  candidates_.resize(k);
}

// The candidates are sorted, likeliest first, from here on.
void Sampler::KeepTopP() {
  if (options_.top_p >= 1.0F) return;
  double total = 0;
  for (const Candidate& candidate : candidates_) total += std::exp(static_cast<double>(candidate.logit - candidates_[0].logit));
  double sum = 0;
  std::size_t kept = 0;
  while (kept < candidates_.size() && (kept == 0 || sum < static_cast<double>(options_.top_p) * total))
    sum += std::exp(static_cast<double>(candidates_[kept++].logit - candidates_[0].logit));
  candidates_.resize(kept);
}

void Sampler::KeepMinP() {
  if (options_.min_p <= 0.0F) return;
  const double floor = static_cast<double>(candidates_[0].logit) + std::log(static_cast<double>(options_.min_p));
  std::size_t kept = 1;
  while (kept < candidates_.size() && static_cast<double>(candidates_[kept].logit) >= floor) ++kept;
  candidates_.resize(kept);
}

TokenId Sampler::Sample(std::span<const float> logits) {
  candidates_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_[i] = {logits[i], static_cast<TokenId>(i)};
  Penalize();
  TokenId token = 0;
  if (options_.temperature == 0) {
    token = std::ranges::max_element(candidates_, {}, &Candidate::logit)->id;
  } else {
    KeepTopK();
    KeepTopP();
    KeepMinP();
    const double temperature = static_cast<double>(options_.temperature);
    const auto weight = [&](const Candidate& c) { return std::exp(static_cast<double>(c.logit - candidates_[0].logit) / temperature); };
    double total = 0;
    for (const Candidate& candidate : candidates_) total += weight(candidate);
    double rest = random_.Unit() * total;
    token = candidates_.back().id;
    for (const Candidate& candidate : candidates_) {
      rest -= weight(candidate);
      if (rest < 0) {
        token = candidate.id;
        break;
      }
    }
  }
  Accept(token);
  return token;
}

}  // namespace veneer
