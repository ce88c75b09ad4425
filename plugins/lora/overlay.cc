#include "plugins/lora/overlay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace veneer_lora {
namespace {

constexpr uint32_t kRowsAtOnce = 64;  // row pointers on the stack
constexpr uint64_t kChunk = 256;      // columns of one weight row at once

}  // namespace

double LoraOverlay::Factor::at(uint64_t index) const {
  vnr_tensor view{};
  view.dtype = dtype;
  view.data = bytes.data();
  return static_cast<double>(veneer::element(view, index));
}

void LoraOverlay::bind(const vnr_site& site, const veneer::source& source) {
  is_embedding_ = site.shape_class == VNR_SITE_EMBEDDING;
  const vnr_tensor& a = source.get(is_embedding_ ? "embedding_A" : "A");
  const vnr_tensor& b = source.get(is_embedding_ ? "embedding_B" : "B");
  rank_ = a.dims[0];
  columns_ = a.dims[1];
  lanes_ = b.dims[0];
  a_.dtype = a.dtype;
  b_.dtype = b.dtype;
  const double scale = source.strength() * source.number("/scale", 1.0);
  scale_ = static_cast<float>(scale);
  if (!std::isfinite(scale_)) throw veneer::error{VNR_E_NUMERIC, "strength times scale is not finite in f32"};
  edits_weight_ = scale_ != 0 && !veneer::is_zero(a) && !veneer::is_zero(b);
  const vnr_tensor* bias = source.find("bias");
  edits_bias_ = scale_ != 0 && bias != nullptr;
}

bool LoraOverlay::shrinks_by_onednn(const vnr_limits& limits) const {
  return edits_weight_ && !is_embedding_ && limits.min_det == 1 && limits.max_token_block >= Shrink::kTokens &&
         Shrink::IsFaster(columns_, rank_, a_.dtype);
}

veneer::costs LoraOverlay::cost(const vnr_site&, const vnr_limits& limits) const {
  veneer::costs cost;
  if (edits_weight_) cost.resident += rank_ * (columns_ * a_.width() + groups() * kGroup * b_.width());
  if (edits_bias_) cost.resident += lanes_ * sizeof(float);
  if (shrinks_by_onednn(limits)) cost.opaque = Shrink::OpaqueBytes();
  return cost;
}

void LoraOverlay::StageA(const veneer::stager& stager) {
  const vnr_tensor& source = stager.get(is_embedding_ ? "embedding_A" : "A");
  if (!is_embedding_) {
    a_.bytes = stager.copy("A");
    return;
  }
  const uint64_t width = a_.width();
  a_.bytes = stager.alloc<unsigned char>(rank_ * columns_ * width);
  const auto* from = static_cast<const unsigned char*>(source.data);
  for (uint64_t token = 0; token < columns_; token++) {
    if (token % 1024 == 0) stager.poll();
    for (uint64_t u = 0; u < rank_; u++) std::memcpy(&a_.bytes[(token * rank_ + u) * width], from + (u * columns_ + token) * width, width);
  }
}

void LoraOverlay::StageB(const veneer::stager& stager) {
  const auto* from = static_cast<const unsigned char*>(stager.get(is_embedding_ ? "embedding_B" : "B").data);
  const uint64_t width = b_.width();
  b_.bytes = stager.alloc<unsigned char>(groups() * kGroup * rank_ * width);
  std::memset(b_.bytes.data(), 0, b_.bytes.size());
  for (uint64_t lane = 0; lane < lanes_; lane++) {
    if (lane % 1024 == 0) stager.poll();
    for (uint64_t u = 0; u < rank_; u++)
      std::memcpy(&b_.bytes[((lane / kGroup * rank_ + u) * kGroup + lane % kGroup) * width], from + (lane * rank_ + u) * width, width);
  }
}

veneer::program LoraOverlay::stage(const veneer::stager& stager) {
  veneer::program program;
  program.flags = (edits_weight_ ? uint32_t{VNR_ADDS_Y} : 0U) | (edits_bias_ ? uint32_t{VNR_EDITS_BIAS} : 0U);
  if (edits_bias_) bias_ = stager.load("bias");
  if (!edits_weight_) return program;
  kernels_ = veneer::kernels::Permitted(stager.host->cpu_features);
  expand_ = SelectExpand(b_.dtype, stager.host->cpu_features);
  StageA(stager);
  StageB(stager);
  program.lane_quantum = kGroup;
  program.prepare_units = is_embedding_ ? 1 : static_cast<uint32_t>(rank_);
  program.prepared_bytes_per_token = rank_ * sizeof(float);
  uses_onednn_ = shrinks_by_onednn(*stager.limits) && shrink_.Create(columns_, rank_);
  if (uses_onednn_) {
    program.flags |= VNR_ALLOCATES_FOR_TOKENS;
    program.det_level = 1;
    program.thread_scratch_bytes = shrink_.scratch_bytes();
  }
  return program;
}

