// Grouped-query causal attention over the K/V cache, with rotary position embedding in Hugging Face (rotate-half) order.
#ifndef VENEER_CORE_DECODE_ATTENTION_H_
#define VENEER_CORE_DECODE_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "core/decode/kv_cache.h"
#include "core/decode/thread_pool.h"
#include "core/model/base.h"
#include "kernels/kernels.h"

namespace veneer {

// Cosines and sines of one position: theta_i = pos * base^(-2i/d) * frequency_scale / factor_i, computed in f64.
class RopeTable {
 public:
  RopeTable(const ModelConfig& config, std::uint32_t max_tokens);
  // Fills the rows of positions first … first + tokens - 1.
  void Fill(std::uint32_t first, std::uint32_t tokens);
  [[nodiscard]] const float* cos(std::uint32_t t) const { return cos_.data() + t * half_; }
  [[nodiscard]] const float* sin(std::uint32_t t) const { return sin_.data() + t * half_; }
  [[nodiscard]] std::uint64_t bytes() const { return (cos_.size() + sin_.size()) * sizeof(float) + inverse_.size() * sizeof(double); }
  static std::uint64_t Bytes(std::uint32_t head_dim, std::uint32_t max_tokens) {
    return (max_tokens + 1) * std::uint64_t{head_dim} * sizeof(float);
  }

 private:
  std::uint32_t half_;
  std::vector<double> inverse_;   // [head_dim / 2]
  std::vector<float> cos_, sin_;  // [max_tokens, head_dim / 2]
};

class Attention {
 public:
  // `context`: capacity of the cache. Scratch for scores: kHeadsAtOnce rows of `context` floats per worker.
  Attention(const ModelConfig& config, std::uint32_t context, std::uint32_t n_workers, const kernels::Table& kernels);
  static std::uint64_t Bytes(std::uint32_t context, std::uint32_t n_workers);

  // Buffers of one batch: q [tokens, n_heads * head_dim], k and v [tokens, n_kv_heads * head_dim], out as q.
  struct Batch {
    float *q, *k, *v, *out;
    std::uint32_t tokens;
    std::uint32_t position;  // of the first token
  };
  // Weights [head_dim] of a layer's RMS norms over each head of q and of k; nullptr where the architecture has none.
  struct HeadNorms {
    const float *q = nullptr, *k = nullptr;
  };
  // Called by every worker: norms each head of q and k, rotates them, stores k and v at their positions, then (after a barrier) attends. An
  // item is one token and up to kHeadsAtOnce heads that share a K/V head, computed by one worker alone; a head's bits do not depend on its
  // companions.
  void Run(ThreadPool& pool, std::uint32_t worker, std::uint32_t layer, const Batch& batch, const HeadNorms& norms, const RopeTable& rope,
           KvCache& cache);

  [[nodiscard]] std::uint64_t bytes() const { return scores_.size() * sizeof(float); }

 private:
  void Place(float* heads, std::uint32_t n_heads, const float* norm, std::uint32_t t, const RopeTable& rope) const;
  void Store(const Batch& batch, std::uint32_t layer, std::uint32_t t, const HeadNorms& norms, const RopeTable& rope, KvCache& cache) const;
  void Attend(const Batch& batch, std::uint32_t layer, std::uint32_t t, std::uint32_t head, std::uint32_t n_heads, KvCache& cache,
              float* scores) const;
  void StoreRow(KvType type, const float* x, std::uint64_t n, std::byte* row) const;
  void Score(const std::byte* keys, std::uint64_t step, KvType type, const float* q, std::uint32_t n_heads, std::uint32_t visible,
             float* scores) const;
  void AddValues(KvType type, const kernels::Table::RowSum& sum) const;

  // Enough to share the reading of K and V; few enough, where there is one token alone, to keep all workers busy.
  static constexpr std::uint32_t kHeadsAtOnce = 8, kHeadsAtOnceOfOneToken = 4;
  std::uint64_t head_dim_;
  std::uint32_t n_heads_, n_kv_heads_, context_;
  float rms_epsilon_;
  const kernels::Table* kernels_;
  std::vector<float> scores_;  // [n_workers, kHeadsAtOnce, context]
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_ATTENTION_H_
