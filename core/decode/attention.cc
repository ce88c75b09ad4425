#include "core/decode/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace veneer {

RopeTable::RopeTable(const ModelConfig& config, std::uint32_t max_tokens) : half_(config.head_dim / 2) {
  for (std::uint32_t i = 0; i < half_; ++i) {
    const double exponent = -2.0 * i / config.head_dim;
    double inverse = std::pow(static_cast<double>(config.rope_base), exponent) * static_cast<double>(config.rope_frequency_scale);
    if (!config.rope_factors.empty()) inverse /= static_cast<double>(config.rope_factors[i]);
    inverse_.push_back(inverse);
  }
  cos_.resize(std::size_t{max_tokens} * half_);
  sin_.resize(cos_.size());
}

void RopeTable::Fill(std::uint32_t first, std::uint32_t tokens) {
  for (std::uint32_t t = 0; t < tokens; ++t) {
    for (std::uint32_t i = 0; i < half_; ++i) {
      const double theta = (first + t) * inverse_[i];
      cos_[std::size_t{t} * half_ + i] = static_cast<float>(std::cos(theta));
      sin_[std::size_t{t} * half_ + i] = static_cast<float>(std::sin(theta));
    }
  }
}

Attention::Attention(const ModelConfig& config, std::uint32_t context, std::uint32_t n_workers, const kernels::Table& kernels)
    : config_(config), context_(context), kernels_(&kernels), scores_(std::size_t{context} * n_workers) {}

void Attention::Store(const Batch& batch, std::uint32_t layer, std::uint32_t t, const RopeTable& rope, KvCache& cache) const {
  const std::uint64_t d = config_.head_dim;
  const std::uint64_t q_width = config_.n_heads * d, kv_width = cache.kv_width();
  for (std::uint32_t head = 0; head < config_.n_heads; ++head)
    kernels_->rope(batch.q + t * q_width + head * d, rope.cos(t), rope.sin(t), d);
  float* k = batch.k + t * kv_width;
  for (std::uint32_t head = 0; head < config_.n_kv_heads; ++head) kernels_->rope(k + head * d, rope.cos(t), rope.sin(t), d);
  std::byte* key = cache.Key(layer, batch.position + t);
  std::byte* value = cache.Value(layer, batch.position + t);
  const float* v = batch.v + t * kv_width;
  if (cache.type() == KvType::kF32) {
    std::memcpy(key, k, kv_width * sizeof(float));
    std::memcpy(value, v, kv_width * sizeof(float));
  } else {
    kernels_->to_f16(k, reinterpret_cast<std::uint16_t*>(key), kv_width);
    kernels_->to_f16(v, reinterpret_cast<std::uint16_t*>(value), kv_width);
  }
}

void Attention::Attend(const Batch& batch, std::uint32_t layer, std::uint32_t t, std::uint32_t head, KvCache& cache, float* scores) const {
  const std::uint64_t d = config_.head_dim;
  const std::uint32_t kv_head = head / (config_.n_heads / config_.n_kv_heads);
  const float* q = batch.q + (std::uint64_t{t} * config_.n_heads + head) * d;
  float* out = batch.out + (std::uint64_t{t} * config_.n_heads + head) * d;
  const std::uint32_t visible = batch.position + t + 1;
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  const std::uint64_t step = cache.row_bytes(), offset = kv_head * d * (step / cache.kv_width());
  const std::byte* key = cache.Key(layer, 0) + offset;
  const std::byte* value = cache.Value(layer, 0) + offset;
  const bool is_f32 = cache.type() == KvType::kF32;
  for (std::uint32_t p = 0; p < visible; ++p)
    scores[p] = scale * (is_f32 ? kernels_->dot(q, reinterpret_cast<const float*>(key + p * step), d)
                                : kernels_->dot_f16(q, reinterpret_cast<const std::uint16_t*>(key + p * step), d));
  kernels_->softmax(scores, visible);
  std::fill_n(out, d, 0.0F);
  for (std::uint32_t p = 0; p < visible; ++p) {
    if (is_f32) {
      kernels_->axpy(scores[p], reinterpret_cast<const float*>(value + p * step), out, d);
    } else {
      kernels_->axpy_f16(scores[p], reinterpret_cast<const std::uint16_t*>(value + p * step), out, d);
    }
  }
}

void Attention::Run(ThreadPool& pool, std::uint32_t worker, std::uint32_t layer, const Batch& batch, const RopeTable& rope,
                    KvCache& cache) {
  const auto tokens = pool.Share(batch.tokens, worker);
  for (std::uint64_t t = tokens.begin; t < tokens.end; ++t) Store(batch, layer, static_cast<std::uint32_t>(t), rope, cache);
  pool.Barrier();
  float* scores = scores_.data() + std::size_t{worker} * context_;
  // Later tokens see more positions: workers take every n-th item, which spreads the long rows evenly.
  for (std::uint64_t item = worker; item < std::uint64_t{batch.tokens} * config_.n_heads; item += pool.size())
    Attend(batch, layer, static_cast<std::uint32_t>(item / config_.n_heads), static_cast<std::uint32_t>(item % config_.n_heads), cache,
           scores);
}

}  // namespace veneer