// t[token, u] = sum_i A[u, i] x[token, i] in the kernels' fixed order.
void LoraOverlay::DotRows(const veneer::io& io, uint32_t token0, uint32_t token1, uint32_t unit0, uint32_t unit1) const noexcept {
  if (token0 == token1) return;
  const void* rows[kRowsAtOnce];
  const uint64_t row_bytes = columns_ * a_.width(), stride = io.raw->prepared_stride / sizeof(float);
  for (uint32_t first = unit0; first < unit1; first += kRowsAtOnce) {
    const uint32_t n = std::min(kRowsAtOnce, unit1 - first);
    for (uint32_t r = 0; r < n; r++) rows[r] = &a_.bytes[(first + r) * row_bytes];
    kernels_->dot_rows[a_.dtype](rows, n, columns_, io.x(token0), io.raw->x_stride, token1 - token0, io.prep(token0) + first, stride);
  }
}

// t[u] = c * sum_i A[u, i] x[i]; one unit is one row of A. The host cuts units by its threads for one token only (ABI.md, rule T4), so
// whether oneDNN takes part does not depend on the number of threads.
void LoraOverlay::prepare(const vnr_site&, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept {
  if (!edits_weight_ || unit0 >= unit1) return;
  if (is_embedding_) {
    for (uint32_t t = 0; t < io.T(); t++)
      kernels_->dequantize[a_.dtype](&a_.bytes[static_cast<uint64_t>(io.id(t)) * rank_ * a_.width()], io.prep(t), rank_);
    unit1 = static_cast<uint32_t>(rank_);
  } else {
    uint32_t done = 0;
    if (uses_onednn_ && unit0 == 0 && unit1 == rank_) {
      const auto* a = reinterpret_cast<const float*>(a_.bytes.data());
      const uint64_t stride = io.raw->prepared_stride / sizeof(float);
      while (done + Shrink::kTokens <= io.T() && shrink_.Run(io.x(done), io.raw->x_stride, a, io.prep(done), stride, io.raw->scratch))
        done += Shrink::kTokens;
    }
    DotRows(io, done, io.T(), unit0, unit1);
  }
  for (uint32_t t = 0; t < io.T(); t++)
    for (uint32_t u = unit0; u < unit1; u++) io.prep(t)[u] *= scale_;
}

void LoraOverlay::apply(const vnr_site&, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  if (!edits_weight_) return;
  expand_({b_.bytes.data(), rank_, io.prep(0), io.raw->prepared_stride / sizeof(float), io.y(0), io.raw->y_stride, io.T(), lane0, lane1});
}

// In f64 and without the kernels, so that the two ways check each other.
void LoraOverlay::weight_row(const vnr_site& site, uint64_t row, float* w) const {
  if (!edits_weight_) return;
  const auto b_at = [this](uint64_t lane, uint64_t u) { return b_.at((lane / kGroup * rank_ + u) * kGroup + lane % kGroup); };
  double sum[kChunk];
  for (uint64_t first = 0; first < site.in; first += kChunk) {
    const uint64_t n = std::min(kChunk, site.in - first);
    std::fill_n(sum, n, 0.0);
    for (uint64_t u = 0; u < rank_; u++) {
      const double of_row = is_embedding_ ? a_.at(row * rank_ + u) : b_at(row, u);
      for (uint64_t i = 0; i < n; i++) sum[i] += of_row * (is_embedding_ ? b_at(first + i, u) : a_.at(u * columns_ + first + i));
    }
    for (uint64_t i = 0; i < n; i++)
      w[first + i] = static_cast<float>(static_cast<double>(w[first + i]) + static_cast<double>(scale_) * sum[i]);
  }
}

void LoraOverlay::bias(const vnr_site&, float* b, uint64_t n) const {
  if (!edits_bias_) return;
  for (uint64_t i = 0; i < n; i++)
    b[i] = static_cast<float>(static_cast<double>(b[i]) + static_cast<double>(scale_) * static_cast<double>(bias_[i]));
}

std::string LoraOverlay::describe(const vnr_site&) const {
  char scale[40];
  std::snprintf(scale, sizeof scale, "%.9g", static_cast<double>(scale_));
  std::replace(scale, scale + std::strlen(scale), ',', '.');  // some locales
  return "\"rank\":" + std::to_string(rank_) + ",\"scale\":" + scale;
}

}  // namespace veneer_lora
