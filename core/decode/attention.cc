#include "core/decode/attention.h"

#include <algorithm>
#include <array>
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

std::uint64_t Attention::Bytes(std::uint32_t context, std::uint32_t n_workers) {
  return std::uint64_t{context} * n_workers * kHeadsAtOnce * sizeof(float);
}

Attention::Attention(const ModelConfig& config, std::uint32_t context, std::uint32_t n_workers, const kernels::Table& kernels)
    : head_dim_(config.head_dim),
      n_heads_(config.n_heads),
      n_kv_heads_(config.n_kv_heads),
      context_(context),
      rms_epsilon_(config.rms_epsilon),
      kernels_(&kernels),
      scores_(Bytes(context, n_workers) / sizeof(float)) {}

// Norms each head where the architecture does, then turns it to its position. In place: rms_norm sums the squares before it writes, and
// writes each element from itself alone (attention_test.cc holds every table to it).
void Attention::Place(float* heads, std::uint32_t n_heads, const float* norm, std::uint32_t t, const RopeTable& rope) const {
  for (std::uint32_t head = 0; head < n_heads; ++head, heads += head_dim_) {
    if (norm != nullptr) kernels_->rms_norm(heads, norm, rms_epsilon_, head_dim_, heads);
    kernels_->rope(heads, rope.cos(t), rope.sin(t), head_dim_);
  }
}

void Attention::Store(const Batch& batch, std::uint32_t layer, std::uint32_t t, const HeadNorms& norms, const RopeTable& rope,
                      KvCache& cache) const {
  const std::uint64_t kv_width = cache.kv_width();
  float* k = batch.k + t * kv_width;
  Place(batch.q + t * n_heads_ * head_dim_, n_heads_, norms.q, t, rope);
  Place(k, n_kv_heads_, norms.k, t, rope);
  StoreRow(cache.type(), k, kv_width, cache.Key(layer, batch.position + t));
  StoreRow(cache.type(), batch.v + t * kv_width, kv_width, cache.Value(layer, batch.position + t));
}

void Attention::StoreRow(KvType type, const float* x, std::uint64_t n, std::byte* row) const {
  switch (type) {
    case KvType::kF32:
      std::memcpy(row, x, n * sizeof(float));
      return;
    case KvType::kF16:
      kernels_->to_f16(x, reinterpret_cast<std::uint16_t*>(row), n);
      return;
    case KvType::kQ8_0:
      kernels_->to_q8_0(x, row, n);
      return;
  }
}

// scores[h * context + p] = q_h . k_p, with q in f32 whatever the type of k: quantizing q as well would take half the time over keys in
// q8_0, and add as much error again as storing them so does.
void Attention::Score(const std::byte* keys, std::uint64_t step, KvType type, const float* q, std::uint32_t n_heads, std::uint32_t visible,
                      float* scores) const {
  constexpr std::uint32_t kRows = 64;  // row pointers on the stack
  std::array<const void*, kRows> rows;
  const auto dot_rows = kernels_->dot_rows[static_cast<DType>(type)];
  for (std::uint32_t first = 0; first < visible; first += kRows) {
    const std::uint32_t n = std::min(kRows, visible - first);
    for (std::uint32_t r = 0; r < n; ++r) rows[r] = keys + (first + r) * step;
    dot_rows(rows.data(), n, head_dim_, q, head_dim_, n_heads, scores + first, context_);
  }
}

void Attention::AddValues(KvType type, const kernels::Table::RowSum& sum) const {
  switch (type) {
    case KvType::kF32:
      kernels_->axpy_rows(sum);
      return;
    case KvType::kF16:
      kernels_->axpy_rows_f16(sum);
      return;
    case KvType::kQ8_0:
      kernels_->axpy_rows_q8_0(sum);
      return;
  }
}

void Attention::Attend(const Batch& batch, std::uint32_t layer, std::uint32_t t, std::uint32_t head, std::uint32_t n_heads, KvCache& cache,
                       float* scores) const {
  const std::uint64_t d = head_dim_;
  const std::uint32_t kv_head = head / (n_heads_ / n_kv_heads_);
  const std::uint64_t at = (std::uint64_t{t} * n_heads_ + head) * d;
  const std::uint32_t visible = batch.position + t + 1;
  const std::uint64_t step = cache.row_bytes(), offset = kv_head * (step / n_kv_heads_);
  Score(cache.Key(layer, 0) + offset, step, cache.type(), batch.q + at, n_heads, visible, scores);

  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  for (std::uint32_t h = 0; h < n_heads; ++h) {
    float* row = scores + std::uint64_t{h} * context_;
    for (std::uint32_t p = 0; p < visible; ++p) row[p] *= scale;
    kernels_->softmax(row, visible);
  }
  // Some positions at a time for all heads, so that their values are read from memory once.
  constexpr std::uint32_t kPositions = 32;
  float* out = batch.out + at;
  std::fill_n(out, n_heads * d, 0.0F);
  const std::byte* values = cache.Value(layer, 0) + offset;
  for (std::uint32_t p = 0; p < visible; p += kPositions) {
    const kernels::Table::RowSum sum{values + p * step, step, std::min(kPositions, visible - p), d, scores + p, context_, out, d, n_heads};
    AddValues(cache.type(), sum);
  }
}

void Attention::Run(ThreadPool& pool, std::uint32_t worker, std::uint32_t layer, const Batch& batch, const HeadNorms& norms,
                    const RopeTable& rope, KvCache& cache) {
  const auto tokens = pool.Share(batch.tokens, worker);
  for (std::uint64_t t = tokens.begin; t < tokens.end; ++t) Store(batch, layer, static_cast<std::uint32_t>(t), norms, rope, cache);
  pool.Barrier();
  float* scores = scores_.data() + std::size_t{worker} * kHeadsAtOnce * context_;
  const std::uint32_t group = n_heads_ / n_kv_heads_;  // heads over one K/V head
  const std::uint32_t at_once = batch.tokens == 1 ? kHeadsAtOnceOfOneToken : kHeadsAtOnce;
  const std::uint32_t parts = (group + at_once - 1) / at_once, items_of_token = n_kv_heads_ * parts;
  const std::uint64_t n_items = std::uint64_t{batch.tokens} * items_of_token;
  for (auto mine = pool.Claim(n_items, 1, worker); mine.begin < mine.end; mine = pool.Claim(n_items, 1, worker)) {
    const auto t = static_cast<std::uint32_t>(mine.begin / items_of_token),
               of_token = static_cast<std::uint32_t>(mine.begin % items_of_token);
    const std::uint32_t in_group = of_token % parts * at_once;
    Attend(batch, layer, t, of_token / parts * group + in_group, std::min(at_once, group - in_group), cache, scores);
  }
}

}  // namespace veneer
