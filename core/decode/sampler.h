// Logits to a token: greedy or sampled, reproducible by seed on every machine.
#ifndef VENEER_CORE_DECODE_SAMPLER_H_
#define VENEER_CORE_DECODE_SAMPLER_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/model/tokenizer.h"

namespace veneer {

// Applied in this order: repetition penalty, top-k, top-p, min-p, temperature. Defaults are llama.cpp's, the penalty off.
struct SamplingOptions {
  float temperature = 0.8F;     // at least 0; 0: greedy, ties go to the lowest id, nothing else but the penalty applies
  std::uint32_t top_k = 40;     // the likeliest k; 0: all
  float top_p = 0.95F;          // (0, 1]: the fewest likeliest whose probabilities reach it; 1: all
  float min_p = 0.05F;          // [0, 1]: those with at least this share of the likeliest one's probability; 0: all
  float repeat_penalty = 1.0F;  // above 0: logits of the last 64 tokens, each once: positive ones are divided, others multiplied by it
  std::uint64_t seed = 1;
};

// E901 naming the option that is out of its range.
Status CheckSampling(const SamplingOptions& options);

// xoshiro256** seeded through splitmix64 (Blackman and Vigna, prng.di.unimi.it): the same numbers everywhere.
class Random {
 public:
  using State = std::array<std::uint64_t, 4>;
  explicit Random(std::uint64_t seed) : Random(Seeded(seed)) {}
  explicit Random(const State& state) : state_(state) {}  // not all zeros
  static State Seeded(std::uint64_t seed);                // four steps of splitmix64
  std::uint64_t Next();
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // [0, 1)

 private:
  State state_;
};

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  // Tells the sampler about tokens of the prompt; Sample does it for what it returns.
  void Accept(TokenId token);
  // Logits of all ids, finite. One random number per call, none when greedy.
  TokenId Sample(std::span<const float> logits);

 private:
  struct Candidate {
    float logit;
    TokenId id;
  };
  void Penalize();
  void KeepTopK();
  void KeepTopP();
  void KeepMinP();
  TokenId Draw();

  SamplingOptions options_;
  Random random_;
  std::vector<TokenId> recent_;        // the last kWindow tokens
  std::vector<Candidate> candidates_;  // by id until KeepTopK, then likeliest first
};

// Index of the largest logit; the lowest of equals.
TokenId ArgMax(std::span<const float> logits);

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_SAMPLER_H_
