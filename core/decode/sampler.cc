#include "core/decode/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace veneer {
namespace {

constexpr std::size_t kWindow = 64;  // tokens the repetition penalty looks back

}  // namespace

Status CheckSampling(const SamplingOptions& options) {
  const auto refuse = [](const char* option, float value, const char* allowed) {
    return Fail(Code::USAGE, option, fmt::format("{}, allowed is {}", value, allowed));
  };
  constexpr float kMax = std::numeric_limits<float>::max();
  if (!(options.temperature >= 0 && options.temperature <= kMax)) return refuse("--temp", options.temperature, "0 (greedy) or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) return refuse("--top-p", options.top_p, "more than 0, at most 1 (all)");
  if (!(options.min_p >= 0 && options.min_p <= 1)) return refuse("--min-p", options.min_p, "0 (all) to 1");
  if (!(options.repeat_penalty > 0 && options.repeat_penalty <= kMax))
    return refuse("--repeat-penalty", options.repeat_penalty, "more than 0; 1 is none");
  return {};
}

Random::State Random::Seeded(std::uint64_t seed) {
  State state;
  for (std::uint64_t& word : state) {
    seed += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    word = z ^ (z >> 31);
  }
  return state;
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

Sampler::Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) { recent_.reserve(kWindow); }

void Sampler::Accept(TokenId token) {
  if (recent_.size() == kWindow) recent_.erase(recent_.begin());
  recent_.push_back(token);
}

void Sampler::Penalize() {
  if (options_.repeat_penalty == 1.0F) return;
  for (auto token = recent_.begin(); token != recent_.end(); ++token) {
    if (*token < 0 || static_cast<std::size_t>(*token) >= candidates_.size() || std::find(recent_.begin(), token, *token) != token)
      continue;
    float& logit = candidates_[static_cast<std::size_t>(*token)].logit;
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

TokenId Sampler::Draw() {
  const auto weight = [this](const Candidate& candidate) {
    return std::exp(static_cast<double>(candidate.logit - candidates_[0].logit) / static_cast<double>(options_.temperature));
  };
  double total = 0;
  for (const Candidate& candidate : candidates_) total += weight(candidate);
  double rest = random_.Unit() * total;
  for (const Candidate& candidate : candidates_) {
    rest -= weight(candidate);
    if (rest < 0) return candidate.id;
  }
  return candidates_.back().id;  // rounding left a rest
}

TokenId Sampler::Sample(std::span<const float> logits) {
  candidates_.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_[i] = {logits[i], static_cast<TokenId>(i)};
  Penalize();
  TokenId token;
  if (options_.temperature == 0) {
    token = std::ranges::max_element(candidates_, {}, &Candidate::logit)->id;  // the first, so the lowest id, of equals
  } else {
    KeepTopK();
    KeepTopP();
    KeepMinP();
    token = Draw();
  }
  Accept(token);
  return token;
}

}  // namespace veneer
